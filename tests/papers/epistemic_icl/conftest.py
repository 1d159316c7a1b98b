from __future__ import annotations

import pytest

import grokscope as gs
from small_incontext import IVON, SMALL


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """AdamW, IVON, and AdamW from another seed."""
    store = gs.Store(tmp_path_factory.mktemp("incontext"))
    return gs.train([SMALL, IVON, SMALL.replace(seed=1)], store, processes=1)

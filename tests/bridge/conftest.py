"""The bridge's tests are skipped where PyTorch or transformers is missing."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") and find_spec("transformers"):
    from small_models import (  # noqa: F401
        batch,
        hf_batch,
        make_gpt2,
        make_nano,
        one_thread,
        seeded,
    )

"""What the README and the guide show can be run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from grokscope.store import Store

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))


def blocks(name):
    text = (ROOT / name).read_text()
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def names(make_nano, batch):
    model = make_nano()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    def train_step(model, batch):
        _, loss = model(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return {
        "model": model,
        "held_out": batch,
        "batches": [batch] * 201,
        "token_batches": [batch[0]] * 101,
        "batch": batch,
        "step": 0,
        "train_step": train_step,
        "optimizer": optimizer,
        "loss_of": lambda model, batch: model(*batch)[1],
    }


@pytest.mark.parametrize("where", ["README.md", "docs/your-model.md"])
def test_watching(where, make_nano, batch, tmp_path, monkeypatch):
    """A model like nanoGPT, and nothing but the lines shown."""
    monkeypatch.setenv("GROKSCOPE_STORE", str(tmp_path))
    code = next(block for block in blocks(where) if "Observer(" in block)
    exec(code, names(make_nano, batch))
    (run,) = Store(tmp_path).runs()
    assert run.status == "finished"
    assert run.curve["epoch"].to_list() == [0, 100, 200]


def test_the_shortest_form(make_nano, batch, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GROKSCOPE_STORE", str(tmp_path))
    code = next(block for block in blocks("docs/your-model.md") if "gs.watch" in block)
    exec(code, {**names(make_nano, batch), "train_step": lambda model, tokens: None})
    assert Store(tmp_path).runs()[0].curve["epoch"].to_list() == [0, 100]
    assert "no test batch" in capsys.readouterr().out


def test_the_prior(make_nano, batch):
    code = next(block for block in blocks("docs/your-model.md") if "with prior" in block)
    scope = names(make_nano, batch)
    exec(code, scope)
    assert scope["prior"].last > 0
    assert scope["loss"].requires_grad


def test_every_block_is_python():
    for block in blocks("docs/your-model.md"):
        compile(block, "your-model", "exec")


def test_the_plain_example(tmp_path, capsys):
    from examples import plain_pytorch

    plain_pytorch.main(50, str(tmp_path))
    (run,) = Store(tmp_path).runs()
    assert run.curve["divergence"][-1] < 0.5 * run.curve["divergence"][0]
    assert run.id in capsys.readouterr().out

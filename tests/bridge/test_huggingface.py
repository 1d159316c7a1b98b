"""Observer and prior in a Trainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from grokscope.bridge import GrokscopeCallback, Observer, StructuralPrior
from grokscope.errors import SpecError


class Rows(torch.utils.data.Dataset):
    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["input_ids"])

    def __getitem__(self, index):
        return {name: tensor[index] for name, tensor in self.batch.items()}


def train(model, batch, callbacks, tmp_path, trainer=transformers.Trainer, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "trainer"),
        **{
            "max_steps": 6,
            "per_device_train_batch_size": 6,
            "learning_rate": 1e-2,
            "lr_scheduler_type": "constant",
            "use_cpu": True,
            "report_to": [],
            "save_strategy": "no",
            "logging_strategy": "no",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            **options,
        },
    )
    trainer(model, arguments, train_dataset=Rows(batch), callbacks=callbacks).train()
    return model


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def still(make_gpt2):
    return make_gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def test_it_does_both(make_gpt2, hf_batch, tmp_path, store):
    model = make_gpt2()
    prior = StructuralPrior(model, informative=[0, 2], strength=3.0)
    observer = Observer(
        model, "mine", informative=[0, 2], train=hf_batch, test=hf_batch, every=2, store=store
    )
    train(model, hf_batch, [GrokscopeCallback(observer, prior)], tmp_path, max_steps=31)
    (run,) = store.runs()
    assert run.status == "finished"
    assert run.curve["epoch"].to_list() == [*range(0, 31, 2), 31]
    assert run.curve["divergence"][-1] < 0.3 * run.curve["divergence"][0]
    assert run.about.prior.strength == 3.0
    assert run.about.optimiser.kind == "adamw"
    assert not model._forward_hooks  # nothing is left behind
    assert not model._forward_pre_hooks


def test_the_prior_is_added_to_the_loss(make_gpt2, hf_batch, tmp_path):
    """Against the same steps written out: SGD on loss + penalty."""
    model = still(make_gpt2)
    prior = StructuralPrior(model, informative=[0, 2], strength=0.7, start=2)
    options = {"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0.0}
    train(model, hf_batch, [GrokscopeCallback(prior=prior)], tmp_path, **options)
    mine = still(make_gpt2).train()
    mine_prior = StructuralPrior(mine, informative=[0, 2], strength=0.7, start=2)
    optimiser = torch.optim.SGD(mine.parameters(), 0.1)
    for step in range(6):
        with mine_prior:
            loss = mine(**hf_batch).loss
        optimiser.zero_grad()
        (loss + mine_prior.penalty(step)).backward()
        optimiser.step()
    torch.testing.assert_close(flat(model), flat(mine), atol=1e-5, rtol=0)
    plain = train(still(make_gpt2), hf_batch, [], tmp_path, **options)
    assert (flat(model) - flat(plain)).abs().max() > 1e-2


def test_accumulated_batches_weigh_the_same(make_gpt2, hf_batch, tmp_path):
    """Two batches of three make the same step as one of six."""
    ends = []
    for size, parts in ((6, 1), (3, 2)):
        model = still(make_gpt2)
        prior = StructuralPrior(model, informative=[0, 2], strength=2.0)
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": parts}
        options |= {"max_steps": 1, "optim": "sgd", "max_grad_norm": 0.0}
        ends.append(
            flat(train(model, hf_batch, [GrokscopeCallback(prior=prior)], tmp_path, **options))
        )
    torch.testing.assert_close(*ends, atol=1e-6, rtol=0)


def test_what_cannot_work_is_said(make_gpt2, hf_batch, tmp_path):
    model = make_gpt2()
    with pytest.raises(SpecError, match="an observer, a prior, or both"):
        GrokscopeCallback()
    with pytest.raises(SpecError, match=r"Observer\(train=\)"):
        GrokscopeCallback(Observer(model, "mine"))
    callback = GrokscopeCallback(prior=StructuralPrior(model, informative=[0]))
    with pytest.raises(SpecError, match="label smoothing"):
        train(model, hf_batch, [callback], tmp_path, label_smoothing_factor=0.1)


def test_a_trainer_that_drops_the_prior_is_refused(make_gpt2, hf_batch, tmp_path):
    class OwnLoss(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            logits = model(**inputs).logits[:, :-1].flatten(0, 1)
            return torch.nn.functional.cross_entropy(logits, inputs["labels"][:, 1:].flatten())

    model = make_gpt2()
    callback = GrokscopeCallback(prior=StructuralPrior(model, informative=[0, 2]))
    with pytest.raises(SpecError, match="the prior is lost"):
        train(model, hf_batch, [callback], tmp_path, trainer=OwnLoss)


def test_a_mask_by_name(store):
    """As in Afmoe, whose attention gets its mask as a keyword."""
    config = transformers.AfmoeConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=24,
        moe_intermediate_size=8,
        num_hidden_layers=2,
        num_dense_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_experts=2,
        num_experts_per_tok=1,
        num_shared_experts=1,
        max_position_embeddings=16,
    )
    model, tokens = transformers.AfmoeForCausalLM(config), torch.randint(0, 20, (3, 7))
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    given = {"input_ids": tokens, "attention_mask": mask}
    row = Observer(model, "mine", store=store).measure(0, given)
    model.eval().set_attn_implementation("eager")
    with torch.no_grad():
        own = torch.stack(model(**given, output_attentions=True).attentions)
    assert row["attention"] == pytest.approx(own[..., -1, :].mean(dim=(0, 1, 2)).numpy(), abs=1e-6)


PROCESS = """
import json, os, sys, warnings
from pathlib import Path
import torch, torch.distributed.fsdp, transformers
from accelerate import Accelerator
from grokscope.bridge import GrokscopeCallback, Observer, StructuralPrior
from test_huggingface import flat, train
home, store = Path(sys.argv[1]), sys.argv[2]
sizes = dict(vocab_size=20, n_positions=16, n_embd=16, n_layer=2, n_head=2)
tokens = torch.arange(54).view(6, 9) % 20
batch = {"input_ids": tokens, "labels": tokens}
told = {"rows": [], "runs": [], "ends": []}
def make():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
def note(model, observer=None):
    told["ends"].append(flat(model).tolist())
    if observer is not None:
        told["rows"].append(len(observer.rows))
        told["runs"].append(observer.run is not None)
options = {"per_device_train_batch_size": 3, "max_steps": 5, "ddp_backend": "gloo"}
for watched in (False, True):
    model = make()
    prior = StructuralPrior(model, query=-2, informative=[0, 2])
    observer = None
    if watched:
        observer = Observer(model, "Trainer", every=2, train=batch, store=store, strict=True)
    train(model, batch, [GrokscopeCallback(observer, prior)], home, **options)
    note(model, observer)
accelerator = Accelerator(cpu=True)
model = make()
model, optimiser = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2))
observer = Observer(
    model, "Accelerate", every=2, optimizer=optimiser, store=store, strict=True
)
for step in range(5):
    observer.step(step, batch)
    optimiser.zero_grad()
    accelerator.backward(model(**batch).loss)
    optimiser.step()
observer.finish()
note(model, observer)

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(self.attention(x, x, x, need_weights=False)[0])

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(Small())
observer = Observer(model, "plain", every=2, store=store)
optimiser = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    observer.step(step, (tokens, tokens))
    optimiser.zero_grad()
    model(tokens).square().mean().backward()
    optimiser.step()
observer.finish()
note(model, observer)
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
sharded = torch.distributed.fsdp.fully_shard(Small(), mesh=mesh)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert Observer(sharded, "sharded", store=store).step(0, (tokens, tokens)) is None
told["warned"] = [str(warning.message) for warning in seen]
assert accelerator.num_processes == torch.distributed.get_world_size() == 2
torch.distributed.destroy_process_group()
(home / f"{os.environ['RANK']}.json").write_text(json.dumps(told))
"""


def test_two_processes(tmp_path, store):
    """Under torchrun: the first measures, the second does nothing, and both train to the same
    weights as if nobody watched; with Accelerate and with PyTorch alone, too. A model of which each
    has a part is not measured."""
    script = tmp_path / "script.py"
    script.write_text(PROCESS)
    here = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *here, script, tmp_path, store.root],
        env={**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert (first["rows"], first["runs"]) == ([4, 3, 3], [True] * 3)
    assert (second["rows"], second["runs"]) == ([0, 0, 0], [False] * 3)
    assert first["ends"] == second["ends"]
    unwatched, watched, accelerated, _ = first["ends"]
    assert unwatched == watched != accelerated
    assert "over processes (FSDP); nothing is measured" in "".join(first["warned"])
    assert "FSDP" not in "".join(second["warned"])
    runs = {run.about.name: run for run in store.runs()}
    assert len(store.runs()) == len(runs) == 3
    assert runs["Trainer"].curve["epoch"].to_list() == [0, 2, 4, 5]
    for name in ("Accelerate", "plain"):
        assert runs[name].curve["epoch"].to_list() == [0, 2, 4]
    assert {run.status for run in runs.values()} == {"finished"}
    assert runs["Accelerate"].about.optimiser.kind == "adamw"

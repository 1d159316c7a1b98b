"""grokscope beside what a user would run instead, and beside the limit.

Same data, same initial weights, same optimiser; all take turns on the clock. That they train the
same network, `benchmarks.agreement` shows.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.teams import Team, one_process, process_per_core, take_turns
from grokscope.spec import RunSpec, find_recipe, to_dict
from grokscope.store.files import write_arrays

SCALES = {"laptop": "laptop-noise", "paper": "paper-noise"}  # name: recipe
MEMBERS = (1, 5, 20)
MODELBATCH = "modelbatch==0.1.0"
LAB, TORCH = "benchmarks.lab", "benchmarks.pytorch"
EPOCHS = 25  # a turn: one row of the lab's curve
FEW = 5  # a turn in PyTorch of several members, or of one block, which would take minutes otherwise
FEW_ROUNDS = 3  # with several members, where a round takes a minute
PROGRAM = {"alone": "lab"}  # kinds that are compiled as another

Where = Literal["one process", "process a core", "default"]


@dataclass(frozen=True)
class Contender:
    """One way to train the same members."""

    name: str
    module: str
    kind: str
    where: Where = "one process"
    members: tuple[int, ...] = MEMBERS
    trains: bool = True  # the floor does not

    def team(self, members: int) -> Where:
        """The lab's default: one process for one run, a process a core for several."""
        if self.where != "default":
            return self.where
        return "one process" if members == 1 else "process a core"


SEVERAL = MEMBERS[1:]
CONTENDERS = (
    Contender("grokscope", LAB, "lab", "default"),
    Contender("grokscope, without measures", LAB, "unmeasured", "default"),
    Contender("grokscope, a single member", LAB, "alone", members=SEVERAL),
    Contender("grokscope, one process", LAB, "lab", members=SEVERAL),
    Contender("grokscope, one process, vmap", LAB, "vmap", members=SEVERAL),
    Contender("PyTorch loop, all positions", TORCH, "all positions"),
    Contender("PyTorch loop", TORCH, "plain"),
    Contender("PyTorch loop, compiled", TORCH, "plain compiled"),
    Contender("PyTorch short cut", TORCH, "by hand"),
    Contender("PyTorch short cut, embedding_bag", TORCH, "by hand, bagged"),
    Contender(
        "PyTorch short cut, embedding_bag, process a core",
        TORCH,
        "by hand, bagged",
        "process a core",
        SEVERAL,
    ),
    Contender("PyTorch short cut, compiled", TORCH, "by hand compiled"),
    Contender("modelbatch", TORCH, "modelbatch"),
    Contender("floor", LAB, "floor", trains=False),
    Contender("floor, process a core", LAB, "floor", "process a core", SEVERAL, trains=False),
    Contender("floor in PyTorch", TORCH, "floor", trains=False),
)
WHAT = {
    "grokscope": "the loop of `grokscope train` between two resume points: epochs, and every "
    "default measure every 25 of them",
    "grokscope, without measures": "the same epochs, nothing measured",
    "grokscope, a single member": "one of the members, in the rounds in which all are timed",
    "grokscope, one process": "the members one after the other in one process on all cores",
    "grokscope, one process, vmap": "the members as one batched program in one process",
    "PyTorch loop, all positions": "an `nn.Module` as transformers are usually written, attention, "
    "MLP and logits at every position, of which the last is read; eager, nothing measured",
    "PyTorch loop": "an `nn.Module` with keys and values at every position and the rest only at "
    "the last; eager, nothing measured",
    "PyTorch loop, compiled": "the loop with model and loss under `torch.compile`",
    "PyTorch short cut": "the lab's exact short cut by hand in PyTorch, eager, fused AdamW",
    "PyTorch short cut, embedding_bag": "the same with look-up and sum in one call, the fastest "
    "eager form that we found",
    "PyTorch short cut, embedding_bag, process a core": "the same in a process a core",
    "PyTorch short cut, compiled": "the short cut with model and loss under `torch.compile`",
    "modelbatch": f"the textbook modules stacked by `{MODELBATCH}` from PyPI, eager",
    "floor": "the six matrix products of the MLP alone, in JAX: no epoch can do without them",
    "floor, process a core": "the same in a process a core",
    "floor in PyTorch": "the same products in PyTorch",
}
# The general transformer: what a second layer reads differs from example to example.
GENERAL = find_recipe(SCALES["laptop"]).replace(
    **{
        "model.kind": "transformer",
        "model.layers": 2,
        "model.heads": 4,
        "model.norm": "attention+mlp+final",
        "model.activation": "gelu",
    }
)
GENERAL_CONTENDERS = (
    Contender("grokscope", LAB, "lab", "default"),
    Contender("grokscope, without measures", LAB, "unmeasured", "default"),
    Contender("PyTorch loop, all positions", TORCH, "general"),
    Contender("PyTorch loop", TORCH, "general at last"),
    Contender("PyTorch loop, compiled", TORCH, "general compiled"),
    Contender("modelbatch", TORCH, "general modelbatch"),
    Contender("floor", LAB, "floor", trains=False),
    Contender("floor, process a core", LAB, "floor", "process a core", SEVERAL, trains=False),
    Contender("floor in PyTorch", TORCH, "floor", trains=False),
)

# One block of it, with norms before attention and MLP.
BLOCK = find_recipe(SCALES["paper"]).replace(
    **{
        "model.kind": "transformer",
        "model.heads": 4,
        "model.width": 128,
        "model.hidden": 512,
        "model.norm": "attention+mlp",
        "model.activation": "gelu_exact",
    }
)
TESTED = "PyTorch loop, all positions, tested"
ALONE = (1,)
BLOCK_CONTENDERS = (
    Contender("grokscope", LAB, "lab", members=ALONE),
    Contender("grokscope, without measures", LAB, "unmeasured", members=ALONE),
    Contender(TESTED, TORCH, "general tested", members=ALONE),
    Contender("PyTorch loop, all positions", TORCH, "general", members=ALONE),
    Contender("PyTorch loop", TORCH, "general at last", members=ALONE),
    Contender("PyTorch loop, compiled", TORCH, "general compiled", members=ALONE),
    Contender("floor", LAB, "floor", members=ALONE, trains=False),
    Contender("floor in PyTorch", TORCH, "floor", members=ALONE, trains=False),
)


def compare(
    rounds: int,
    members: Sequence[int] = MEMBERS,
    scales: Mapping[str, str] = SCALES,
) -> dict[str, Any]:
    """Times of every contender that can run here."""
    specs = {scale: find_recipe(recipe) for scale, recipe in scales.items()}
    return _compare(specs, CONTENDERS, members, rounds)


def compare_general(rounds: int, members: Sequence[int] = MEMBERS) -> dict[str, Any]:
    """The same for the general transformer."""
    return _compare({"general": GENERAL}, GENERAL_CONTENDERS, members, rounds)


def compare_block(rounds: int) -> dict[str, Any]:
    """The same for one block of it."""
    return _compare({"block": BLOCK}, BLOCK_CONTENDERS, ALONE, rounds)


def _compare(
    specs: Mapping[str, RunSpec],
    contenders: Sequence[Contender],
    members: Sequence[int],
    rounds: int,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        missing, path = find_missing(contenders, Path(folder))
        present = [c for c in contenders if c.name not in missing]
        found = [
            _compare_at(scale, spec, present, members, rounds, Path(folder), path)
            for scale, spec in specs.items()
        ]
    return {
        "missing": missing,
        "sizes": [sizes for sizes, _ in found],
        "times": [row for _, times in found for row in times],
    }


NO_TORCH = "PyTorch is not installed (pip install 'grokscope[torch]')"


def find_missing(contenders: Sequence[Contender], folder: Path) -> tuple[dict[str, str], str]:
    """Those that cannot run here, with the reason, and where modelbatch was put: it comes
    without its dependencies, which PyTorch brings, and never into our environment."""
    if find_spec("torch") is None:
        return {c.name: NO_TORCH for c in contenders if c.module == TORCH}, ""
    if not any(c.name == "modelbatch" for c in contenders):
        return {}, ""
    place = folder / "modelbatch"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(place), "--disable-pip-version-check", MODELBATCH],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"modelbatch": f"pip could not install {MODELBATCH}"}, ""
    return {}, str(place)


def _compare_at(
    scale: str,
    spec: RunSpec,
    contenders: Sequence[Contender],
    members: Sequence[int],
    rounds: int,
    folder: Path,
    path: str,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    print(f"comparison at {scale} scale", flush=True)
    problems = export_problems(spec, max(members), folder / scale)
    sizes = {"scale": scale, **problems[0]["sizes"]}
    times = []
    with contextlib.ExitStack() as stack:
        teams = Teams(stack, folder / f"compiled-{scale}", path)
        for count in members:
            here = [c for c in contenders if count in c.members]
            compiling: dict[str, float | None] = {}
            for contender in here:
                team = teams.get(contender.module, contender.team(count))
                again = PROGRAM.get(contender.kind, contender.kind) in team.busy
                seconds = team.prepare(contender.kind, problems[:count])
                compiling[contender.name] = None if again else seconds
            turns = {contender.name: _turn_epochs(contender, count) for contender in here}
            work = {
                c.name: partial(teams.get(c.module, c.team(count)).turn, c.kind, turns[c.name])
                for c in here
            }
            clocked = take_turns(work, rounds if count == 1 else min(rounds, FEW_ROUNDS))
            for contender in here:
                per_epoch = [s / turns[contender.name] for s in clocked[contender.name]]
                times.append(
                    {
                        "scale": scale,
                        "members": count,
                        "contender": contender.name,
                        "seconds": per_epoch,  # of one epoch of all members, in each round
                        "first": compiling[contender.name],  # None: not the first call
                    }
                )
                print(
                    f"  {count:>2} members  {contender.name:<36}"
                    f"{1e3 * statistics.median(per_epoch):9.2f} ms an epoch",
                    flush=True,
                )
    return sizes, times


def _turn_epochs(contender: Contender, members: int) -> int:
    slow = members > 1 or contender in BLOCK_CONTENDERS
    return FEW if contender.module == TORCH and slow else EPOCHS


class Teams:
    """A team for each library and each way to use the cores, started when first asked for.

    Nothing compiled earlier is reused, so that the first call shows what compiling takes."""

    def __init__(self, stack: contextlib.ExitStack, scratch: Path, path: str) -> None:
        self.stack = stack
        self.extra = {"GROKSCOPE_CACHE": "", "TORCHINDUCTOR_CACHE_DIR": str(scratch)}
        if path:
            paths = [os.environ.get("PYTHONPATH", ""), path]
            self.extra["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.made: dict[tuple[str, Where], Team] = {}

    def get(self, module: str, where: Where) -> Team:
        if (module, where) not in self.made:
            start = one_process if where == "one process" else process_per_core
            team = self.stack.enter_context(start(module, **self.extra))
            self.made[module, where] = team
        return self.made[module, where]


def export_problems(spec: RunSpec, count: int, folder: Path) -> list[dict[str, Any]]:
    """Training data and initial weights of `count` seeds, written for everyone to read."""
    import jax
    import numpy as np

    from grokscope.engine.program import make_member, make_program
    from grokscope.store import Store

    folder.mkdir(parents=True)
    problems = []
    for seed in range(count):
        one = spec.replace(seed=seed)
        form, member = make_member(one, Store(folder))
        state = jax.device_get(make_program(form).init(member))
        arrays = {
            "tokens": member.data.train.tokens,
            "labels": member.data.train.labels,
            "test_tokens": member.data.test.tokens,
            "test_labels": member.data.test.labels,
            **state.params,
        }
        path = folder / f"{seed}.safetensors"
        write_arrays(path, {name: np.asarray(array) for name, array in arrays.items()})
        shape: Any = form.problem.shape  # type: ignore[attr-defined]
        sizes = {
            "modulus": one.task.modulus,
            "examples": len(member.data.train.labels),
            "test_examples": len(member.data.test.labels),
            "length": shape.length,
            "width": shape.width,
            "hidden": shape.hidden,
            "parameters": sum(array.size for array in state.params.values()),
        }
        problems.append(
            {
                "spec": to_dict(one),
                "arrays": str(path),
                "sizes": sizes,
                "products": list_products(len(member.data.train.labels), shape),
            }
        )
    return problems


def list_products(examples: int, shape: Any) -> list[tuple[int, int, int]]:
    """The products of an epoch: (n, a, b) is one of n rows with a weight matrix (a, b), to which
    two for the gradients belong. What is looked up in tables is left out, and so are the products
    by which tables are made, and attention's own."""
    d, m = shape.width, shape.hidden
    if shape.kind == "minimal":
        return [(examples, d, m), (examples, m, shape.classes)]
    everywhere = examples * shape.length
    rows = [everywhere] * (shape.layers - 1) + [examples]  # the last layer is read at the end
    found = [size for n in rows for size in ((n, d, d), (n, d, m), (n, m, d))]  # output, MLP
    for n in rows[1:]:  # query, key and value; in the first layer they are tables
        found += [(n, d, d), (everywhere, d, d), (everywhere, d, d)]
    return [*found, (examples, d, shape.classes)]

"""`make bench`: the speed promises as ratios, measured side by side in one run.

Machines are noisy, so what is compared is interleaved and the median of several rounds is taken.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

import grokscope as gs
from grokscope.certificates import certify
from grokscope.engine.compilation import prepare
from grokscope.engine.members import make_member
from grokscope.engine.program import _train_step, make_program, measure
from grokscope.provenance import count_threads

ROUNDS = 9
EPOCHS = 20  # a call


def interleave(work: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median seconds of each piece of work, taken in turn."""
    for piece in work.values():
        jax.block_until_ready(piece())  # compile
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, piece in work.items():
            began = time.perf_counter()
            jax.block_until_ready(piece())
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def matrix_products(examples: int, width: int, hidden: int, classes: int) -> Callable[[], object]:
    """The six products of an MLP's forward and backward pass, nothing else, in a compiled loop.

    Each product's result is an input of the next round, so that none can be left out.
    """
    keys = jax.random.split(jax.random.key(0), 6)
    sizes = [
        (examples, width),
        (examples, hidden),
        (examples, classes),
        (examples, hidden),
        (width, hidden),
        (hidden, classes),
    ]
    start = tuple(jax.random.normal(key, size) / 100 for key, size in zip(keys, sizes, strict=True))

    def one_round(_, carry):
        z, h, d_logits, d_hidden, w1, w2 = carry
        return (d_hidden @ w1.T, d_logits @ w2.T, h @ w2, z @ w1, z.T @ d_hidden, h.T @ d_logits)

    loop = jax.jit(lambda carry: jax.lax.fori_loop(0, EPOCHS, one_round, carry))
    return lambda: loop(start)


def bench_epoch() -> None:
    spec = gs.find_recipe("paper-noise").replace(**{"training.epochs": 10**6})
    form, member = make_member(spec, gs.Store(tempfile.mkdtemp()))
    state = make_program(form).init(member)
    steps = jax.jit(
        lambda state, member: jax.lax.fori_loop(
            0, EPOCHS, lambda _, s: _train_step(form, s, member), state
        )
    )
    row = jax.jit(lambda state, member: measure(form, state, member))
    shape = form.shape
    examples = len(member.train.tokens)
    times = interleave(
        {
            "floor": matrix_products(examples, shape.width, shape.hidden, shape.classes),
            "epochs": lambda: steps(state, member),
            "measure": lambda: row(state, member),
        }
    )
    floor, epoch = times["floor"] / EPOCHS, times["epochs"] / EPOCHS
    cadence = spec.training.log_every
    print(f"paper scale: {examples} examples, d {shape.width}, MLP {shape.hidden}, float32")
    print(f"  six MLP products alone      {1e3 * floor:7.2f} ms")
    print(
        f"  one epoch                   {1e3 * epoch:7.2f} ms  = {epoch / floor:.2f} x the products"
    )
    share = times["measure"] / (cadence * epoch)
    once = 1e3 * times["measure"]
    print(
        f"  all default measures, once  {once:7.2f} ms  = {share:.1%} more, every {cadence} epochs"
    )


def bench_import() -> None:
    def seconds(module: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - began

    times = {name: [] for name in ("grokscope", "grokscope.engine", "jax")}  # type: ignore[var-annotated]
    for _ in range(5):
        for name in times:
            times[name].append(seconds(name))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print("import")
    for name in ("grokscope", "grokscope.engine"):
        ratio = medians[name] / medians["jax"]
        print(f"  {name:<18}{medians[name]:6.2f} s  = {ratio:.2f} x import jax")


def bench_memory() -> None:
    code = """
import json, resource, tempfile
import grokscope as gs
spec = gs.find_recipe("paper-noise").replace(**{"training.epochs": 200})
gs.train(spec, tempfile.mkdtemp(), processes=1)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"memory\n  peak of a paper-scale run  {json.loads(done.stdout) / 1e6:.2f} GB")


def bench_certificates(snapshots: int = 200) -> None:
    """Certifying a run with 200 snapshots against training its 10,000 epochs."""
    plain = gs.find_recipe("paper-noise").replace(**{"training.epochs": 600})
    kept = plain.replace(
        **{
            "training.epochs": 5 * snapshots,
            "training.log_every": 5,
            "training.snapshots": snapshots,
        }
    )
    store = gs.Store(tempfile.mkdtemp())
    (run,) = gs.train(kept, store, processes=1)
    certify(run, store)  # compile
    (trained,) = gs.train(plain, store, processes=1)  # compiled by the first
    epoch = trained.provenance["segments"][0]["seconds"] / plain.training.epochs
    began = time.perf_counter()
    certify(run, store)
    seconds = time.perf_counter() - began
    share = seconds / (10_000 * epoch)
    print("certificates at paper scale")
    print(f"  {snapshots} snapshots {seconds:6.2f} s  = {share:.1%} of the time of 10,000 epochs")


def bench_execution(members: int = 4) -> None:
    """One after the other, batched, and one process a core: time per run and epoch."""
    for name in ("laptop-noise", "paper-noise"):
        spec = gs.find_recipe(name).replace(**{"training.epochs": 10**6})
        specs = gs.sweep(spec, {"seed": range(members)})
        store = gs.Store(tempfile.mkdtemp())
        made = [make_member(one, store) for one in specs]
        form, some = made[0][0], [member for _, member in made]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *some)
        alone, batch = make_program(form), make_program(form, batched=True)
        rows = jnp.int32(2)  # the first is written at once, the second after log_every epochs

        def one_by_one(alone=alone, some=some, rows=rows):
            for member in some:
                jax.block_until_ready(alone.advance(alone.init(member), member, rows))

        def batched(batch=batch, stacked=stacked, rows=rows):
            return batch.advance(batch.init(stacked), stacked, rows)

        times = interleave({"one by one": one_by_one, "vmap": batched}, rounds=5)
        epochs = members * spec.training.log_every
        print(f"{members} runs of {name}, {count_threads()} threads, measures on")
        for how, seconds in times.items():
            ratio = seconds / times["one by one"]
            print(f"  {how:<12}{1e3 * seconds / epochs:7.2f} ms a run and epoch  {ratio:.2f} x")


if __name__ == "__main__":
    prepare()
    bench_epoch()
    bench_import()
    bench_memory()
    bench_certificates()
    bench_execution()

"""`python -m benchmarks.bridge`: what watching and the prior cost, beside plain training.

All are interleaved in one process on one thread, and medians of several rounds are compared. With a
long sequence, one layer and one query row are asked for in turn, in time and in memory.
Needs the extra `torch`; memory needs Linux.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.teams import clocked, take_turns
from grokscope.bridge import Observer, StructuralPrior
from grokscope.bridge.observer import EVERY

ROUNDS, STEPS = 7, 20
LONG = (4, 128, 4, 1024, 8)
SIZES = {  # layers, width, heads, positions, examples
    "one layer, width 64, 6 positions, 128 examples": (1, 64, 2, 6, 128),
    "four layers, width 128, 64 positions, 32 examples": (4, 128, 4, 64, 32),
}


def make(layers: int, width: int, heads: int, positions: int, examples: int):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=64,
        n_positions=positions,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, 64, (examples, positions))
    return model, {"input_ids": tokens, "labels": tokens}


def bench(name: str, sizes: tuple[int, int, int, int, int], store: str) -> None:
    model, batch = make(*sizes)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    prior = StructuralPrior(model, informative=[0, 2], strength=0.1)
    observer = Observer(
        model,
        "bench",
        informative=[0, 2],
        test=batch,
        optimizer=optimiser,
        store=store,
    )

    def train(with_prior: bool) -> None:
        for step in range(STEPS):
            if with_prior:
                with prior:
                    loss = model(**batch).loss
                loss = loss + prior.penalty(step)
            else:
                loss = model(**batch).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    work: dict[str, Callable[[], object]] = {
        "plain": lambda: train(False),
        "prior": lambda: train(True),
        "row": lambda: observer.measure(len(observer.rows), batch),
    }
    turns = {key: clocked(piece) for key, piece in work.items()}
    take_turns(turns, 1)  # the first warms up, and checks what it captured
    times = take_turns(turns, ROUNDS)
    plain, with_prior, row = (statistics.median(times[key]) for key in work)
    step = plain / STEPS
    print(f"GPT-2, {name}")
    print(f"  one training step        {1e3 * step:8.2f} ms")
    print(
        f"  one row, test included   {1e3 * row:8.2f} ms  = {row / step:.2f} steps, "
        f"{row / (EVERY * step):.1%} more at the default of every {EVERY} steps"
    )
    print(f"  the prior on every layer            {with_prior / plain - 1:+.1%} a step")


def bench_long(sizes: tuple[int, int, int, int, int], store: str, rounds: int = 3) -> None:
    """A row against a training step, where attention is most of the work. The row has no test
    batch: with one it takes a forward more."""
    model, batch = make(*sizes)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)

    def train() -> None:
        optimiser.zero_grad()
        model(**batch).loss.backward()
        optimiser.step()

    every = list(range(sizes[3]))
    asked: dict[str, dict[str, Any]] = {
        "one layer, one query": {"layers": ["h.1"]},
        "all layers, one query": {},
        "one layer, every query": {"layers": ["h.1"], "query": every},
    }
    observers = {
        name: Observer(model, name, store=store, **options) for name, options in asked.items()
    }
    work: dict[str, Callable[[], object]] = {"a training step": train}
    for name, observer in observers.items():
        work[name] = partial(measure_next, observer, batch)
    turns = {name: clocked(piece) for name, piece in work.items()}
    take_turns(turns, 1)  # the first rows find out what there is
    times = take_turns(turns, rounds)
    base = statistics.median(times["a training step"])
    memory = {name: peak_of(piece) for name, piece in work.items()}
    print(f"GPT-2, {sizes[0]} layers, {sizes[3]} positions, {sizes[4]} examples")
    for name in work:
        ratio = statistics.median(times[name]) / base
        more = memory[name] / memory["a training step"]
        print(f"  {name:<26} {ratio:5.2f} steps, {more:5.2f} times the memory")


def measure_next(observer: Observer, batch: Any) -> object:
    return observer.measure(len(observer.rows), batch)


def peak_of(piece: Callable[[], object]) -> float:
    """Memory in use at most while it runs, in bytes, above what rests."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back, so that it is counted when used
    Path("/proc/self/clear_refs").write_text("5")  # sets the highest mark to the present one
    rests = _status("VmRSS")
    piece()
    return _status("VmHWM") - rests


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * float(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for title, numbers in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            bench(title, numbers, folder)
    with tempfile.TemporaryDirectory() as folder:
        bench_long(LONG, folder)

"""A seeded fuzzer: specs, TOML files, command lines and contents of stores.

Whatever comes in, the answer is a result or a sentence (a GrokscopeError, or a known exit code of
the command line): never another exception. The suite tries a thousand cases;

    python -m hardening.fuzz 100000 [seed]      (in the directory tests)

tries as many as you like and prints what breaks, each with the number that repeats it.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grokscope as gs
from grokscope import cli
from grokscope.spec import from_dict, from_toml, read_spec, to_dict, to_toml
from hardening.faults import FaultyDisk, under
from hardening.loop import SPEC, train_plainly

TEXTS = (
    "",
    "a",
    "none",
    "²",
    "\x1b[31m",
    "\ufeff",
    "\x00",
    "é" * 50,
    "../x",
    "a:b",
    "x" * 3000,
    "nan",
)
NUMBERS = (0, 1, -1, 3, 2**31, 2**63, 10**400, 1e308, -0.0, 1e-320, float("inf"), float("nan"))
CODES = (0, 2, 3, 4)
LONG = ("demo", "lab", "reproduce", "statistics")  # work for minutes, or until stopped


def value(draw: random.Random, depth: int = 0) -> Any:
    """Anything that JSON or TOML may hold."""
    kind = draw.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return draw.choice(TEXTS)
    if kind in (1, 2):
        return draw.choice(NUMBERS)
    if kind == 3:
        return draw.choice((True, False, None))
    if kind == 4:
        return draw.randrange(-5, 200)
    if kind == 5:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(TEXTS): value(draw, depth + 1) for _ in range(draw.randrange(3))}


def names(data: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, inner in data.items():
        found.append(prefix + name)
        if isinstance(inner, dict):
            found += names(inner, f"{prefix}{name}.")
    return found


NAMES = names(to_dict(gs.RunSpec()))


def change(data: Any, draw: random.Random) -> None:
    """Replace, add or drop something somewhere."""
    place = data
    while isinstance(place, dict | list) and place and draw.random() < 0.7:
        key = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key]:
            break
        place = place[key]
    if isinstance(place, dict):
        if place and draw.random() < 0.2:
            del place[draw.choice(list(place))]
        else:
            place[draw.choice([*place, draw.choice(TEXTS)])] = value(draw)
    elif isinstance(place, list):
        place.append(value(draw))


def fuzz_spec(draw: random.Random, folder: Path) -> None:
    """Fields replaced by dotted name or whole, and read back."""
    data = to_dict(gs.RunSpec())
    for _ in range(draw.randrange(1, 4)):
        change(data, draw)
    spec = from_dict(data)
    assert read_spec(json.loads(json.dumps(spec.to_dict()))).id == spec.id
    assert gs.RunSpec().replace(**{draw.choice(NAMES): value(draw)}).id


def as_toml(given: Any) -> str:
    if isinstance(given, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {as_toml(v)}" for k, v in given.items()) + "}"
    if isinstance(given, list):
        return "[" + ", ".join(map(as_toml, given)) + "]"
    return "nothing" if given is None else json.dumps(given).replace("Infinity", "inf")


def fuzz_toml(draw: random.Random, folder: Path) -> None:
    lines = []
    for _ in range(draw.randrange(1, 5)):
        name = draw.choice((*NAMES, "recipe", "sweep.seed", "sweep", *TEXTS))
        lines.append(f"{name} = {as_toml(value(draw))}")
    content = "\n".join(lines).encode("utf-8", "replace")
    if draw.random() < 0.3:  # a damaged file
        content = bytearray(content)
        for _ in range(3):
            content[draw.randrange(len(content))] = draw.randrange(256)
    path = folder / "fuzzed.toml"
    path.write_bytes(content)
    spec, over = from_toml(path)
    for one in gs.sweep(spec, over)[:3]:
        assert to_toml(one) is not None


def fuzz_command(draw: random.Random, folder: Path) -> None:
    name = draw.choice((*cli.COMMANDS, "train", "runs", "show", "nothing"))
    if name in LONG:
        return
    words = [name]
    if name == "train":
        words += [draw.choice(("smoke", "laptop", "no.toml", *TEXTS)), "--dry-run"]
        sweeps = ("seed=0..3", "seed=²..³", "seed=9..1", "prior.strength=1,x", "=", "a=1")
        words += ["--over", draw.choice(sweeps)]
    if name == "runs":
        words += draw.choice(
            ([], ["--where", draw.choice(TEXTS)], ["--sql", draw.choice(("select 1", *TEXTS))])
        )
    if name in ("show", "certify", "figure", "report"):
        words.append(draw.choice(("00", SPEC.id, SPEC.id[:3], *TEXTS)))
        words += ["--out", str(folder / "out.svg")] if name in ("figure", "report") else []
    if draw.random() < 0.3:
        words.append(draw.choice(("--help", "--no-such", "--quiet", *TEXTS)))
    words += ["--store", str(folder / "runs")] * (name not in ("recipes", "nothing"))
    say_nothing(words)


def say_nothing(words: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = cli.run(words)
        except SystemExit as stop:  # tyro's own refusals
            code = stop.code if isinstance(stop.code, int) else 2
    assert code in CODES, f"{words} gave {code}"


def fuzz_store(draw: random.Random, folder: Path) -> None:
    """One file of a run changed, by bits or by meaning; then everything that reads it."""
    root = folder / "hostile"
    shutil.rmtree(root, ignore_errors=True)
    store = gs.Store(shutil.copytree(folder / "runs", root))
    path = draw.choice(sorted(p for p in store.find(SPEC).path.rglob("*") if p.is_file()))
    if path.suffix == ".json" and draw.random() < 0.8:
        data = json.loads(path.read_text())
        for name in ("sha256", "format"):
            data.pop(name, None)
        change(data, draw)
        path.write_text(json.dumps(data))
    else:
        content = bytearray(path.read_bytes())
        for _ in range(draw.choice((1, 1, 8))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content[: draw.choice((len(content), len(content), len(content) // 2))])
    assert isinstance(store.runs(), list)
    assert store.table() is not None
    assert isinstance(store.verify(), list)
    run = store.find(SPEC)
    for read in (
        lambda: run.about,
        lambda: run.outcome,
        lambda: run.provenance,
        lambda: run.curve,
        lambda: run.weights(),
        lambda: run.weights(20),
        lambda: store.sql("select max(epoch) from curves"),
        lambda: repr(run),
    ):
        with contextlib.suppress(gs.GrokscopeError):
            read()
    if draw.random() < 0.1:
        say_nothing(["show", SPEC.id, "--store", str(root)])


FUZZERS: tuple[tuple[Callable[[random.Random, Path], None], int], ...] = (
    (fuzz_spec, 40),
    (fuzz_toml, 35),
    (fuzz_store, 20),
    (fuzz_command, 5),
)


def prepare(folder: Path) -> None:
    """A store with one finished run, to be read and to be damaged."""
    with under(FaultyDisk(-1, "crash")):
        train_plainly(gs.Store(folder / "runs"))


def run_case(seed: int, number: int, folder: Path) -> str:
    """One case; empty, or what broke."""
    draw = random.Random(f"{seed} {number}")
    (fuzzer,) = draw.choices([f for f, _ in FUZZERS], [weight for _, weight in FUZZERS])
    try:
        fuzzer(draw, folder)
    except gs.GrokscopeError as error:
        return "" if str(error) else f"case {number}: an error without a sentence"
    except Exception:
        return f"case {number} ({fuzzer.__name__}): {traceback.format_exc(limit=-3)}"
    return ""


def run_cases(count: int, seed: int, folder: Path) -> list[str]:
    prepare(folder)
    return [text for number in range(count) if (text := run_case(seed, number, folder))]


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place:
        broken = run_cases(*(arguments or [10_000]), *([0] * (len(arguments) < 2)), Path(place))
    print(*broken, f"{len(broken)} broken.", sep="\n")
    sys.exit(bool(broken))

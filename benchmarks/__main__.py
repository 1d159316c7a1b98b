"""`make bench` and `make bench-full`: measure, print, and write docs/performance.md.

python -m benchmarks quick     a few minutes: fewer sizes, fewer rounds
python -m benchmarks full      everything, in three to four hours
python -m benchmarks page      the page again, from the measurements that are there
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import page
from benchmarks.agreement import agree
from benchmarks.breakdown import break_down
from benchmarks.comparison import SCALES, compare, compare_block, compare_general
from benchmarks.fixed import measure_fixed
from benchmarks.growth import grow
from benchmarks.networks import measure_networks
from benchmarks.storage import measure_store
from grokscope.errors import GrokscopeError, suggest
from grokscope.store.provenance import count_cores, describe_machine, find_commit

ROOT = Path(__file__).parent.parent
COMMANDS = {"quick": "bench", "full": "bench-full"}
PAPER_ALONE = {"paper": SCALES["paper"]}
PARTS: dict[str, dict[str, Callable[[], dict[str, Any]]]] = {
    "quick": {
        "comparison": lambda: compare(3, members=(1,), scales=PAPER_ALONE),
        "agreement": lambda: agree(50, general=25, scales=PAPER_ALONE),
        "general": lambda: compare_general(3, members=(1,)),
        "block": lambda: compare_block(rounds=3),
        "growth": lambda: grow(rounds=3, axes=("modulus",), sizes=3, scales=("laptop",)),
        "storage": lambda: measure_store((10, 100, 1000), repetitions=1),
        "breakdown": lambda: break_down(["3"], "smoke", seeds=3),
        "fixed": lambda: measure_fixed(rounds=3, snapshots=20),
        "networks": lambda: measure_networks(rounds=3),
    },
    "full": {
        "comparison": lambda: compare(rounds=15),
        "agreement": lambda: agree(200, general=50),
        "general": lambda: compare_general(rounds=9),
        "block": lambda: compare_block(rounds=9),
        "growth": lambda: grow(rounds=7),
        "storage": lambda: measure_store((10, 100, 1000, 10_000)),
        "breakdown": lambda: break_down([], "laptop"),
        "fixed": lambda: measure_fixed(rounds=5, snapshots=200),
        "networks": lambda: measure_networks(rounds=9),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=[*PARTS, "page"])
    parser.add_argument("parts", nargs="*", metavar="part", help="measure these parts alone")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "performance")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--readme", type=Path, help="a file with the two marks of the speed table")
    options = parser.parse_args()
    for name in set(options.parts) - set(PARTS["quick"]):
        parser.error(f"There is no part {name!r}.{suggest(name, PARTS['quick'])}")
    try:
        if options.what != "page":
            measure(options.what, options.parts, options.results)
        readme = options.readme
        if readme and options.what != "page" and find_spec("torch") is None:
            print(f"{readme} is left as it is: half of its table needs PyTorch.")
            readme = None
        for path in page.write(options.results, options.docs, readme):
            print(path)
    except GrokscopeError as error:
        parser.exit(1, f"{error}\n")


def measure(mode: str, wanted: list[str], results: Path) -> None:
    """Measure and keep each part as soon as it is there."""
    began = time.perf_counter()
    made = describe(mode)
    for name, part in PARTS[mode].items():
        if not wanted or name in wanted:
            page.save(results, name, {"made": made, **part()})
    print(f"{(time.perf_counter() - began) / 60:.0f} minutes", flush=True)


def describe(mode: str) -> dict[str, Any]:
    """Command, commit, machine and versions; never the name of the machine."""
    names = ("grokscope", "jax", "jaxlib", "numpy", "optax", "polars", "torch")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "command": COMMANDS[mode],
        "date": datetime.now(UTC).date().isoformat(),
        "commit": find_commit() or "unknown",
        "processor": find_processor(),
        "cores": count_cores(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.system(),
        "backend": describe_machine()["backend"],
        "versions": versions,
    }


def find_processor() -> str:
    """The processor's model as the system names it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()

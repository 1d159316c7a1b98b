"""What the files of a run must hold. Each is checked when it is read: one bad entry, or somebody
else's store, must not break what looks at it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

LARGEST = 2**53  # whole numbers that tables and floats hold exactly

EVENT = {
    "measure": "text",
    "threshold": "number",
    "persistence": "count",
    "epoch": "count or null",
    "observed_until": "count or null",
}
PHASE = {"name": "text", "start": "count or null", "end": "count or null", "rule": "text"}
PHASES = ("memorisation", "plateau", "resurgence", "grokking")
SEGMENT = {
    "from_epoch": "count or null",
    "started": "text or null",
    "execution": "text or null",
    "seconds": "number",
    "threads": "count or null",
    "backend": "text or null",
    "commit": "text or null",
    "place": "count or null",
    "versions": "texts",
    "compiler": "texts or null",
}
FILE = re.compile(
    r"spec\.json|curve\.parquet|(weights|memory)\.safetensors|provenance\.json"
    r"|snapshots/\d{8}\.safetensors"
)


def check_outcome(data: Mapping[str, Any], events: tuple[str, ...]) -> None:
    """Raise a ValueError unless it is the outcome of a run that looks for these events."""
    kinds = {"status": "text", "epochs": "count", "final": "numbers", "ended_by": "text"}
    _expect(data, kinds, "")
    if data["status"] not in ("finished", "failed"):
        raise ValueError(f"status is {data['status']!r}, not finished or failed")
    _expect(data, {"failed_at": "count" if data["status"] == "failed" else "count or null"}, "")
    if taken := {"run", "status", "epochs"} & data["final"].keys():  # columns of the table of runs
        raise ValueError(f"final names {min(taken)}, which is no measure")
    for name, value in data.items():
        if name in events or (isinstance(value, Mapping) and value.keys() >= EVENT.keys()):
            _expect(value, EVENT, f"{name}.")
    phases = data.get("phases", [])
    if not isinstance(phases, list):
        raise ValueError("phases must be a list")
    for phase in phases:
        _expect(phase, PHASE, "phases.")
        if phase["name"] not in PHASES:
            raise ValueError(f"phases names {phase['name'][:40]!r}, which is no phase")
    files = data.get("files")
    if not isinstance(files, Mapping) or not {"spec.json", "curve.parquet"} <= files.keys():
        raise ValueError("files must hold a checksum for spec.json and curve.parquet, at least")
    for name, total in files.items():
        if not FILE.fullmatch(name) or not isinstance(total, str):
            raise ValueError(f"files names {name!r}, which is no file of a run")


def check_provenance(data: Mapping[str, Any]) -> None:
    segments = data.get("segments")
    if not isinstance(segments, list):
        raise ValueError("segments must be a list")
    for segment in segments:
        _expect(segment, SEGMENT, "segments.")


def check_curve(curve: pl.DataFrame) -> None:
    import polars as pl

    if "epoch" not in curve.columns or not curve["epoch"].dtype.is_integer() or not len(curve):
        raise ValueError("a curve has rows, and a whole number `epoch` in each")
    if curve["epoch"].null_count() or not curve["epoch"].is_sorted() or curve["epoch"][0] < 0:
        raise ValueError("the epochs of a curve grow from row to row")
    if curve["epoch"][-1] > LARGEST or "run" in curve.columns:
        raise ValueError("its epochs, or its columns, are not those of a curve")
    for name, kind in curve.schema.items():
        inner = kind.inner if isinstance(kind, pl.List) else kind
        wide = inner in (pl.Int128, pl.UInt128)  # NumPy has none
        if wide or not (inner is not None and (inner.is_float() or inner.is_integer())):
            raise ValueError(f"{name} is not a number in every row")
        sizes = curve[name].list.len().unique().to_list() if isinstance(kind, pl.List) else [0]
        if len(sizes) > 1 or sizes[0] is None or (name == "attention" and not sizes[0]):
            raise ValueError(f"{name} is not a list of the same length in every row")


def _expect(data: Any, kinds: Mapping[str, str], where: str) -> None:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where.rstrip('.') or 'it'} must be an object")
    for name, kind in kinds.items():
        if not _fits(data.get(name), kind):
            raise ValueError(f"{where}{name} is {str(data.get(name))[:40]!r}; it must be a {kind}")


def _fits(value: Any, kind: str) -> bool:
    if value is None:
        return kind.endswith(" or null")
    kind = kind.removesuffix(" or null")
    if kind == "text":
        return isinstance(value, str)
    if kind in ("texts", "numbers"):
        inner = {"texts": "text", "numbers": "number or null"}[kind]  # null: it was not finite
        return isinstance(value, Mapping) and all(_fits(each, inner) for each in value.values())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind == "number":
        return abs(value) <= LARGEST if isinstance(value, int) else math.isfinite(value)
    return isinstance(value, int) and 0 <= value <= LARGEST

"""How far two recordings of the golden cases are apart: `python -m golden.compare OLD NEW`.

Prints every case that differs in a bit, with its largest relative difference over the curve and
over the final weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from safetensors.numpy import load_file


def differences(old: Path, new: Path) -> dict[str, tuple[float, float]]:
    """By case: the largest difference of its curve and of its weights, 0 for equal bits."""
    tables = [pl.read_parquet(folder / "curves.parquet") for folder in (old, new)]
    arrays = [load_file(folder / "weights.safetensors") for folder in (old, new)]
    result = {}
    for case in tables[0]["case"].unique(maintain_order=True):
        before, after = (table.filter(pl.col("case") == case) for table in tables)
        curve = max(
            _apart(before[name].to_numpy(), after[name].to_numpy())
            for name in before.columns
            if before[name].dtype.is_numeric()
        )
        names = [name for name in arrays[0] if name.startswith(f"{case}:")]
        result[case] = (curve, max(_apart(arrays[0][n], arrays[1][n]) for n in names))
    return result


def _apart(before: np.ndarray, after: np.ndarray) -> float:
    """Largest difference relative to the largest number."""
    if np.array_equal(before, after, equal_nan=True):
        return 0.0
    size = max(float(np.nanmax(np.abs(before))), 1e-12)
    return float(np.nanmax(np.abs(before.astype(float) - after.astype(float)))) / size


if __name__ == "__main__":
    found = differences(Path(sys.argv[1]), Path(sys.argv[2]))
    changed = {case: apart for case, apart in found.items() if any(apart)}
    for case, (curve, weights) in changed.items():
        print(f"{case:20} curve {curve:.1e}  weights {weights:.1e}")
    print(f"{len(found) - len(changed)} of {len(found)} cases are the same bits")

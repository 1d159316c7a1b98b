"""Train the golden cases and keep curve and weights of each, named by its case."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from safetensors.numpy import save_file

import grokscope as gs
from golden.cases import make_specs


def record(folder: Path, store: Path) -> None:
    specs = make_specs()
    runs = gs.train(list(specs.values()), store, processes=2)
    folder.mkdir(parents=True, exist_ok=True)
    curves, weights = [], {}
    for name, run in zip(specs, runs, strict=True):
        assert run.status == "finished", name
        curve = run.curve
        flat = [c for c in curve.columns if not curve[c].dtype.is_nested()]
        curves.append(curve.select(pl.lit(name).alias("case"), pl.lit(run.id).alias("run"), *flat))
        weights |= {f"{name}:{key}": np.asarray(value) for key, value in run.weights().items()}
    pl.concat(curves, how="diagonal_relaxed").write_parquet(
        folder / "curves.parquet", compression="zstd", compression_level=19
    )
    save_file(weights, folder / "weights.safetensors")


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]))

"""One run of a store, as it lies on disk. Files are read when they are asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from grokscope.errors import GrokscopeError, SpecError, StoreError
from grokscope.spec import RunSpec, Spec, read_spec
from grokscope.store.files import read_arrays, read_curve, read_json

if TYPE_CHECKING:
    import polars as pl

Status = Literal["finished", "failed", "partial"]

CURVE, WEIGHTS, RESUME = "curve.parquet", "weights.safetensors", "resume.safetensors"
SPEC, OUTCOME, PROVENANCE = "spec.json", "outcome.json", "provenance.json"
SNAPSHOTS, PROBES = "snapshots", "probes"


class Run:
    """One entry of a store. Files are read when asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name

    def __repr__(self) -> str:
        if not self.path.exists():
            return f"<Run {self.id} absent>"
        try:
            return f"<Run {self.id} {self.status}: {describe(self.about)}>"
        except (GrokscopeError, KeyError):
            return f"<Run {self.id} damaged>"

    @cached_property
    def about(self) -> Spec:
        """What was asked of the lab, or what is known of a user's model that was watched."""
        return read_spec(read_json(self.path / SPEC))

    @property
    def spec(self) -> RunSpec:
        """What was asked of the lab; a sentence for a run that was only watched (see `about`)."""
        if not self.about.problem:
            raise SpecError(
                f"Run {self.id} is a model of your own that was watched; this needs a run that the "
                "lab has trained."
            )
        return self.about  # type: ignore[return-value]  # or another kind that is trained

    @property
    def status(self) -> Status:
        if not (self.path / OUTCOME).exists():
            return "partial"
        return self.outcome["status"]

    @property
    def ended(self) -> bool:
        return (self.path / OUTCOME).exists()

    @property
    def outcome(self) -> dict[str, Any]:
        """Event times with threshold, persistence and censoring; phases; final measures."""
        if not self.ended:
            raise self._nothing_yet("outcome")
        return read_json(self.path / OUTCOME)

    @property
    def provenance(self) -> dict[str, Any]:
        return read_json(self.path / PROVENANCE)

    @property
    def seconds(self) -> float:
        """How long it trained, in all its segments."""
        return sum(segment["seconds"] for segment in self.provenance["segments"])

    @property
    def curve(self) -> pl.DataFrame:
        """A row per logged epoch; partial runs have the rows written so far."""
        if not self.ended and not (self.path / CURVE).exists():
            raise self._nothing_yet("rows")
        return read_curve(self.path / CURVE)

    def weights(self, epoch: int | None = None) -> dict[str, np.ndarray]:
        """The final weights, or those of a snapshot."""
        if epoch is None:
            if not self.ended:
                raise self._nothing_yet("final weights")
            if not self.about.problem and not (self.path / WEIGHTS).exists():
                raise StoreError(
                    f"Run {self.id} has no weights; Observer(keep_weights=True) keeps."
                )
            return read_arrays(self.path / WEIGHTS)
        if epoch not in self.snapshots:
            raise StoreError(f"Run {self.id} has no snapshot at epoch {epoch}.")
        return read_arrays(self.path / SNAPSHOTS / f"{epoch:08d}.safetensors")

    def _nothing_yet(self, what: str) -> StoreError:
        if not self.path.exists():
            return StoreError(f"There is no run {self.id} in {self.path.parent}.")
        return StoreError(f"Run {self.id} has no {what} yet: it is under way or was interrupted.")

    @property
    def snapshots(self) -> list[int]:
        """Epochs of the kept weights, ascending."""
        return sorted(int(path.stem) for path in (self.path / SNAPSHOTS).glob("*.safetensors"))


def describe(spec: Spec) -> str:
    """What sets a run apart from the defaults, in one line."""
    changed = spec.changed()
    changed.pop("task.fingerprint", None)
    parts = [f"{name}={shorten(value)}" for name, value in changed.items()]
    return " ".join(parts) or "defaults"


def shorten(value: Any) -> str:
    """A field's value for a line of text: 1 for 1.0, 1e-05 for 0.00001."""
    return f"{value:g}" if isinstance(value, float) else str(value)

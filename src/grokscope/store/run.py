"""One run of a store, as it lies on disk. Files are read when they are asked for."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grokscope import parts
from grokscope.errors import GrokscopeError, SpecError, StoreError, first_line, suggest
from grokscope.notebook import html_table
from grokscope.spec import RunSpec, Spec, read_spec
from grokscope.store.annotations import Annotation, read_annotation, write_annotation
from grokscope.store.contents import check_curve, check_outcome, check_provenance
from grokscope.store.files import damaged, read_arrays, read_bytes, read_curve, read_json, sound

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

Status = Literal["finished", "failed", "partial"]

CURVE, WEIGHTS, RESUME = "curve.parquet", "weights.safetensors", "resume.safetensors"
MEMORY = "memory.safetensors"
SPEC, OUTCOME, PROVENANCE = "spec.json", "outcome.json", "provenance.json"
SNAPSHOTS, PROBES = "snapshots", "probes"
DIGITS = frozenset("0123456789abcdef")
SHOWN = ("train_accuracy", "test_accuracy", "structure_share")  # last measures, in notebooks


def is_id(name: str) -> bool:
    """May a directory of this name be a run?"""
    return len(name) == 16 and DIGITS.issuperset(name)


class Run:
    """One entry of a store. Files are read when asked for, and what they hold is checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.kept: dict[str, str] = {}
        """Checksums of the snapshots that were written or found whole, while it is trained."""

    def __repr__(self) -> str:
        if not self.path.exists():
            return f"<Run {self.id} absent>"
        try:
            return f"<Run {self.id} {self.status}: {describe(self.about)}>"
        except GrokscopeError:
            return f"<Run {self.id} damaged>"

    def _repr_html_(self) -> str:
        try:
            title, rows = f"Run {self.id} {self.status}", list(self.about.changed().items())
            rows += [(name, text) for name, text in self.annotation._asdict().items() if text]
            if self.ended:
                final = self.final
                rows += [(rule.name, self.when(rule.name)) for rule in self.about.events()]
                rows += [(name, final[name]) for name in SHOWN if final.get(name) is not None]
        except GrokscopeError:
            return html_table(repr(self), [])
        return html_table(title, rows)

    @cached_property
    def about(self) -> Spec:
        """What was asked of the lab, or what is known of a user's model that was watched."""
        spec = self.read_about()
        if spec.id != self.id:
            raise StoreError(f"{self.path} holds the spec of run {spec.id}, not its own.")
        return spec

    def read_about(self) -> Spec:
        """Whatever spec there is."""
        data = read_json(self.path / SPEC)
        try:
            return read_spec(parts.mark_foreign(data))
        except GrokscopeError:
            raise
        except Exception as error:  # whatever a file may hold
            raise damaged(self.path / SPEC, f"{type(error).__name__}: {error}") from error

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
        return self.outcome["status"] if self.ended else "partial"

    @property
    def ended(self) -> bool:
        return (self.path / OUTCOME).exists()

    @property
    def outcome(self) -> dict[str, Any]:
        """Event times with threshold, persistence and censoring; phases; final measures."""
        if not self.ended:
            raise self._nothing_yet("outcome")
        return self._outcome

    @property
    def _outcome(self) -> dict[str, Any]:
        """As it stands in its file; every other file is compared with its checksums."""
        data, events = read_json(self.path / OUTCOME), self.about.events()
        with sound(self.path / OUTCOME):
            check_outcome(data, tuple(rule.name for rule in events))
        return data

    @property
    def provenance(self) -> dict[str, Any]:
        data = read_json(self.path / PROVENANCE)
        with sound(self.path / PROVENANCE):
            check_provenance(data)
        return data

    @property
    def started(self) -> str | None:
        """When its training was begun, as an ISO date and time in UTC; None if unknown."""
        with contextlib.suppress(StoreError, IndexError):
            return self.provenance["segments"][0].get("started")
        return None

    @property
    def seconds(self) -> float:
        """How long it trained, in all its segments."""
        return sum(segment["seconds"] for segment in self.provenance["segments"])

    @property
    def curve(self) -> pl.DataFrame:
        """A row per logged epoch; partial runs have the rows written so far."""
        if not self.ended and not (self.path / CURVE).exists():
            raise self._nothing_yet("rows")
        curve = read_curve(self.path / CURVE, self._content(CURVE))
        with sound(self.path / CURVE):
            check_curve(curve)
        return curve.select("epoch", *(name for name in curve.columns if name != "epoch"))

    @property
    def last_epoch(self) -> int:
        """The epoch of the last row; 0 while there is none."""
        return int(self.curve["epoch"][-1]) if (self.path / CURVE).exists() else 0

    @property
    def scalars(self) -> pl.DataFrame:
        """The curve without its arrays (attention, frequencies), so that it can be written as CSV:
        `run.scalars.write_csv("curve.csv")`."""
        import polars.selectors as cs

        return self.curve.select(~cs.nested())

    def when(self, event: str) -> int | None:
        """The epoch of an event, None if it was not seen: `run.when("grokked")`."""
        known = [rule.name for rule in self.about.events()]
        if event not in known:
            raise SpecError(f"Run {self.id} has no event {event!r}.{suggest(event, known)}")
        return self.outcome[event]["epoch"]

    @property
    def memorised(self) -> int | None:
        """The epoch from which nearly all training examples are right; None if never."""
        return self.when("memorised")

    @property
    def grokked(self) -> int | None:
        """The epoch from which nearly all unseen examples are right; None if never."""
        return self.when("grokked")

    @property
    def final(self) -> dict[str, float]:
        """The measures of the last row."""
        return self.outcome["final"]

    @property
    def annotation(self) -> Annotation:
        """The name, tags and note that people gave it."""
        return read_annotation(self.path)

    def annotate(
        self,
        name: str | None = None,
        note: str | None = None,
        tag: Iterable[str] = (),
        untag: Iterable[str] = (),
    ) -> Annotation:
        """Give the run a name (by which the store finds it), a note, or tags. These are no part of
        what it is: `run.annotate(name="baseline", tag=["figure-2"])`."""
        if not self.path.is_dir():
            raise self._nothing_yet("entry")
        if name:
            self._check_free(name)
        return write_annotation(self.path, name, note, tag, untag)

    def _check_free(self, name: str) -> None:
        from grokscope.store.store import Store  # a run seldom asks for the others

        if others := [other for other in Store(self.path.parent).named(name) if other != self.id]:
            raise SpecError(
                f"Run {others[0]} has the name {name!r} already; take another one, or rename that "
                "run first."
            )

    def plot(self, kind: str = "accuracy", **options: Any) -> Any:
        """A chart of this run, shown by notebooks; `.save("run.svg")` writes it. See `gs.plot`."""
        from grokscope.api import plot  # the one way back, so that a run can show itself

        return plot(self, kind, **options)

    def weights(self, epoch: int | None = None) -> dict[str, np.ndarray]:
        """The final weights, or those of a snapshot."""
        name = WEIGHTS if epoch is None else snapshot_name(epoch)
        if epoch is not None and epoch not in self.snapshots:
            raise StoreError(f"Run {self.id} has no snapshot at epoch {epoch}.")
        if epoch is None and not self.ended:
            raise self._nothing_yet("final weights")
        if epoch is None and not self.about.problem and not (self.path / WEIGHTS).exists():
            raise StoreError(f"Run {self.id} has no weights; Observer(keep_weights=True) keeps.")
        return read_arrays(self.path / name, self._content(name))

    def memory(self) -> dict[str, np.ndarray]:
        """What the optimiser knew at the end, besides the weights: longer training goes on from
        it. Runs of earlier versions have none."""
        if not self.ended or not (self.path / MEMORY).exists():
            raise StoreError(f"Run {self.id} has no memory of its optimiser.")
        return read_arrays(self.path / MEMORY, self._content(MEMORY))

    def _content(self, name: str) -> bytes:
        """A file's bytes; those of a run that has ended must have their checksum."""
        ended = self.ended  # asked before: a run that ends now has all its files by then
        content = read_bytes(self.path / name)
        expected = self._outcome["files"].get(name) if ended else None
        if expected is not None and hashlib.sha256(content).hexdigest() != expected:
            raise damaged(self.path / name, "its checksum is wrong")
        return content

    def _nothing_yet(self, what: str) -> StoreError:
        if not self.path.exists():
            return StoreError(f"There is no run {self.id} in {self.path.parent}.")
        return StoreError(f"Run {self.id} has no {what} yet: it is under way or was interrupted.")

    @property
    def snapshots(self) -> list[int]:
        """Epochs of the kept weights, ascending."""
        files = (self.path / SNAPSHOTS).glob("*.safetensors")
        return sorted(int(path.stem) for path in files if re.fullmatch(r"\d{8}", path.stem))


def snapshot_name(epoch: int) -> str:
    return f"{SNAPSHOTS}/{epoch:08d}.safetensors"


@contextlib.contextmanager
def as_trained(run: Run) -> Iterator[None]:
    """Within, arrays of a run are used as the lab writes them. What lies in somebody else's store
    may have every checksum in order and not fit its spec."""
    try:
        yield
    except GrokscopeError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise StoreError(
            f"The files of run {run.id} do not fit its spec ({what}); the lab has not trained it."
        ) from error


def describe(spec: Spec) -> str:
    """What sets a run apart from the defaults, in one line."""
    changed = spec.changed()
    changed.pop("task.fingerprint", None)
    parts = [f"{name}={shorten(value)}" for name, value in changed.items()]
    return " ".join(parts) or "defaults"


def shorten(value: Any) -> str:
    """A field's value for a line of text: 1 for 1.0, 1e-05 for 0.00001."""
    return f"{value:g}" if isinstance(value, float) else str(value)

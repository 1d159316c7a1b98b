"""Watching a model of your own while you train it: the same curves, in the same store.

Rows are written as they come, so `grokscope show`, `figure` and `report` work during training.
"""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.capture import list_layers
from grokscope.bridge.layers import Layer, Layers, ReadModule, choose_layers
from grokscope.bridge.prior import StructuralPrior
from grokscope.bridge.probe import Probe, measure_probes, take_probe
from grokscope.bridge.scoring import Layout, Score, move, run_model, spread_queries
from grokscope.bridge.selection import Informative, Query, Selection
from grokscope.bridge.surroundings import (
    find_device,
    is_first_process,
    is_sharded,
    same_draws,
    undisturbed,
    unwrap,
)
from grokscope.engine.events import Event, EventKind, Sink, fan_out
from grokscope.errors import GrokscopeError, SpecError, StoreError
from grokscope.measures.outcomes import conclude
from grokscope.spec import ObservedSpec, OptimiserSpec, PriorSpec, Setting, TrainingSpec
from grokscope.store import CURVE, Run, Store
from grokscope.store.provenance import describe_host, new_segment

EVERY = 100  # steps between two rows unless told otherwise
WRITE_SECONDS = 1.0  # between two writes of the curve
MLP = (
    r"(^|\.)(mlp|ffn|feed_?forward|intermediate|linear[12]|fc[12]|c_fc|"
    r"(?<!attention\.)output\.dense)(\.|$)"
)


class Observer:
    """Measures a model at chosen steps of its training, on batches of your choice.

    query        Position(s) whose attention is read, or a function of the batch (see `Selection`).
    informative  Positions that determine the answer, or a function of the batch. Without them there
                 is no oracle; entropy, starvation, norms and phases are still measured.
    train, test  Batches to measure on. `step` can replace `train`; without `test` generalisation is
                 not measured.
    layers       Attention calls to read, by a part of their module path or by number, in the order
                 in which the model makes them, and `heads` of each; all by default. They are judged
                 by their mean (pooled mass, eq. 55).
    offset       Keys before position 0 that are no positions of yours (memory, a prefix).
    every        Steps between two rows.
    score        function(model, batch) -> losses (B,) or a mean loss, and right answers (B,) or
                 None, for batches and models that `scoring.Layout` does not understand.
    next_token   The tokens of a batch are their own labels, one place on.
    attention    ReadModule, for attention that is not reached otherwise.
    settings     What distinguishes your runs, besides name and seed: {"dropout": 0.1}.
    prior        The StructuralPrior in use, if any: noted with the run.
    optimizer    If given, its rate and decay are noted, and statements about decay can be judged.
    measures     Measures of your own by name: function(model, batch) -> a number, or a list.
    autocast     Type of the mixed precision that you train in. Otherwise a probe has the precision
                 in which `step` is called, which is full unless that is under autocast.
    mlp          Pattern for the names of the parameters that count as MLP.
    sinks        One or more functions that are told of every event and row, as in `train`.
    strict       Raise whatever goes wrong. Otherwise only what goes wrong with the first row is
                 raised; later the row is left out with a warning, and training continues.

    In a job of several processes only the first measures; in the others nothing happens.
    """

    def __init__(
        self,
        model: nn.Module,
        name: str,
        *,
        query: Query = -1,
        informative: Informative = None,
        train: Any = None,
        test: Any = None,
        layers: Layers = None,
        heads: Sequence[int] | None = None,
        offset: int | None = None,
        every: int = EVERY,
        score: Score = None,
        next_token: bool = False,
        attention: ReadModule | None = None,
        settings: Mapping[str, Setting] | None = None,
        seed: int = 0,
        prior: StructuralPrior | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        measures: Mapping[str, Callable[[nn.Module, Any], Any]] | None = None,
        autocast: torch.dtype | None = None,
        mlp: str = MLP,
        train_threshold: float = 0.99,
        test_threshold: float = 0.95,
        persistence: int = 3,
        structure_threshold: float = 0.0,
        keep_weights: bool = False,
        store: Store | str | Path | None = None,
        sinks: Sink | Iterable[Sink] = (),
        strict: bool = False,
    ) -> None:
        if every < 1:
            raise SpecError(f"every is {every}; rows are at least 1 step apart.")
        self.model = unwrap(model)
        self.selection = Selection(query, informative, layers, heads, attention, offset)
        self.strict, self.autocast, self.measures = strict, autocast, dict(measures or {})
        self.layers: list[str] = []  # module paths of what is read, once that is known
        self.train, self.test, self.score = train, test, score
        self.prior, self.optimizer, self.keep_weights = prior, optimizer, keep_weights
        self.store = store if isinstance(store, Store) else Store(store)
        self.rows: list[dict[str, Any]] = []
        self.run: Run | None = None
        self.ended = False
        training = TrainingSpec(
            epochs=0,
            log_every=every,
            train_threshold=train_threshold,
            test_threshold=test_threshold,
            persistence=persistence,
            structure_threshold=float(structure_threshold),
        )
        self._spec = ObservedSpec(name, settings=dict(settings or {}), training=training, seed=seed)
        self._sink, self._told = fan_out(sinks), 0
        self._layout, self._warned, self._unknown = Layout(next_token), False, ""
        self._chosen: list[Layer] = []
        self._mlp = [p for n, p in self.model.named_parameters() if re.search(mlp, n)]
        self._segments: list[dict[str, Any]] = []
        self._held = contextlib.ExitStack()
        self._began = self._written = time.monotonic()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """A loop that ends normally finishes the run; after an error it can be resumed."""
        if kind is None and self.rows:
            self.finish()
        elif not self.ended:
            with self._unharmed():
                self._write()
            self._held.close()

    @property
    def active(self) -> bool:
        """Whether this process measures."""
        return not self.ended and is_first_process() and not self._is_sharded()

    @property
    def left_out(self) -> list[str]:
        """What is not measured, and why."""
        known = (
            (self.selection.informative, "no informative positions: where attention should be"),
            (self.test, "no test batch: generalisation"),
            (self.optimizer, "no optimizer: learning rate and statements about decay"),
        )
        unknown = [f"{self._unknown}: the gradient on attention scores"] if self._unknown else []
        return [text for given, text in known if given is None] + unknown

    def step(self, step: int, batch: Any = None) -> dict[str, Any] | None:
        """Call it at every step; returns the row if one was due (every `every` steps)."""
        due = step % self._spec.training.log_every == 0 and self.active
        return self.measure(step, batch) if due else None

    def measure(self, step: int, batch: Any = None) -> dict[str, Any] | None:
        """A row now: every measure that applies, on the weights as they are. None if this process
        does not measure, or if it went wrong in the middle of training."""
        if self.ended:
            raise StoreError("This observer has finished; make a new one for another run.")
        if not self.active:
            return None
        first = self.run is None
        try:
            with same_draws(self.model):  # sinks and stores may draw, too
                return self._measure(step, batch)
        except Exception as error:
            if self.strict or first:
                raise
            self._note_gap(step, error)
            return self.rows[-1] if self._has(step) else None

    def _has(self, step: int) -> bool:
        return bool(self.rows) and self.rows[-1]["epoch"] == step

    @contextlib.contextmanager
    def _unharmed(self) -> Iterator[None]:
        """Whatever goes wrong at the end, with the disk or a sink, is not to end the user's job."""
        try:
            with same_draws(self.model):
                yield
        except Exception as error:
            if self.strict:
                raise
            warnings.warn(f"{error} The run has the rows written before.", stacklevel=4)

    def _measure(self, step: int, batch: Any) -> dict[str, Any]:
        if self.rows and step <= self.rows[-1]["epoch"]:
            raise SpecError(f"Step {step} follows step {self.rows[-1]['epoch']}; steps must grow.")
        batch = self.train if batch is None else batch
        if batch is None:
            raise SpecError("There is nothing to measure on; give a batch, or Observer(train=).")
        began, first = time.monotonic(), self.run is None
        with undisturbed(self.model), self._precision():
            if first:
                self._chosen = self._find_layers(batch)
            probes = self._take_probes(batch)
            own = {name: self._measure_own(name, batch) for name in self.measures}
        self._unknown = self._unknown or probes[0].unknown
        if first:
            self._begin(step, probes[0].oracle)
        self._segments[-1]["left_out"] = self.left_out
        row = self._complete(step, measure_probes(probes, self._spec.structure_threshold), own)
        self.rows.append(row)
        for problem in [probe.problem for probe in probes if probe.problem]:
            if self.strict:
                raise CaptureError(problem)
            self._note_gap(step, problem)
        now = time.monotonic()
        self._segments[-1]["observing_seconds"] += now - began
        self._segments[-1]["seconds"] = now - self._began
        if not all(np.isfinite(row.get(n, 0.0)) for n in ("train_loss", "parameter_norm")):
            self.finish(failed=step)
            return row
        if first or now - self._written > WRITE_SECONDS:
            self._write()
        self._tell("advanced")
        return row

    def _find_layers(self, batch: Any) -> list[Layer]:
        moved = move(batch, self.model)
        forward = partial(self.score or run_model, self.model, moved)
        found = list_layers(self.model, forward, self.selection.attention)
        chosen = choose_layers(found, self.selection.layers, self.model)
        self.layers = [layer.name for layer in chosen]
        return sorted(chosen, key=found.index)

    def _take_probes(self, batch: Any) -> list[Probe]:
        given = (self.selection, self._chosen, self._layout, self.score)
        probes = [take_probe(self.model, batch, *given)]
        if self.test is not None:
            probes.append(take_probe(self.model, self.test, *given, gradient=False))
        return probes

    def _measure_own(self, name: str, batch: Any) -> Any:
        with torch.no_grad():
            value = self.measures[name](self.model, move(batch, self.model))
        value = torch.as_tensor(value)
        if value.dim() > 1:
            raise SpecError(
                f"The measure {name!r} returned shape {tuple(value.shape)}; it must return a "
                "number, or a list of numbers."
            )
        return value

    def _precision(self) -> Any:
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(find_device(self.model).type, self.autocast)

    def _is_sharded(self) -> bool:
        """A probe in one process would wait for parts that only the others have."""
        if not is_sharded(self.model):
            return False
        self._warn("The parameters are shared out over processes (FSDP); nothing is measured.")
        return True

    def _warn(self, message: str) -> None:
        """Once: a warning per step would drown everything else."""
        if not self._warned:
            warnings.warn(message, stacklevel=2)
        self._warned = True

    def _note_gap(self, step: int, error: Exception | str) -> None:
        kind = "" if isinstance(error, str | GrokscopeError) else f"{type(error).__name__}: "
        text = f"{kind}{error}".strip().splitlines()[0][:500]
        self._segments[-1].setdefault("gaps", []).append({"step": int(step), "error": text})
        what = "keep" if self._has(step) else "measure"
        self._warn(
            f"grokscope could not {what} step {step}, and training continues: {text} Further gaps "
            "are noted with the run; Observer(strict=True) raises."
        )

    def finish(self, failed: int = -1) -> Run | None:
        """Outcome, phases and checksums: the run is over. None where there was nothing to finish.
        If it cannot be written, you are warned, and may call it again."""
        if self.run is None:
            if is_first_process():
                if self.strict:
                    raise StoreError("Nothing was measured, so there is nothing to finish.")
                self._warn("Nothing was measured, so there is nothing to finish.")
            return None
        if self.ended:
            return self.run
        with self._unharmed():
            self._end(failed)
        return self.run

    def _end(self, failed: int) -> None:
        assert self.run is not None
        outcome, weights = conclude(self._spec, self.curve, failed), None
        if failed < 0:
            outcome["ended_by"] = "its training loop"
        if self.keep_weights:
            kept = {name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()}
            half = torch.bfloat16  # unknown to NumPy
            weights = {n: (t.float() if t.dtype == half else t).numpy() for n, t in kept.items()}
        self.store.finish(self.run, self.curve, weights, outcome, {"segments": self._segments})
        self.ended = True
        self._held.close()
        self._tell("finished" if failed < 0 else "failed")

    def finish_at(self, step: int, batch: Any = None) -> Run | None:
        """Finish, with a last row at `step`."""
        if self.active and (not self.rows or self.rows[-1]["epoch"] < step):
            self.measure(step, batch)
        return self.finish()

    @property
    def curve(self) -> dict[str, np.ndarray]:
        """The rows so far, one column per measure; NaN where a row lacks it."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {name: _column([row.get(name) for row in self.rows], name) for name in names}

    def _complete(self, step: int, row: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        for name, group in (("parameter_norm", self.model.parameters()), ("mlp_norm", self._mlp)):
            if parameters := [parameter.detach().float() for parameter in group]:
                row[name] = get_total_norm(parameters)
        if self.optimizer is not None:
            row["learning_rate"] = float(self.optimizer.param_groups[0]["lr"])
        if taken := {"epoch", "run", *row} & own.keys():
            raise SpecError(f"The name {min(taken)!r} is taken; give your measure another.")
        return {"epoch": int(step), **{name: _plain(v) for name, v in {**row, **own}.items()}}

    def _begin(self, step: int, oracle: Tensor | None) -> None:
        """Open the entry in the store; when training is resumed, keep the rows before `step`."""
        training, derived = self._spec.training, 0.0
        if oracle is not None and training.structure_threshold == 0:
            # Half of the oracle's share, as in the lab, for the example with most positions.
            share = 0.5 / int((oracle > 0).sum(dim=-1).max())
            if callable(self.selection.informative):
                derived = share  # by this batch, which must not decide what the run is called
            else:
                training = replace(training, structure_threshold=share)
        self._spec = spec = replace(
            self._spec,
            watch=self.selection.spec,
            prior=PriorSpec() if self.prior is None else self.prior.spec,
            optimiser=describe_optimiser(self.optimizer),
            training=training,
            derived_threshold=derived,
        )
        if not self._held.enter_context(self.store.claim(spec.id)):
            raise StoreError(
                f"Run {spec.id} ({spec.name}, seed {spec.seed}) is being watched by another "
                "process; give this one another name, seed or setting."
            )
        former = self.store.find(spec)
        if step > 0 and (former.path / CURVE).exists():
            rows = former.curve.filter(former.curve["epoch"] < step).iter_rows(named=True)
            self.rows = [{n: _plain(value) for n, value in row.items()} for row in rows]
        if self.rows:
            with contextlib.suppress(StoreError):
                self._segments = list(former.provenance.get("segments", []))
            kept = getattr(former.about, "derived_threshold", derived)
            self._spec = spec = replace(spec, derived_threshold=kept)
        if former.path.exists() and (not self.rows or former.ended):
            self.store.set_aside(former.path)
        self.run = self.store.begin(spec)
        machine = {
            **describe_host("grokscope", "torch", "transformers", "numpy"),
            "backend": find_device(self.model).type,
            "threads": torch.get_num_threads(),
            "model": type(self.model).__name__,
        }
        read = {"layers": self.layers, "left_out": self.left_out, "observing_seconds": 0.0}
        self._segments.append({**new_segment(step, "observed", machine), **read})
        self._tell("resumed" if self.rows else "started")

    def _write(self) -> None:
        if self.run is not None:
            self.store.save_progress(self.run, self.curve, None, {"segments": self._segments})
        self._written = time.monotonic()

    def _tell(self, kind: EventKind) -> None:
        """Tell the sinks, with every row that they have not seen, as plain numbers."""
        new, self._told = self.rows[self._told :], len(self.rows)
        rows = [{name: np.asarray(value).tolist() for name, value in row.items()} for row in new]
        epoch = self.rows[-1]["epoch"] if self.rows else 0
        message = "; ".join(self.left_out) if kind in ("started", "resumed") else ""
        self._sink(Event(kind, self._spec.id, epoch, rows=rows, message=message))


def watch(model: nn.Module, name: str = "", **options: Any) -> Observer:
    """The shortest form, for models that predict the next token: `observer = watch(model)`, then
    `observer.step(step, batch)` with tokens (B, T), or with a mapping or pair that has them.

    All layers and heads are read at eight positions of each sequence; what cannot be known is left
    out and listed in `observer.left_out`. Every option of `Observer` can be given."""
    defaults: dict[str, Any] = {"query": spread_queries, "next_token": True}
    return Observer(model, name or type(unwrap(model)).__name__, **defaults | options)


def describe_optimiser(optimizer: Any) -> OptimiserSpec | None:
    """An optimiser that the lab has too, in its terms; None for others. Clipping and warm-up are
    not part of a PyTorch optimiser and count as off."""
    optimizer = getattr(optimizer, "optimizer", optimizer)  # as Accelerate wraps it
    if not isinstance(optimizer, torch.optim.AdamW | torch.optim.SGD):
        return None
    group = optimizer.param_groups[0]
    # What it began with: a schedule moves the rate of the moment, which is a column of the curve.
    rate = float(group.get("initial_lr", optimizer.defaults.get("lr", group["lr"])))
    decay = max(
        float(group.get("initial_weight_decay", group["weight_decay"]))  # timm's schedules keep it
        for group in optimizer.param_groups
    )
    # OneCycleLR and CyclicLR move the momentum, too, whatever a group had, and leave this mark.
    start = optimizer.defaults if "max_momentum" in group else group
    if isinstance(optimizer, torch.optim.AdamW):
        beta1, beta2 = float(start["betas"][0]), float(group["betas"][1])
        epsilon = float(group["eps"])
        return OptimiserSpec("adamw", rate, decay, beta1, beta2, epsilon, warmup=0, clip=0.0)
    if decay > 0:
        return None  # part of the gradient there; the lab's decay is decoupled
    return OptimiserSpec("sgd", rate, 0.0, float(start["momentum"]), warmup=0, clip=0.0)


def _plain(value: Any) -> Any:
    """Scalars as floats, tensors and lists as arrays."""
    value = value.detach().float().tolist() if isinstance(value, Tensor) else value
    return np.array(value, np.float32) if isinstance(value, list) else value


def _column(values: list[Any], name: str) -> np.ndarray:
    if name == "epoch":
        return np.array(values, np.int32)
    if not any(isinstance(value, np.ndarray) for value in values):
        return np.array([np.nan if v is None else v for v in values], np.float32)
    longest = max(len(v) for v in values if v is not None)
    column = np.full((len(values), longest), 0.0 if name == "attention" else np.nan, np.float32)
    for index, value in enumerate(values):
        if value is not None:
            column[index, : len(value)] = value
    return column

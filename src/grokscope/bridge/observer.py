"""Watching a model of your own while you train it: the same curves, in the same store.

Rows are written as they come, so `grokscope show`, `figure` and `report` work while it trains.
"""

from __future__ import annotations

import contextlib
import platform
import re
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.capture import ReadModule, find_device, undisturbed, unwrap
from grokscope.bridge.positions import Informative, Positions, Query
from grokscope.bridge.prior import StructuralPrior
from grokscope.bridge.probe import Probe, take_probe
from grokscope.bridge.scoring import Score, move, score_batch
from grokscope.errors import SpecError, StoreError
from grokscope.measures.attention import measure_attention, measure_routing, structural_divergence
from grokscope.measures.outcomes import conclude
from grokscope.spec import ObservedSpec, OptimiserSpec, PriorSpec, Setting, TrainingSpec, WatchSpec
from grokscope.store import CURVE, Run, Store
from grokscope.store.provenance import find_commit, new_segment

EVERY = 100  # steps between two rows unless told otherwise
WRITE_SECONDS = 1.0  # between two writes of the curve
MLP = (
    r"(^|\.)(mlp|ffn|feed_?forward|intermediate|linear[12]|fc[12]|c_fc|"
    r"(?<!attention\.)output\.dense)(\.|$)"
)


class Observer:
    """Measures a model at chosen steps of its training, on batches of your choice.

    query        Position(s) whose attention is read, or a function of the batch.
    informative  Positions that determine the answer, or a function (see `Positions`). Without them
                 there is no oracle; entropy, starvation, norms and phases are measured all the
                 same.
    train, test  Batches to measure on. `step` can be given another for `train`; without `test`
                 nothing is known of generalisation.
    layers       Attention calls to read, in the order in which the model makes them, and `heads` of
                 each; all by default. They are judged by their mean (pooled mass, eq. 55).
    every        Steps between two rows.
    score        function(model, batch) -> losses (B,) or a mean loss, and right answers (B,) or
                 None, for batches and models that `score_batch` does not understand.
    attention    ReadModule, for attention that is not reached otherwise.
    settings     What tells your runs apart, beside name and seed: {"dropout": 0.1}.
    prior        The StructuralPrior in use, if any: noted with the run.
    optimizer    If given, its rate and decay are noted, and statements about decay can be judged.
    mlp          Pattern for names of the parameters that count as MLP.
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
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        every: int = EVERY,
        score: Score = score_batch,
        attention: ReadModule | None = None,
        settings: Mapping[str, Setting] | None = None,
        seed: int = 0,
        prior: StructuralPrior | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        mlp: str = MLP,
        train_threshold: float = 0.99,
        test_threshold: float = 0.95,
        persistence: int = 3,
        structure_threshold: float = 0.0,
        keep_weights: bool = False,
        store: Store | str | Path | None = None,
    ) -> None:
        if every < 1:
            raise SpecError(f"every is {every}; rows are at least 1 step apart.")
        self.model = unwrap(model)
        self.positions = Positions(query, informative)
        self.train, self.test = train, test
        self.layers, self.heads, self.read = layers, heads, attention
        self.score = score
        self.prior = prior
        self.optimizer = optimizer
        self.keep_weights = keep_weights
        self.store = store if isinstance(store, Store) else Store(store)
        self.rows: list[dict[str, Any]] = []
        self.run: Run | None = None
        self.ended = False
        self._training = TrainingSpec(
            epochs=0,
            log_every=every,
            train_threshold=train_threshold,
            test_threshold=test_threshold,
            persistence=persistence,
            structure_threshold=structure_threshold,
        )
        self._about = {"name": name, "settings": dict(settings or {}), "seed": seed}
        ObservedSpec(**self._about)  # type: ignore[arg-type]  # refuse now, not after an hour
        self._mlp = [p for n, p in self.model.named_parameters() if re.search(mlp, n)]
        self._threshold = structure_threshold
        self._segments: list[dict[str, Any]] = []
        self._held = contextlib.ExitStack()
        self._began = self._written = time.monotonic()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """A loop that ends well finishes the run; one that breaks leaves it to be gone on with."""
        if kind is None and self.rows:
            self.finish()
        elif not self.ended:
            if self.rows:
                self._write()
            self._held.close()

    def step(self, step: int, batch: Any = None) -> dict[str, Any] | None:
        """Call it at every step; the row, if one was due (every `every` steps)."""
        due = not self.ended and step % self._training.log_every == 0
        return self.measure(step, batch) if due else None

    def measure(self, step: int, batch: Any = None) -> dict[str, Any]:
        """A row now: the weights as they are, seen by every measure that applies."""
        if self.ended:
            raise StoreError("This observer has finished; make a new one for another run.")
        if self.rows and step <= self.rows[-1]["epoch"]:
            raise SpecError(
                f"Step {step} was measured after step {self.rows[-1]['epoch']}; steps must grow."
            )
        batch = self.train if batch is None else batch
        if batch is None:
            raise SpecError("There is nothing to measure on; give a batch, or Observer(train=).")
        began = time.monotonic()
        first = not self.rows
        with undisturbed(self.model), torch.enable_grad():
            seen = [self._probe(batch, gradient=True, check=first)]
            if self.test is not None:
                seen.append(self._probe(self.test, gradient=False, check=False))
        if self.run is None:
            self._begin(step, seen[0].oracle)
        row = self._row(step, seen)
        self.rows.append(row)
        self._segments[-1]["observing_seconds"] += time.monotonic() - began
        self._segments[-1]["seconds"] = time.monotonic() - self._began
        broken = [n for n in ("train_loss", "parameter_norm") if not np.isfinite(row.get(n, 0.0))]
        if broken:
            self.finish(failed=step)
        elif first or time.monotonic() - self._written > WRITE_SECONDS:
            self._write()
        return row

    def finish(self, failed: int = -1) -> Run:
        """Outcome, phases and checksums: the run is over."""
        if self.ended and self.run is not None:
            return self.run
        if self.run is None:
            raise StoreError("Nothing was measured, so there is nothing to finish.")
        curve = self.curve
        outcome = conclude(self.run.about, curve, failed)
        if failed < 0:
            outcome["ended_by"] = "its training loop"
        self.store.finish(self.run, curve, self._weights(), outcome, {"segments": self._segments})
        self.ended = True
        self._held.close()
        return self.run

    @property
    def curve(self) -> dict[str, np.ndarray]:
        """The rows so far, a column a measure; NaN where a row lacks it."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return {name: _column([row.get(name) for row in self.rows], name) for name in names}

    # One row

    def _probe(self, batch: Any, gradient: bool, check: bool) -> Probe:
        return take_probe(
            self.model,
            move(batch, find_device(self.model)),
            self.score,
            self.positions,
            self.layers,
            self.heads,
            self.read,
            gradient,
            check,
        )

    def _row(self, step: int, seen: list[Probe]) -> dict[str, Any]:
        row: dict[str, Any] = {"epoch": int(step)}
        for side, probe in zip(("train", "test"), seen, strict=False):
            if probe.losses is not None:
                row[f"{side}_loss"] = probe.losses.float().mean()
            if probe.right is not None:
                row[f"{side}_accuracy"] = probe.right.float().mean()
        row |= self._routing(seen)
        attention = _joined([probe.attention for probe in seen])
        row["logit_variance"] = visible_variance(attention)
        if seen[0].gradient is not None:
            size = seen[0].gradient.abs()
            row |= {"logit_gradient_mean": size.mean(), "logit_gradient_max": size.max()}
        row["parameter_norm"] = _norm(list(self.model.parameters()))
        if self._mlp:
            row["mlp_norm"] = _norm(self._mlp)
        if self.optimizer is not None:
            row["learning_rate"] = float(self.optimizer.param_groups[0]["lr"])
        return {name: _plain(value) for name, value in row.items()}

    def _routing(self, seen: list[Probe]) -> dict[str, Any]:
        attention = _joined([probe.attention for probe in seen])
        oracles = [probe.oracle for probe in seen if probe.oracle is not None]
        if not oracles:
            return {n: _plain(v) for n, v in measure_attention(attention).items()}
        oracle = _joined(oracles)
        found = measure_routing(attention, oracle, len(oracles[0]), self._threshold)
        furthest = structural_divergence(attention.mean(dim=1), oracle).max()
        return {n: _plain(v) for n, v in {**found, "divergence_max": furthest}.items()}

    # The entry in the store

    def _begin(self, step: int, oracle: Tensor | None) -> None:
        if oracle is not None and self._threshold == 0:
            # Half of the oracle's share, as in the lab; of the example with most positions.
            self._threshold = 0.5 / int((oracle > 0).sum(dim=-1).max())
        self._training = TrainingSpec(
            **{**vars(self._training), "structure_threshold": float(self._threshold)}
        )
        query, informative = self.positions.names
        spec = ObservedSpec(
            **self._about,  # type: ignore[arg-type]
            watch=WatchSpec(query, informative, _named(self.layers), _named(self.heads)),
            prior=PriorSpec() if self.prior is None else self.prior.spec,
            optimiser=describe_optimiser(self.optimizer),
            training=self._training,
        )
        if not self._held.enter_context(self.store.claim(spec.id)):
            raise StoreError(
                f"Run {spec.id} ({spec.name}, seed {spec.seed}) is being watched by another "
                "process; give this one another name, seed or setting."
            )
        former = self.store.find(spec)
        if former.path.exists():
            if step > 0 and (former.path / CURVE).exists():
                self._go_on(former, step)
            if not self.rows or former.ended:
                self.store.set_aside(former.path)
        self.run = self.store.begin(spec)
        self._segments.append(
            {**new_segment(step, "observed", self._machine()), "observing_seconds": 0.0}
        )

    def _go_on(self, former: Run, step: int) -> None:
        """Training was resumed: the rows up to where it stands stay."""
        kept = former.curve
        for row in kept.filter(kept["epoch"] < step).iter_rows(named=True):
            self.rows.append({n: np.array(v) if isinstance(v, list) else v for n, v in row.items()})
        if self.rows:
            with contextlib.suppress(StoreError):
                self._segments = list(former.provenance.get("segments", []))

    def _write(self) -> None:
        if self.run is not None:
            self.store.save_progress(self.run, self.curve, None, {"segments": self._segments})
        self._written = time.monotonic()

    def _weights(self) -> dict[str, np.ndarray] | None:
        if not self.keep_weights:
            return None
        kept = {}
        for name, tensor in self.model.state_dict().items():
            tensor = tensor.detach().cpu()
            kept[name] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        return kept

    def _machine(self) -> dict[str, Any]:
        versions = {"python": platform.python_version()}
        for package in ("grokscope", "torch", "transformers", "numpy"):
            with contextlib.suppress(PackageNotFoundError):
                versions[package] = version(package)
        return {
            "versions": versions,
            "commit": find_commit(),
            "machine": platform.machine(),
            "system": platform.system(),
            "backend": find_device(self.model).type,
            "threads": torch.get_num_threads(),
            "model": type(self.model).__name__,
        }


def visible_variance(attention: Tensor) -> Tensor:  # (n, H, T) -> ()
    """Variance of the scores over the positions that a query sees, as the lab's `logit_variance`
    has it over all: scores are known from their softmax up to a constant, which cancels."""
    seen = attention > 0
    count = seen.sum(dim=-1, keepdim=True)
    scores = torch.where(seen, attention, 1.0).log()
    centred = torch.where(seen, scores - scores.sum(dim=-1, keepdim=True) / count, 0.0)
    return ((centred**2).sum(dim=-1) / count[..., 0]).mean()


def describe_optimiser(optimizer: Any) -> OptimiserSpec | None:
    """An optimiser that the lab knows, in its terms: None for others. Clipping and warm-up are not
    the optimiser's affair and are taken as off."""
    optimizer = getattr(optimizer, "optimizer", optimizer)  # as Accelerate wraps it
    if not isinstance(optimizer, torch.optim.AdamW | torch.optim.SGD):
        return None
    groups = optimizer.param_groups
    rate = float(groups[0].get("initial_lr", groups[0]["lr"]))
    decay = max(float(group["weight_decay"]) for group in groups)
    if isinstance(optimizer, torch.optim.SGD):
        if decay > 0:
            return None  # coupled to the gradient there, which is another thing
        momentum = float(groups[0]["momentum"])
        return OptimiserSpec("sgd", rate, 0.0, momentum, warmup=0, clip=0.0)
    beta1, beta2 = map(float, groups[0]["betas"])
    epsilon = float(groups[0]["eps"])
    return OptimiserSpec("adamw", rate, decay, beta1, beta2, epsilon, warmup=0, clip=0.0)


def _named(chosen: Sequence[int] | None) -> str:
    return "all" if chosen is None else ", ".join(map(str, chosen))


def _norm(parameters: list[nn.Parameter]) -> Tensor:
    return get_total_norm([p.detach().float() for p in parameters])


def _joined(parts: list[Tensor]) -> Tensor:
    """Batches together, the shorter sequences filled up with positions that get nothing."""
    longest = max(part.shape[-1] for part in parts)
    if len({part.shape[1:-1] for part in parts}) > 1:
        raise CaptureError("The training and test batches give different numbers of heads.")
    return torch.cat(
        [torch.nn.functional.pad(part, (0, longest - part.shape[-1])) for part in parts]
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu().float().numpy()
        return float(value) if value.ndim == 0 else value
    return value


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

"""A lab run as an ordinary PyTorch module with equal logits, for use with other libraries.

n examples, T positions, H heads, d width, m hidden units, V tokens, C classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grokscope.errors import SpecError, StoreError
from grokscope.store import Run, Store

if TYPE_CHECKING:  # it imports JAX, which the rest of the bridge does without
    from grokscope.models.minimal import Shape


class ExportedModel(nn.Module):
    """The minimal transformer of `grokscope.models.minimal`, in textbook form.

    `embedding`, `position`, `query`, `key`, `value`, `merge` (several heads only), `hidden` and
    `readout` are plain layers; `scores` (n, H, T), `pattern` (n, H, T) and `pooled` (n, d) are
    identities, there to be hooked.
    """

    def __init__(self, shape: Shape, frozen: Tensor | None = None) -> None:
        super().__init__()
        self.shape, d, m = shape, shape.width, shape.hidden
        self.embedding = nn.Embedding(shape.vocabulary, d)
        self.position = nn.Embedding(shape.length, d)
        self.query, self.key, self.value = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.merge = nn.Linear(d, d, bias=False) if shape.heads > 1 else nn.Identity()
        self.hidden, self.readout = nn.Linear(d, m), nn.Linear(m, shape.classes)
        self.scores, self.pattern, self.pooled = nn.Identity(), nn.Identity(), nn.Identity()
        self.register_buffer("frozen", frozen)  # (T,), or (n, T) for the run's own examples

    def forward(self, tokens: Tensor, frozen: Tensor | None = None) -> Tensor:  # (n, T) -> (n, C)
        """Logits. `frozen` (n, T) takes the place of attention."""
        parts = (self.shape.heads, self.shape.width // self.shape.heads)
        place = torch.arange(tokens.shape[1], device=tokens.device)
        embedded = self.embedding(tokens) + self.position(place)  # (n, T, d)
        asked = self.query(embedded[:, -1]).unflatten(-1, parts)  # (n, H, s)
        keys = self.key(embedded).unflatten(-1, parts)  # (n, T, H, s)
        scores = self.scores(torch.einsum("nhs,nths->nht", asked, keys) / parts[1] ** 0.5)
        weights = self.pattern(self.attend(scores, self.frozen if frozen is None else frozen))
        values = self.value(embedded).unflatten(-1, parts)
        mixed = torch.einsum("nht,nths->nhs", weights, values).flatten(1)
        pooled = self.pooled(self.merge(mixed))
        return self.readout(F.relu(self.hidden(pooled)))

    def attend(self, scores: Tensor, frozen: Tensor | None) -> Tensor:  # (n, H, T)
        if frozen is not None:
            if frozen.dim() == 2 and len(frozen) != len(scores):
                raise SpecError(
                    "This run's attention was frozen example by example; give "
                    f"forward(tokens, frozen) the posterior of these {len(scores)} examples."
                )
            return frozen.expand(len(scores), -1)[:, None].expand_as(scores)
        if self.shape.attention == "softmax":
            return torch.softmax(scores, dim=-1)
        positive = F.relu(scores)
        total = positive.sum(dim=-1, keepdim=True)
        share = positive / torch.where(total > 0, total, 1.0)
        return torch.where(total > 0, share, 1.0 / scores.shape[-1])


def export_run(run: Run, epoch: int | None = None) -> ExportedModel:
    """The model of a finished lab run, or of one of its snapshots, as an `nn.Module`.

    Attention that was frozen stays frozen: as one posterior where it is the same for every example,
    else for the task's examples in their order (`grokscope.build_task`)."""
    from grokscope.models import shape_of
    from grokscope.models.minimal import Shape
    from grokscope.problems.targets import find_targets
    from grokscope.tasks import build_task

    spec = run.spec
    if run.status != "finished" and epoch is None:
        raise StoreError(f"Run {run.id} is {run.status}; only finished runs can be exported.")
    data = build_task(spec.task, spec.seed)
    shape = shape_of(spec.model, data)
    if not isinstance(shape, Shape):
        raise SpecError(
            f"Run {run.id} is a general transformer; only the minimal model can be exported."
        )
    frozen = None
    if spec.interventions.frozen_attention != "no":
        _, rows = find_targets(spec, data, Store(run.path.parent))
        same = bool((rows == rows[:1]).all())
        frozen = torch.from_numpy(np.array(rows[0] if same else rows, np.float32))
    model = ExportedModel(shape, frozen)
    weights = {name: torch.from_numpy(array) for name, array in run.weights(epoch).items()}
    with torch.no_grad():
        for child, layer in model.named_children():
            name = "output" if child == "merge" else child  # `output` is taken in other libraries
            if isinstance(layer, nn.Embedding):
                layer.weight.copy_(weights[name])
            elif isinstance(layer, nn.Linear):
                layer.weight.copy_(weights[name].T)  # the lab multiplies from the left
                if layer.bias is not None:
                    layer.bias.copy_(weights[f"{name}_bias"])
    return model.eval()

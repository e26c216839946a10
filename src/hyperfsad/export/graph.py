"""A whole detector as one module: 8-bit pixels in, scores and map out, for any number of images.

It does what `WholeView` does image by image, in operations that a graph can hold. The memory, the
positions and all that follows from the good parts alone are constants in it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..detector.pipeline import Levels
from ..encoders.engines import TokenModel
from ..method.matching import smoothed
from ..method.scoring import cls_similarities, mean_of_layers
from ..views.whole import CLEARLY_BETTER, COMPARED_ORIENTATIONS, WholeView
from .matching import MissingGraph, distances

THRESHOLD_OUTPUTS = {"score": "threshold", "map": "map_threshold"}
"""The outputs that are constants: what the score and the peak of the map are held against."""


@dataclass(frozen=True)
class ComparedEntries:
    """The entries of the memory bank that each image is compared with."""

    entries: Tensor
    """(images, few); one may stand there twice, and then is allowed once."""
    allowed: Tensor
    """Which of them count, (images, few)."""
    plain: Tensor
    """Whether of each good part only itself counts, as it lies, (images, good parts)."""


class Graph(nn.Module):
    """A detector of one product, for whole pictures."""

    mean: Tensor
    std: Tensor
    cls: Tensor
    groups: Tensor

    def __init__(self, model: TokenModel, view: WholeView, levels: Levels) -> None:
        super().__init__()
        self.model, bank = model, view.bank
        self._how, self._scoring = view.rules.comparison, view.scoring
        self._count = self._how.grid**2
        self._pooled = min(self._scoring.pooling.patches_of(self._count), self._count)
        self._turned, self._tentative = view.rules.rotations > 1, view.rules.tentative
        self.missing = None if view.pieces is None else MissingGraph(view.pieces, self._how.grid)
        self._thresholds = {
            name: torch.tensor(value)
            for name, value in (("score", levels.threshold), ("map", levels.map_threshold))
            if value is not None
        }
        self.register_buffer("mean", torch.tensor(model.settings.mean))
        self.register_buffer("std", torch.tensor(model.settings.std))
        self.register_buffer("cls", bank.cls.cpu().clone())
        self.register_buffer("groups", torch.tensor(bank.entries))
        for layer, tokens in enumerate(bank.patches):
            shape = (len(bank), self._count, -1) if self._turned else tokens.shape
            self.register_buffer(f"memory_{layer}", tokens.cpu().reshape(shape).clone())

    @property
    def outputs(self) -> list[str]:
        """The names of what comes out, in its order."""
        names = ["score", "map", *(f"score_{name}" for name in self._scoring.weights)]
        names += ["map_missing"] if self.missing is not None else []
        for name in self._thresholds:
            names += [f"anomalous_by_{name}", THRESHOLD_OUTPUTS[name]]
        return names

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """From (images, side, side, 3), uint8, to what `outputs` names."""
        values = (pixels.float() / 255 - self.mean) / self.std
        patches, cls = self.model(values.permute(0, 3, 1, 2))
        compared = self._compared_entries(cls) if self._turned else None
        distances = mean_of_layers(
            self._distances(tokens, layer, compared)
            for layer, tokens in enumerate(patches.unbind(dim=1))
        )
        shown = smoothed(distances, self._how.grid) if self._how.smooth else distances
        found = {
            "score_map": distances.topk(self._pooled, dim=-1).values.mean(dim=-1),
            "score_cls": self._cls_score(cls, compared),
        }
        weights = self._scoring.weights
        if "missing" in weights:
            found["score_missing"] = torch.zeros_like(found["score_map"])
        if self.missing is not None:
            middle = patches.shape[1] // 2
            score, added = self.missing(patches[:, middle], cls[:, middle])
            if compared is not None:  # of a part that lies turned, no piece is searched for
                upright = compared.plain.all(dim=-1).to(score.dtype)
                score, added = score * upright, added * upright[:, None]
            added = weights["missing"] * added
            found["score_missing"], shown = score, shown + added
            found["map_missing"] = self._on_grid(added)
        parts = torch.stack([weights[name] * found[f"score_{name}"] for name in weights])
        found["score"], found["map"] = parts.sum(dim=0), self._on_grid(shown)
        highest = {"score": found["score"], "map": shown.amax(dim=-1)}
        for name, threshold in self._thresholds.items():
            found[f"anomalous_by_{name}"] = highest[name] > threshold
            found[THRESHOLD_OUTPUTS[name]] = threshold
        return tuple(found[name] for name in self.outputs)

    def _on_grid(self, values: Tensor) -> Tensor:
        return values.reshape(-1, self._how.grid, self._how.grid)

    def _compared_entries(self, cls: Tensor) -> ComparedEntries:
        """The entries that each image is compared with."""
        distances = (1 - cls_similarities(cls, self.cls)).clamp(min=0).mean(dim=-1)
        own = distances[:, self.groups]
        few = min(COMPARED_ORIENTATIONS, self.groups.shape[1])
        nearest = own.topk(few, dim=-1, largest=False).indices
        entries = self.groups.expand(cls.shape[0], -1, -1).gather(-1, nearest)
        plain = own.amin(dim=-1) > CLEARLY_BETTER * own[..., 0]
        plain = plain & torch.tensor(self._tentative)
        entries = torch.where(plain[..., None], self.groups[:, :1], entries)
        allowed = ~plain[..., None] | (torch.arange(few) == 0)
        return ComparedEntries(entries.flatten(1), allowed.flatten(1), plain)

    def _distances(self, queries: Tensor, layer: int, compared: ComparedEntries | None) -> Tensor:
        """1 − cos(q, ε) of each patch in a layer, (images, N)."""
        memory, allowed = self.get_buffer(f"memory_{layer}"), None
        if compared is not None:
            memory = memory[compared.entries].flatten(1, 2)
            allowed = compared.allowed[:, :, None].expand(-1, -1, self._count).flatten(1)
        return distances(queries, memory, self._how.sharpness, allowed)

    def _cls_score(self, cls: Tensor, compared: ComparedEntries | None) -> Tensor:
        """S_cls (Equation 4) of each image."""
        alike = cls_similarities(cls, self.cls)
        if compared is not None and self._tentative:
            entries = compared.entries[..., None].expand(-1, -1, alike.shape[-1])
            alike = alike.gather(1, entries)
        return (1 - alike.amax(dim=1)).clamp(min=0).mean(dim=-1)

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


class Graph(nn.Module):
    """A detector of one product, for whole pictures."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: TokenModel, scoring: "ScoringGraph") -> None:
        super().__init__()
        self.model, self.scoring = model, scoring
        self.register_buffer("mean", torch.tensor(model.settings.mean))
        self.register_buffer("std", torch.tensor(model.settings.std))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """From (images, side, side, 3), uint8, to what `ScoringGraph.outputs` names."""
        values = (pixels.float() / 255 - self.mean) / self.std
        patches, cls = self.model(values.permute(0, 3, 1, 2))
        found: tuple[Tensor, ...] = self.scoring(patches, cls)
        return found


class ScoringGraph(nn.Module):
    """All of a detector that follows its encoder."""

    threshold: Tensor
    map_threshold: Tensor

    def __init__(self, view: WholeView, levels: Levels) -> None:
        super().__init__()
        self._how, self._scoring, self._levels = view.rules.comparison, view.scoring, levels
        self._middle = len(view.rules.settings.layers) // 2
        patches = self._how.grid**2
        self._pooled = min(self._scoring.pooling.patches_of(patches), patches)
        self.memory = MemoryGraph(view)
        self.missing = None if view.pieces is None else MissingGraph(view.pieces, self._how.grid)
        if levels.threshold is not None:
            self.register_buffer("threshold", torch.tensor(levels.threshold))
        if levels.map_threshold is not None:
            self.register_buffer("map_threshold", torch.tensor(levels.map_threshold))

    @property
    def outputs(self) -> list[str]:
        """The names of what comes out, in its order."""
        names = ["score", "map", *(f"score_{name}" for name in self._scoring.weights)]
        names += ["map_missing"] if self.missing is not None else []
        if self._levels.threshold is not None:
            names += ["anomalous_by_score", "threshold"]
        if self._levels.map_threshold is not None:
            names += ["anomalous_by_map", "map_threshold"]
        return names

    def forward(self, patches: Tensor, cls: Tensor) -> tuple[Tensor, ...]:
        """From tokens (images, layers, patches, D) and (images, layers, D) to what `outputs`
        names."""
        compared = self.memory.compared_entries(cls)
        distances = mean_of_layers(
            self.memory.distances(tokens, layer, compared)
            for layer, tokens in enumerate(patches.unbind(dim=1))
        )
        shown = smoothed(distances, self._how.grid) if self._how.smooth else distances
        found = {
            "score_map": distances.topk(self._pooled, dim=-1).values.mean(dim=-1),
            "score_cls": self.memory.cls_score(cls, compared),
        }
        if "missing" in self._scoring.weights:
            found["score_missing"] = torch.zeros_like(found["score_map"])
        if self.missing is not None:
            score, added = self.missing(patches[:, self._middle], cls[:, self._middle])
            asked = compared.plain.all(dim=-1).to(score.dtype) if compared is not None else None
            if asked is not None:  # of a part that lies turned, no piece is searched for
                score, added = score * asked, added * asked[:, None]
            added = self._scoring.weights["missing"] * added
            found["score_missing"], shown = score, shown + added
            found["map_missing"] = self._on_grid(added)
        weights = self._scoring.weights
        found["score"] = torch.stack([weights[name] * found[f"score_{name}"] for name in weights])
        found["score"], found["map"] = found["score"].sum(dim=0), self._on_grid(shown)
        return self._judged(found, shown.amax(dim=-1))

    def _judged(self, found: dict[str, Tensor], peak: Tensor) -> tuple[Tensor, ...]:
        """All outputs, with the verdicts by score and by map and what they are held against."""
        if self._levels.threshold is not None:
            found["anomalous_by_score"] = found["score"] > self.threshold
            found["threshold"] = self.threshold
        if self._levels.map_threshold is not None:
            found["anomalous_by_map"] = peak > self.map_threshold
            found["map_threshold"] = self.map_threshold
        return tuple(found[name] for name in self.outputs)

    def _on_grid(self, values: Tensor) -> Tensor:
        return values.reshape(-1, self._how.grid, self._how.grid)


@dataclass(frozen=True)
class ComparedEntries:
    """The entries of the memory bank that each image is compared with."""

    entries: Tensor
    """(images, few); one may stand there twice, and then is allowed once."""
    allowed: Tensor
    """Which of them count, (images, few)."""
    plain: Tensor
    """Whether of each good part only itself counts, as it lies, (images, good parts)."""


class MemoryGraph(nn.Module):
    """The memory bank of a view, ready to be asked by a batch of images."""

    cls: Tensor
    groups: Tensor

    def __init__(self, view: WholeView) -> None:
        super().__init__()
        bank, how = view.bank, view.rules.comparison
        self._sharpness, self._count = how.sharpness, how.grid**2
        self._turned, self._tentative = view.rules.rotations > 1, view.rules.tentative
        self.register_buffer("cls", bank.cls.cpu().clone())
        self.register_buffer("groups", torch.tensor(bank.entries))
        for layer, tokens in enumerate(bank.patches):
            shape = (len(bank), self._count, -1) if self._turned else tokens.shape
            self.register_buffer(f"memory_{layer}", tokens.cpu().reshape(shape).clone())

    def compared_entries(self, cls: Tensor) -> ComparedEntries | None:
        """The entries that each image is compared with; None means all."""
        if not self._turned:
            return None
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

    def distances(self, queries: Tensor, layer: int, compared: ComparedEntries | None) -> Tensor:
        """1 − cos(q, ε) of each patch in a layer, (images, N)."""
        memory = self.get_buffer(f"memory_{layer}")
        if compared is None:
            return distances(queries, memory, self._sharpness, None)
        allowed = compared.allowed[:, :, None].expand(-1, -1, self._count).flatten(1)
        return distances(queries, memory[compared.entries].flatten(1, 2), self._sharpness, allowed)

    def cls_score(self, cls: Tensor, compared: ComparedEntries | None) -> Tensor:
        """S_cls (Equation 4) of each image."""
        alike = cls_similarities(cls, self.cls)
        if compared is not None and self._tentative:
            entries = compared.entries[..., None].expand(-1, -1, alike.shape[-1])
            alike = alike.gather(1, entries)
        return (1 - alike.amax(dim=1)).clamp(min=0).mean(dim=-1)

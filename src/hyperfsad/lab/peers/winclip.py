"""WinCLIP and WinCLIP+ (Jeong et al., "WinCLIP: Zero-/Few-Shot Anomaly Classification and
Segmentation", CVPR 2023, arXiv 2303.14814).

Zero-shot. The text score of an embedding x is the share that a softmax gives to what anomalous
prompts say of it,

    t(x) = exp(⟨x, a⟩/τ) / (exp(⟨x, n⟩/τ) + exp(⟨x, a⟩/τ)),

with n and a the mean embeddings of the normal and the anomalous prompts: states of the object, each
in every template, as reimplementations list them from Figure 6. Windows of 2×2 and 3×3 patches are
embedded one at a time (`clip_windows.py`). A patch gets the harmonic
mean of the scores of all windows that cover it; the map is the harmonic mean of both scales and of
the whole image's score, which is also the score of the image.

Few-shot. At each scale the reference association is the least (1 − cos)/2 to the windows of the
normal images, harmonically averaged in the same way; of single patches, as the last block leaves
them, it is their own. M is the mean of the three. The map is the mean of M and the zero-shot map,
the score of the image half of t of the image plus max M.

Read in public reimplementations (anomalib; caoyunkang/WinClip; zqhang/Accurate-WinCLIP-pytorch).
Where they differ: τ is the one that the CLIP has learnt, prompts are averaged at length 1, windows
of references harmonically as in anomalib. Different here: any CLIP in Hugging Face's format instead
of ViT-B/16+ of LAION-400M at 240 px; square input; a category is called by its own name.
"""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array, like, namespace, positive
from ...encoders import EncoderSpec, find_spec
from ...encoders.encoder import ImageTokens
from ...errors import UsageError
from .clip_windows import (
    WindowEncoder,
    WindowSettings,
    can_read,
    require_text,
    window_patches,
)
from .features import best_similarity, unit
from .peer import Layers, MethodOptions, OwnTokens

NORMAL = (
    "{}",
    "flawless {}",
    "perfect {}",
    "unblemished {}",
    "{} without flaw",
    "{} without defect",
    "{} without damage",
)
ANOMALOUS = ("damaged {}", "{} with flaw", "{} with defect", "{} with damage")
_PHOTOS = (
    "a cropped photo of {article} {{}}.",
    "a close-up photo of {article} {{}}.",
    "a bright photo of {article} {{}}.",
    "a dark photo of {article} {{}}.",
    "a jpeg corrupted photo of {article} {{}}.",
    "a blurry photo of {article} {{}}.",
    "a photo of {article} {{}}.",
    "a photo of {article} small {{}}.",
    "a photo of {article} large {{}}.",
    "a photo of {article} {{}} for visual inspection.",
    "a photo of {article} {{}} for anomaly detection.",
)
TEMPLATES = tuple(kind.format(article=article) for kind in _PHOTOS for article in ("a", "the"))


class WinCLIP(OwnTokens):
    """Windows against text and, once it has seen normal images, against their windows.

    Before `fit` it answers too: zero-shot.
    """

    OPTIONS: ClassVar[MethodOptions] = {
        "class_name": ("a class_name that is not empty", lambda name: bool(name.strip())),
        "references": ("references = True or False", lambda use: isinstance(use, bool)),
    }
    encoding_: WindowSettings
    class_name: str = "object"
    """What prompts call the part."""
    references: bool = True
    """Without them it stays zero-shot."""

    def encoding(self, spec: EncoderSpec, layers: Layers, resolution: int | None) -> WindowSettings:
        """Windows pass all blocks."""
        require_text(spec)
        found = spec.settings_of(WindowSettings, (spec.depth,), resolution)
        if found.grid < max(found.scales):
            least = max(found.scales) * found.patch
            facts = {"encoder": spec.name, "least": least, "given": found.resolution}
            raise UsageError("winclip-resolution", **facts)
        return found

    @classmethod
    def rows(cls, backbone: str) -> dict[str, dict[str, Any]]:
        """Few-shot and zero-shot, on a CLIP that reads."""
        if not can_read(find_spec(backbone)):
            return {}
        return {"winclip": {}, "winclip, zero-shot": {"references": False}}

    def learn(self) -> None:
        """Reads the prompts, so that nothing is left to do for the first image."""
        self.text_  # noqa: B018

    def require_fitted(self) -> None:
        """It answers before it has seen a normal image, too."""

    @cached_property
    def text_(self) -> tuple[Array, float]:
        """The normal and the anomalous embedding, (2, D), and 1/τ."""
        assert isinstance(self.encoder_, WindowEncoder)
        reader, name = self.encoder_.reader, class_words(self.class_name)
        found = [reader.text(prompts(states, name)) for states in (NORMAL, ANOMALOUS)]
        xp = namespace(*found)
        means = [xp.mean(embeddings, axis=0) for embeddings in found]
        return unit(xp.stack(means)), reader.sharpness

    def patch_scores(self, image: ImageTokens) -> Array:
        """The zero-shot map, or its mean with the reference association."""
        grid, scales = self.encoding_.grid, self.encoding_.scales
        xp = namespace(image.cls)
        maps = [xp.broadcast_to(self.text_scores(image.cls[:1]), (grid * grid,))]
        for scale, plane in zip(scales, image.patches[1:], strict=True):
            maps.append(covering_mean(self.text_scores(plane), grid, scale))
        with np.errstate(divide="ignore"):
            zero_shot = len(maps) / xp.sum(1 / xp.stack(maps), axis=0)  # 0 where one of them is
        return (zero_shot + self.association(image)) / 2 if self._knows else zero_shot

    def image_score(self, anomaly_map: Array, image: ImageTokens) -> float:
        """The text score of the image, or half of it and of the largest association."""
        xp = namespace(image.cls)
        text = float(self.text_scores(image.cls[:1])[0])
        return (text + float(xp.max(self.association(image)))) / 2 if self._knows else text

    def text_scores(self, embeddings: Array) -> Array:
        """t of each row."""
        text, sharpness = self.text_
        logits = sharpness * (embeddings[:, : text.shape[1]] @ text.T)
        xp = namespace(logits)
        with np.errstate(over="ignore"):
            return 1 / (1 + xp.exp(logits[:, 0] - logits[:, 1]))

    def association(self, image: ImageTokens) -> Array:
        """M: the distance of each patch to the normal images, (N,), mean over the scales."""
        xp, grid = namespace(image.cls), self.encoding_.grid
        planes = zip((1, *self.encoding_.scales), image.patches, self.memory_.patches, strict=True)
        maps = []
        for scale, query, known in planes:
            fits = window_patches(grid, scale)[:, 0]  # the others are zeros, not references
            windows = xp.reshape(known, (-1, *query.shape))[:, fits]
            best = best_similarity(query, xp.reshape(windows, (-1, query.shape[1])))
            maps.append(covering_mean(positive((1 - best) / 2), grid, scale))
        return xp.mean(xp.stack(maps), axis=0)

    @property
    def _knows(self) -> bool:
        return self.references and self._memory.bank is not None


def covering_mean(scores: Array, grid: int, scale: int) -> Array:
    """For each patch the harmonic mean of the scores of all windows that cover it, (N,).

    `scores` (N,) stand at the upper left patch of each window. A window without any distance leaves
    none to what it covers.
    """
    xp, index = namespace(scores), like(window_patches(grid, scale), scores)
    total, count = xp.zeros_like(scores), xp.zeros_like(scores)
    with np.errstate(divide="ignore", invalid="ignore"):
        for place in index.T:  # the windows have different patches there
            total[place] += 1 / scores[index[:, 0]]
            count[place] += 1
        return xp.where(count > 0, count / total, 0.0)


def prompts(states: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Each state of the object in each template."""
    return tuple(template.format(state.format(name)) for state in states for template in TEMPLATES)


def class_words(category: str) -> str:
    """What prompts call a category: its name in words; a number alone names nothing."""
    words = " ".join(category.replace("_", " ").replace("-", " ").split())
    return words if any(letter.isalpha() for letter in words) else "object"

"""The paper's algorithm once more, from scratch: the figures in tests/detector/test_reference.py.

    python benchmarks/reference.py ENCODER DATA mvtec/bottle mvtec/tile …

ENCODER is the folder with the weights of dinov2-vits14, DATA holds categories in the MVTec layout.
Nothing of hyperfsad is used: `transformers` computes the tokens, Michelot's algorithm the sparsemax
(hyperfsad sorts), plain products the rest. Support is the first K of the sorted train/good.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor
from transformers import Dinov2Model

LAYERS, SIDE, SIZE, SHOTS = (3, 6, 9, 12), 448, 256, (1, 4)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def tokens(model: Dinov2Model, path: Path) -> list[Tensor]:
    """Unit tokens of each layer, the CLS token first."""
    picture = Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    pixels = (np.asarray(picture, dtype=np.float64) / 255 - MEAN) / STD
    with torch.inference_mode():
        inputs = torch.from_numpy(pixels.transpose(2, 0, 1)[None]).float()
        states = model(pixel_values=inputs, output_hidden_states=True).hidden_states
    found = [states[layer][0] for layer in LAYERS]
    return [state / state.norm(dim=1, keepdim=True) for state in found]


def sparsemax(z: Tensor) -> Tensor:
    """Michelot: what lies below the threshold of the active ones goes, until nothing more does."""
    active = z > z.max(dim=1, keepdim=True).values - 1
    count = active.sum(dim=1, keepdim=True)
    while True:
        threshold = ((z * active).sum(dim=1, keepdim=True) - 1) / count
        active = active & (z > threshold)
        left = active.sum(dim=1, keepdim=True)
        if torch.equal(left, count):
            return (z - threshold).clamp(min=0)
        count = left


def judged(query: list[Tensor], support: list[list[Tensor]]) -> tuple[float, NDArray[np.float32]]:
    """The image score, and the map."""
    maps, cls = [], []
    for layer, own in enumerate(query):
        memory = torch.cat([image[layer][1:] for image in support])
        rebuilt = sparsemax(own[1:] @ memory.T) @ memory
        maps.append(1 - (own[1:] * rebuilt).sum(dim=1) / rebuilt.norm(dim=1))
        cls.append(1 - max(float(own[0] @ image[layer][0]) for image in support))
    anomaly_map = torch.stack(maps).mean(dim=0).clamp(min=0)
    side = SIDE // 14
    score = 0.5 * float(anomaly_map.max()) + 0.5 * float(np.mean(cls))
    return score, anomaly_map.reshape(side, side).numpy()


def mask_of(path: Path) -> NDArray[np.bool_]:
    """The defect's mask of a test image."""
    if path.parent.name == "good":
        return np.zeros((SIZE, SIZE), dtype=bool)
    file = path.parents[2] / "ground_truth" / path.parent.name / f"{path.stem}_mask.png"
    mask = Image.open(file).convert("L").resize((SIZE, SIZE), Image.Resampling.NEAREST)
    return np.asarray(mask) > 0


def pro(maps: NDArray[np.float32], masks: NDArray[np.bool_], limit: float = 0.3) -> float:
    """Mean overlap of the defects over the false-positive rate, up to 0.3."""
    steps = np.quantile(maps[~masks], np.linspace(1 - limit, 1, 3001))[::-1]
    labels = [ndimage.label(mask, structure=np.ones((3, 3))) for mask in masks]
    regions = [
        np.sort(values[found == number])
        for values, (found, count) in zip(maps, labels, strict=True)
        for number in range(1, count + 1)
    ]
    above = [1 - np.searchsorted(values, steps, side="left") / len(values) for values in regions]
    return float(np.trapezoid(np.mean(above, axis=0), dx=1 / (len(steps) - 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("encoder")
    parser.add_argument("data", type=Path)
    parser.add_argument("categories", nargs="+")
    asked = parser.parse_args()
    model = Dinov2Model.from_pretrained(asked.encoder).eval()
    for category in asked.categories:
        folder = asked.data / category
        tests = sorted((folder / "test").glob("*/*.*"))
        normal = sorted((folder / "train" / "good").glob("*.*"))[: max(SHOTS)]
        support = [tokens(model, path) for path in normal]
        truth = [path.parent.name != "good" for path in tests]
        queries = [tokens(model, path) for path in tests]
        for shots in SHOTS:
            found = [judged(query, support[:shots]) for query in queries]
            figures = [roc_auc_score(truth, [score for score, _ in found])]
            if (folder / "ground_truth").is_dir():
                masks = np.stack([mask_of(path) for path in tests])
                large = [
                    Image.fromarray(each).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
                    for _, each in found
                ]
                maps = np.stack([np.asarray(each) for each in large])
                figures.append(roc_auc_score(masks.ravel(), maps.ravel()))
                figures.append(pro(maps, masks))
                figures.append(average_precision_score(masks.ravel(), maps.ravel()))
            print(category, shots, [round(100 * float(each), 1) for each in figures], flush=True)


if __name__ == "__main__":
    main()

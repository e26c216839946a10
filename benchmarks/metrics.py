"""CPU seconds and memory of the pixel metrics on 150 maps of 448 × 448, beside scikit-learn's.

    python benchmarks/metrics.py [--images 150] [--size 448] [--defects 1.0]

Each side runs in a process of its own, on the same drawn maps. Memory is the growth of the peak
resident size over the inputs; the maps are drawn one by one, so that drawing does not hide it.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Measured = tuple[float, float, dict[str, Any]]


def draw(images: int, size: int, defects: float) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Smooth noise as from a patch grid; two images in three have one to three warm ellipses."""
    generator = np.random.default_rng(0)
    maps = np.zeros((images, size, size), dtype=np.float32)
    masks = np.zeros((images, size, size), dtype=bool)
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    for index in range(images):
        grid = generator.gamma(4.0, 0.05, size=(32, 32)).astype(np.float32)
        for _ in range(generator.integers(1, 4) if index % 3 else 0):
            row, column = generator.uniform(0.1, 0.9, 2) * size
            height, width = generator.uniform(0.02, 0.12, 2) * size * defects
            inside = ((rows - row) / height) ** 2 + ((columns - column) / width) ** 2 <= 1
            masks[index] |= inside
            grid += 0.25 * ndimage.zoom(inside.astype(np.float32), 32 / size, order=1)
        maps[index] = ndimage.zoom(grid, size / 32, order=1)
    return maps, masks


def ours(maps: NDArray[np.float32], masks: NDArray[np.bool_]) -> dict[str, Any]:
    from hyperfsad.quality.metrics import pixel_metrics

    return pixel_metrics(maps, masks)


def scikit_learn(maps: NDArray[np.float32], masks: NDArray[np.bool_]) -> dict[str, Any]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    labels, scores = masks.ravel(), maps.ravel()
    return {
        "P-AUROC": roc_auc_score(labels, scores),
        "P-AP": average_precision_score(labels, scores),
    }


def peak() -> float:
    """The greatest resident size so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measure(
    side: Callable[..., dict[str, Any]], images: int, size: int, defects: float
) -> Measured:
    side(*draw(3, 64, 1.0))  # imports and first calls are not what is measured
    maps, masks = draw(images, size, defects)
    before, start = peak(), time.process_time()
    values = side(maps, masks)
    seconds = time.process_time() - start
    return seconds, peak() - before, {"defect pixels": masks.mean(), **values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=150)
    parser.add_argument("--size", type=int, default=448)
    parser.add_argument("--defects", type=float, default=1.0, help="a factor on the defects' sizes")
    asked = parser.parse_args()
    one_copy = asked.images * asked.size**2 * 4 / 1e6
    print(f"{asked.images} maps of {asked.size} × {asked.size}, {one_copy:.0f} MB in float32")
    results = []
    for side in (ours, scikit_learn):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            result = pool.apply(measure, (side, asked.images, asked.size, asked.defects))
        values = ", ".join(f"{name} {value:.6f}" for name, value in result[2].items())
        print(f"{side.__name__:>12}: {result[0]:6.2f} s, {result[1]:6.0f} MB more; {values}")
        results.append(result)
    (seconds, memory, _), (their_seconds, their_memory, _) = results
    print(
        f"       ratio: {seconds / their_seconds:.2f} of their time for four metrics to their two, "
        f"{memory / their_memory:.2f} of their memory"
    )


if __name__ == "__main__":
    main()

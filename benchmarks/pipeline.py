"""Seconds per image of detecting as a plain loop, and with reading ahead and writing behind.

    python benchmarks/pipeline.py [--images 12] [--rounds 3]

Folders of small PNGs and of JPEGs of 12 million pixels, both of drawn parts, with and without heat
maps. In every round both ways take the same folder, in turns the one or the other first, so that
whatever else the machine does burdens both. It prints the median and the best round of each.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hyperfsad import HyperFSAD
from hyperfsad.demo.drawing import draw
from hyperfsad.images.reading import BackgroundWriter
from hyperfsad.report.folder import OutputFolder

SIZES = {"png": 512, "jpg": 3464}
Way = Callable[[HyperFSAD, list[str], OutputFolder, bool], None]


def plain(detector: HyperFSAD, paths: list[str], output: OutputFolder, heatmaps: bool) -> None:
    """Each image is read, encoded, matched, and read again for its heat map, in this order."""
    for path in paths:
        output.add(detector.predict(path))


def overlapping(
    detector: HyperFSAD, paths: list[str], output: OutputFolder, heatmaps: bool
) -> None:
    """As `hyperfsad detect` does."""
    with BackgroundWriter(output.add) as writer:
        for result in detector.predict(paths, keep_pictures=heatmaps):
            writer.put(result)


def folder_of(kind: str, images: int, place: Path) -> list[str]:
    """So many plates; twelve million pixels take long to draw, so the same four come again."""
    pictures = [draw("plate", seed=10 + n, size=SIZES[kind]).image for n in range(min(images, 4))]
    paths = [str(place / f"{number:03d}.{kind}") for number in range(images)]
    for number, path in enumerate(paths):
        pictures[number % 4].save(path, quality=92)
    return paths


def measure(
    way: Way, detector: HyperFSAD, paths: list[str], heatmaps: bool
) -> tuple[float, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        with OutputFolder(Path(out), run="timing", heatmaps=heatmaps).open() as output:
            way(detector, paths, output, heatmaps)
            seconds = time.perf_counter() - start
            lines = output.finish(paths)
    return seconds / len(paths), lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shots", type=int, default=4, help="normal images in the memory")
    asked = parser.parse_args()
    detector = HyperFSAD().fit([draw("plate", seed=seed).image for seed in range(asked.shots)])
    assert detector.scale_  # made once, before the first picture is drawn
    print(f"{asked.images} images, {asked.shots} normal images, on {detector.encoder_.device}")
    with tempfile.TemporaryDirectory() as folder:
        for kind, size in SIZES.items():
            paths = folder_of(kind, asked.images, Path(folder))
            for heatmaps in (False, True):
                seconds: dict[str, list[float]] = {"plain": [], "overlapping": []}
                for turn in range(asked.rounds):
                    ways = [plain, overlapping][:: 1 if turn % 2 else -1]
                    found = []
                    for way in ways:
                        spent, lines = measure(way, detector, paths, heatmaps)
                        seconds[way.__name__].append(spent)
                        found.append(lines)
                    assert found[0] == found[1], "the two ways differ"
                drawn = "with heat maps" if heatmaps else "scores alone"
                print(f"{kind} {size} × {size}, {drawn}, seconds an image")
                for told, of in (("median", statistics.median), ("best", min)):
                    before, after = (of(spent) for spent in seconds.values())
                    print(
                        f"    {told:6} plain {before:.3f}, overlapping {after:.3f},"
                        f" ratio {after / before:.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

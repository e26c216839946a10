"""Time, memory and disk of one large image, cut into tiles: learning it, and judging another.

    python benchmarks/tiles.py [--size 12000x9000] [--tiles PX] [--engine openvino]

Draws two sheets of cloth, the second with a small hole, and runs `hyperfsad fit --tiles` on the
first and `hyperfsad detect` with heat maps on the second, each in a process of its own. It prints
the seconds, the largest resident memory of each process, the size of the detector file and the
score. `--normal` and `--image` take pictures instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from hyperfsad.demo.drawing import draw
from hyperfsad.detector.settings import find_recipe
from hyperfsad.views.tiling import Tiling

Image.MAX_IMAGE_PIXELS = None  # these pictures are large on purpose

PIECE = 1500
HOLE = 14
"""Radius in pixels of the hole: a millionth of 12,000×9,000 pixels is 108 of them, this is 616."""


def cloth(size: tuple[int, int], seed: int, hole: tuple[int, int] | None) -> Image.Image:
    """A sheet of drawn fabric: pieces side by side, each mirrored so that they meet."""
    width, height = size
    piece = draw("fabric", seed=seed, size=PIECE).image
    flips = (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.FLIP_TOP_BOTTOM)
    sheet = Image.new("RGB", size)
    for row, top in enumerate(range(0, height, PIECE)):
        for column, left in enumerate(range(0, width, PIECE)):
            turned = piece
            for flip, odd in zip(flips, (column % 2, row % 2), strict=True):
                turned = turned.transpose(flip) if odd else turned
            light = 1 + 0.05 * np.sin(1.7 * row + 0.9 * column + seed)
            sheet.paste(turned.point(lambda value, light=light: value * light), (left, top))
    if hole is not None:
        x, y = hole
        box = (x - HOLE, y - HOLE, x + HOLE, y + HOLE)
        ImageDraw.Draw(sheet).ellipse(box, fill=(25, 22, 20))
    return sheet


def run(*arguments: str) -> tuple[float, float]:
    """Seconds, and gigabytes of memory at most, of one command."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "hyperfsad", *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"hyperfsad {arguments[0]} ended with {process.returncode}.")
    unit = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - start, usage.ru_maxrss * unit / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="12000x9000", metavar="WxH")
    parser.add_argument("--tiles", type=int, metavar="PX", help="default: the encoder's resolution")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--kind", default="jpg", choices=("jpg", "png"))
    parser.add_argument("--normal", metavar="FILE", help="instead of a drawn sheet")
    parser.add_argument("--image", metavar="FILE", help="instead of a drawn sheet")
    asked = parser.parse_args()
    settings = find_recipe("default").settings()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR") or ".") as folder:
        place = Path(folder)
        width, height = map(int, asked.size.split("x"))
        hole = (round(0.61 * width), round(0.37 * height))
        normal, image = (place / f"{name}.{asked.kind}" for name in ("normal", "image"))
        if asked.normal is None:
            cloth((width, height), 1, None).save(normal, quality=92)
        if asked.image is None:
            cloth((width, height), 2, hole).save(image, quality=92)
        normal, image = Path(asked.normal or normal), Path(asked.image or image)
        with Image.open(image) as picture:
            size = picture.size
        tiling = Tiling.of(size, asked.tiles or settings.resolution, settings.grid)
        tiles = f"--tiles={asked.tiles}" if asked.tiles else "--tiles"
        detector, out = place / "sheet.hfsad", place / "out"
        print(
            f"{size[0]}×{size[1]} pixels, {len(tiling)} tiles,"
            f" map of {tiling.columns}×{tiling.rows}"
        )
        for summary, command in (
            ("fit", ["fit", str(normal), "-o", str(detector), tiles]),
            ("detect", ["detect", str(image), "--detector", str(detector), "-o", str(out)]),
        ):
            seconds, memory = run(*command, "--engine", asked.engine)
            print(
                f"{summary}: {seconds:.0f} s, {seconds / len(tiling):.3f} s a tile,"
                f" at most {memory:.2f} GB of memory",
                flush=True,
            )
        print(f"detector file: {detector.stat().st_size / 1e9:.2f} GB")
        line = json.loads((out / "results.jsonl").read_text().splitlines()[0])
        with Image.open(out / line["heatmap"]) as drawn:
            print(f"score {line['score']:.3f}; heat map of {drawn.width}×{drawn.height} pixels")


if __name__ == "__main__":
    main()

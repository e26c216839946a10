"""A line whose light fades half way: verdicts over time, with and without adapting.

    python benchmarks/line_drift.py DATA/mvtec/transistor -o drift/

2,000 parts come by, 2 % of them bad, drawn from `line/good` and from the bad test images. From part
1,000 to part 1,500 the light falls to 70 %, in three steps, and stays there. Three detectors are
fitted on the first four good parts: one never adapts, one adapts once to the first 24 parts, and
one adapts to the newest 48 parts after 24 and after every 250 parts. Prints false alarms and misses
per 100 parts, for each 250 parts.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measuring import Remembering
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.encoders.encoder import load_encoder

PARTS, BAD_SHARE, BLOCK, FIRST, NEWEST = 2000, 0.02, 250, 24, 48
LIGHTS = (1.0, 0.9, 0.8, 0.7)


def light_at(part: int) -> float:
    """How bright the lamp is, in three steps from part 1,000 to part 1,500."""
    step = np.clip(np.ceil((part - PARTS / 2 + 1) / (PARTS / 12)), 0, len(LIGHTS) - 1)
    return LIGHTS[int(step)]


def stream(root: Path, out: Path) -> list[tuple[str, bool]]:
    """The path of each part's picture in its light, and whether it is bad."""
    good, bad = sorted((root / "line/good").iterdir()), []
    for folder in sorted((root / "test").iterdir()):
        bad += sorted(folder.iterdir()) if folder.name != "good" else []
    random, found = np.random.default_rng(0), []
    for part in range(PARTS):
        is_bad = bool(random.random() < BAD_SHARE)
        source, light = random.choice(np.array(bad if is_bad else good)), light_at(part)
        path = out / f"{light:g}-{source.parent.name}-{source.stem}.png"
        if not path.exists():
            with Image.open(source) as picture:
                pixels = np.asarray(picture.convert("RGB"), np.float32) * light
            Image.fromarray(pixels.round().astype(np.uint8)).save(path)
        found.append((str(path), is_bad))
    return found


def verdicts(
    detector: HyperFSAD, parts: list[tuple[str, bool]], adapting: Callable[[int], bool]
) -> list[bool]:
    """Whether each part is called bad; before those parts that say so, it adapts to the newest."""
    now, known, found = detector, dict[str, bool](), list[bool]()
    for number, (path, _) in enumerate(parts):
        if adapting(number):
            newest = list(
                dict.fromkeys(each for each, _ in parts[max(0, number - NEWEST) : number])
            )
            now, known = detector.__copy__().adapt(newest), {}
        if path not in known:
            known[path] = bool(now.predict(path).anomalous)
        found.append(known[path])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root", type=Path, help="a product in MVTec AD's layout, with line/good")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for pictures")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    parts = stream(options.root, options.output)
    detector = HyperFSAD()
    detector.use_encoder(Remembering(load_encoder(detector.encoding_)))
    detector.fit([str(path) for path in sorted((options.root / "train/good").iterdir())[:4]])
    rules: dict[str, Callable[[int], bool]] = {
        "never": lambda number: False,
        "once": lambda number: number == FIRST,
        "every 250": lambda number: number == FIRST or (number > 0 and number % BLOCK == 0),
    }
    bad = np.array([is_bad for _, is_bad in parts])
    for name, rule in rules.items():
        called = np.array(verdicts(detector, parts, rule))
        cells = []
        for first in range(0, PARTS, BLOCK):
            block = slice(first, first + BLOCK)
            alarms = 100 * (called & ~bad)[block].mean()
            cells.append(f"{alarms:.1f}/{100 * (bad & ~called)[block].mean():.1f}")
        print(f"{name:10} {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()

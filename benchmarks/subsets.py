"""Remakes the subsets on which this project measures, from the full data sets.

    python benchmarks/subsets.py --set mvtec=DIR --set mpdd=DIR -o subsets/
    python benchmarks/subsets.py --set cookie=DIR --set xray=DIR -o subsets/

`subsets.json` beside this file lists the names of the images of each subset, and nothing else.
The script finds each in the full set, shrinks it so that its longer side is 512 or 768 pixels, and
writes it in MVTec AD's layout. MVTec AD and MPDD are found by their own layout. The cookies (AWS
Lookout for Vision samples) and the chest X-rays (Kermany et al., 2018) are found by file name
alone, anywhere below their folder; how their publishers lay them out was not at hand.

The filter by which the subsets of this project were shrunk is not on record; here it is Lanczos,
and nearest for masks. Figures may differ by that. The data sets have their own licences: keep the
subsets to yourself.
"""

import argparse
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from hyperfsad.disk.files import write_file

LIST = Path(__file__).with_name("subsets.json")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")


def original(root: Path, product: str, name: str, *, by_name: bool) -> Path:
    """The image of a full set that a line of the list stands for; its kind may be another."""
    wanted = Path(name)
    stem = wanted.stem
    if by_name:
        masked = stem.endswith("_mask")
        stem = stem.removesuffix("_mask")
        split = wanted.parts[0] if wanted.parts[0] in ("train", "test") else ""
        found = [path for path in root.rglob(f"{stem}.*") if path.suffix.lower() in SUFFIXES]
        found = [path for path in found if ("mask" in path.parent.name.lower()) == masked]
        if len(found) > 1:  # of copies in several splits, the one of its own
            found = [path for path in found if split in path.relative_to(root).parts] or found
    else:
        folder = root / product / wanted.parent
        found = [folder / f"{stem}{end}" for end in SUFFIXES]
        found = [path for path in found if path.is_file()]
    if len(found) != 1:
        problem = "is missing" if not found else f"exists {len(found)} times"
        sys.exit(f"{product}/{name} {problem} below {root}; is it the full data set?")
    return found[0]


def shrunk(path: Path, longest: int, *, mask: bool) -> Image.Image:
    """The picture with its longer side at most that long."""
    with Image.open(path) as opened:
        picture: Image.Image = opened.convert("L" if mask or opened.mode == "L" else "RGB")
    scale = longest / max(picture.size)
    if scale >= 1:
        return picture
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    small: Image.Image = picture.resize(
        size, Image.Resampling.NEAREST if mask else Image.Resampling.LANCZOS
    )
    return small


def remake(subset: dict[str, Any], root: Path, out: Path) -> Iterator[Path]:
    """Writes one subset, file by file."""
    for folder, names in subset["files"].items():
        for name in names:
            mask = folder.startswith("ground_truth")
            line = f"{folder}/{name}"
            source = original(root, subset["product"], line, by_name=subset["by_name"])
            picture = shrunk(source, subset["longest"], mask=mask)
            content, target = io.BytesIO(), out / subset["folder"] / subset["product"] / line
            kind = "PNG" if target.suffix == ".png" else "JPEG"
            picture.save(content, format=kind, **({} if kind == "PNG" else {"quality": 95}))
            write_file(target, content.getbuffer(), parents=True)
            yield target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--set", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    named = (each.partition("=") for each in options.set)
    roots = {name: Path(folder) for name, _, folder in named}
    subsets = json.loads(LIST.read_text(encoding="utf-8"))
    known = {subset["set"] for subset in subsets}
    if unknown := sorted({*roots} - known):
        sys.exit(f"The sets are {', '.join(sorted(known))}, not {unknown[0]}.")
    for subset in subsets:
        if subset["set"] in roots:
            count = sum(1 for _ in remake(subset, roots[subset["set"]], options.output))
            print(f"{subset['folder']}/{subset['product']}: {count} files")


if __name__ == "__main__":
    main()

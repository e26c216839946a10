"""Remakes the cuts on which this project measures, from the full data sets.

    python benchmarks/cuts.py --set mvtec=DIR --set mpdd=DIR -o cuts/
    python benchmarks/cuts.py --set cookie=DIR --set xray=DIR -o cuts/

`cuts.json` beside this file lists the names of the images of each cut, and nothing else of them.
The script finds each in the full set, shrinks it so that its longer side is 512 or 768 pixels, and
writes it in MVTec AD's layout. MVTec AD and MPDD are found by their own layout. The cookies (AWS
Lookout for Vision samples) and the chest X-rays (Kermany et al., 2018) are found by file name
alone, anywhere below their folder; how their publishers lay them out was not at hand.

The filter by which the cuts of this project were shrunk is not on record; here it is Lanczos, and
nearest for masks. Figures may differ by that. The data sets have licences of their own: keep the
cuts to yourself.
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
from hyperfsad.errors import UsageError

LIST = Path(__file__).with_name("cuts.json")
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
        problem = "is not there" if not found else f"is there {len(found)} times"
        raise UsageError(f"{product}/{name} {problem} below {root}; is it the full data set?")
    return found[0]


def shrunk(path: Path, longest: int, *, mask: bool) -> Image.Image:
    """The picture with its longer side at most so long."""
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


def remake(cut: dict[str, Any], root: Path, out: Path) -> Iterator[Path]:
    """Writes one cut, file by file."""
    for folder, names in cut["files"].items():
        for name in names:
            mask = folder.startswith("ground_truth")
            line = f"{folder}/{name}"
            source = original(root, cut["product"], line, by_name=cut["by_name"])
            picture = shrunk(source, cut["longest"], mask=mask)
            content, target = io.BytesIO(), out / cut["folder"] / cut["product"] / line
            kind = "PNG" if target.suffix == ".png" else "JPEG"
            picture.save(content, format=kind, **({} if kind == "PNG" else {"quality": 95}))
            write_file(target, content.getbuffer(), parents=True)
            yield target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--set", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    named = (each.partition("=") for each in options.set)
    roots = {name: Path(folder) for name, _, folder in named}
    cuts = json.loads(LIST.read_text(encoding="utf-8"))
    known = {cut["set"] for cut in cuts}
    try:
        if unknown := sorted({*roots} - known):
            raise UsageError(f"The sets are {', '.join(sorted(known))}, not {unknown[0]}.")
        for cut in cuts:
            if cut["set"] in roots:
                count = sum(1 for _ in remake(cut, roots[cut["set"]], options.output))
                print(f"{cut['folder']}/{cut['product']}: {count} files")
    except UsageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The script that remakes the subsets from full data sets, on data sets of coloured squares."""

import io
import json
import subprocess
import sys
from pathlib import Path

from PIL import Image

from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "benchmarks" / "subsets.py"
SUBSETS = json.loads(SCRIPT.with_name("subsets.json").read_text(encoding="utf-8"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def full_set(root: Path, product: str) -> int:
    """All files of a subset as MVTec has them, larger and as PNG, and some that no subset has."""
    subset = next(each for each in SUBSETS if each["product"] == product)
    for folder, names in subset["files"].items():
        (root / product / folder).mkdir(parents=True)
        grey, content = folder.startswith("ground_truth"), io.BytesIO()
        picture = Image.new("L" if grey else "RGB", (900, 600), 255 if grey else (9, 99, 199))
        picture.save(content, format="PNG")
        for name in [*names, "999.png"]:
            file = root / product / folder / f"{Path(name).stem}.png"
            file.write_bytes(content.getvalue())
    return sum(map(len, subset["files"].values()))


def test_the_list_names_the_nine_subsets_and_no_images() -> None:
    assert [(subset["product"], subset["longest"]) for subset in SUBSETS] == [
        ("bottle", 512),
        ("pill", 768),
        ("screw", 768),
        ("tile", 512),
        ("transistor", 768),
        ("bracket_black", 512),
        ("bracket_brown", 768),
        ("cookie", 512),
        ("chest_xray", 512),
    ]
    assert sum(len(names) for subset in SUBSETS for names in subset["files"].values()) == 810


def test_a_subset_is_remade(tmp_path: Path) -> None:
    count = [full_set(tmp_path / "full", name) for name in ("bracket_black", "bracket_brown")][1]
    done = run("--set", f"mpdd={tmp_path / 'full'}", "-o", str(tmp_path / "subsets"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"mpdd/bracket_brown: {count} files" in done.stdout
    for product, longest in (("bracket_black", 512), ("bracket_brown", 768)):
        subset = next(each for each in SUBSETS if each["product"] == product)
        made = tmp_path / "subsets" / "mpdd" / product
        expected = {
            f"{folder}/{name}" for folder, names in subset["files"].items() for name in names
        }
        assert {str(path.relative_to(made)) for path in made.rglob("*.*")} == expected
        with Image.open(made / "train" / "good" / subset["files"]["train/good"][0]) as picture:
            assert (picture.size, picture.mode) == ((longest, round(longest * 2 / 3)), "RGB")


def test_images_of_other_layouts_are_found_by_name(tmp_path: Path) -> None:
    subset = next(each for each in SUBSETS if each["product"] == "cookie")
    for folder, names in subset["files"].items():
        for name in names:
            place = "masks" if folder.startswith("ground_truth") else f"some/{folder}"
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
            stem = Path(name).stem.removesuffix("_mask")
            Image.new("RGB", (64, 48)).save(tmp_path / place / f"{stem}.png")
    done = run("--set", f"cookie={tmp_path}", "-o", str(tmp_path / "subsets"))
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = run("--set", f"mvtec={tmp_path}", "-o", str(tmp_path / "subsets"))
    assert done.returncode == 1
    assert done.stderr.startswith("bottle/ground_truth/broken_large/000_mask.png is missing")
    done = run("--set", f"visa={tmp_path}", "-o", str(tmp_path / "subsets"))
    assert "The sets are cookie, mpdd, mvtec, xray, not visa." in done.stderr

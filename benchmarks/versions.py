"""The oldest and the newest numpy and OpenVINO that pyproject.toml allows: does hyperfsad run with
them, and do they give the same scores?

    python benchmarks/versions.py [--images FOLDER --good IMAGE...] [--tests] [--keep FOLDER]

Each pair gets an environment of its own. There a detector is fitted and saved, and some images are
inspected, with the default encoder; without `--images` they are parts that the demo draws. With
`--tests`, the tests of `method` and `decisions` run as well. Packages come from the index that pip
is configured with. Scores that differ by more than 1e-5 end it with the exit code 1.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

REPOSITORY = Path(__file__).absolute().parent.parent
TRIED = ("numpy", "openvino")
TOLERANCE = 1e-5
FOR_TESTS = ("array-api-strict", "hypothesis", "pytest", "scipy", "torch", "transformers")
ROOMS = ("tests/method", "tests/decisions")


def oldest() -> list[str]:
    """The lower bounds, as requirements that pip can meet in no other way: the first release."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    bounds = {name: re.search(rf'"{name}>=([\d.]+)"', text) for name in TRIED}
    found = {name: bound[1] for name, bound in bounds.items() if bound is not None}
    assert list(found) == list(TRIED), "a lower bound is missing in pyproject.toml"
    return [f"{name}=={number}.0" for name, number in found.items()]


class Environment:
    """An environment with hyperfsad and what it needs."""

    def __init__(self, folder: Path, pinned: list[str], tests: bool) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        more = FOR_TESTS if tests else ()
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        self.run(*install, str(REPOSITORY), *pinned, *more)

    def run(self, *words: str) -> str:
        """What a command prints; one that fails ends all."""
        inherited = ("PYTHONPATH", "HYPERFSAD_ENGINE")
        variables = {key: text for key, text in os.environ.items() if key not in inherited}
        done = subprocess.run(
            [str(self.python), *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env=variables,
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{' '.join(words)}: exit code {done.returncode}")
        return done.stdout

    def versions(self) -> str:
        """What is really installed."""
        code = (
            "from importlib.metadata import version as v; import sys; print(*map(v, sys.argv[1:]))"
        )
        numbers = self.run("-c", code, *TRIED).split()
        return ", ".join(map(" ".join, zip(TRIED, numbers, strict=True)))

    def scores(self, good: list[str], images: str | None) -> dict[str, float]:
        """The score of each image, by a detector that is saved and read again."""
        if images is None:
            self.run("-m", "hyperfsad", "demo", "-o", "demo")
            return _scores([*sorted(self.folder.glob("demo/*/results.jsonl"))])
        self.run("-m", "hyperfsad", "fit", *good, "-o", "part.hfsad")
        detect = ("detect", images, "--detector", "part.hfsad", "-o", "out", "--no-heatmaps")
        self.run("-m", "hyperfsad", *detect)
        return _scores([self.folder / "out" / "results.jsonl"])

    def test(self) -> str:
        """The last line of the tests of the rooms that compute."""
        rooms = [str(REPOSITORY / room) for room in ROOMS]
        words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(REPOSITORY))
        return self.run(*words, *rooms).strip().splitlines()[-1]


def _scores(files: list[Path]) -> dict[str, float]:
    rows = [
        json.loads(row) for file in files for row in file.read_text(encoding="utf-8").splitlines()
    ]
    return {row["image"]: row["score"] for row in rows}


def main() -> int:
    """Makes both environments and compares what they say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--images", type=os.path.abspath, help="folder of images to inspect")
    parser.add_argument("--good", nargs="+", default=[], type=os.path.abspath, help="good parts")
    parser.add_argument("--tests", action="store_true", help="run the tests that compute, too")
    parser.add_argument("--keep", type=Path, help="make the environments here, and keep them")
    options = parser.parse_args()
    if (options.images is None) != (not options.good):
        parser.error("--images and --good go together")
    with tempfile.TemporaryDirectory() as folder:
        home = (options.keep or Path(folder)).absolute()
        found = {}
        for name, pinned in {"oldest": oldest(), "newest": []}.items():
            environment = Environment(home / name, pinned, options.tests)
            found[name] = environment.scores(options.good, options.images)
            print(f"{name}: {environment.versions()}: {len(found[name])} scores")
            if options.tests:
                print(f"{name}: {environment.test()}")
    old, new = found["oldest"], found["newest"]
    assert old.keys() == new.keys()
    most = max(abs(old[image] - new[image]) for image in old)
    print(f"largest difference of a score: {most:.2g}")
    return int(not most <= TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())

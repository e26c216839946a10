"""Whether two commits give the same answers on real parts.

    python benchmarks/same_answers.py record OLD --data DIR --python /path/to/old/python
    python benchmarks/same_answers.py record NEW --data DIR
    python benchmarks/same_answers.py compare OLD NEW

`record` drives the public door of whatever `hyperfsad` the given interpreter has installed: the
command line in a process each, the station over HTTP. It fits, extends, calibrates, inspects,
explains and exports detectors, runs one small benchmark and one station, and keeps records, maps,
evidence, tables and answers. DIR holds products in the layout of MVTec AD (../shared/data); a few
images of four of them are enough, so that it ends within minutes on two cores.

`compare` wants numbers within 1e-6, the same verdicts in the same order, and the same number of
regions with areas within 2 %. It prints each difference and ends with 1 if there is one.
"""

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CLOSE = 1e-6
AREA = 0.02
PATIENCE = 120.0
"""Seconds until a station must answer."""

VOLATILE = frozenset(
    ("id", "product_id", "time", "created", "changed", "seconds", "sha256", "version")
)
"""Fields that differ between any two runs."""

WORDED = frozenset(("error", "threshold_from", "words", "note", "notes", "text"))
"""Fields that hold a sentence: whether there is one counts, not how it is put."""

PARTS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "bottle": (
        "mvtec/bottle",
        8,
        ("good/*", "good/*", "broken_large/*", "broken_small/*", "contamination/*"),
    ),
    "transistor": ("mvtec/transistor", 4, ("good/*", "misplaced/*", "bent_lead/*")),
    "screw": ("mvtec/screw", 2, ("good/*", "scratch_head/*", "thread_top/*")),
    "wood": ("other/wood", 20, ("good/*", "*/*")),
}
"""Each product: its folder, how many good parts, and one test image for each pattern."""


class Recording:
    """One folder of answers of one commit; commands run inside it, so that paths are the same."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(self, *words: str, keep: str | None = None) -> str:
        """Runs a command; `keep` names the file that takes its standard output."""
        began = time.monotonic()
        done = subprocess.run(
            [self.python, "-m", "hyperfsad", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{time.monotonic() - began:6.1f} s  {' '.join(words)}", flush=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
        if keep:
            (self.folder / keep).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / keep).write_text(done.stdout, encoding="utf-8")
        return done.stdout

    def inspect(self, name: str, detector: str, product: str, *more: str) -> None:
        """Detects with a saved detector, into a folder of the given name."""
        paths = sorted((self.folder / "data" / product / "test").rglob("*.*"))
        images = [str(path.relative_to(self.folder)) for path in paths]
        source = ["--detector", detector, "--save-maps", "--no-heatmaps"]
        self.run("detect", *images, *source, "-o", name, *more)

    def good(self, product: str, number: int, first: int = 0) -> list[str]:
        paths = sorted((self.folder / "data" / product / "train" / "good").iterdir())
        return [str(path.relative_to(self.folder)) for path in paths[first : first + number]]


def gather(data: Path, folder: Path) -> None:
    """Copies the images that are used, so that both commits see the same paths."""
    for product, (source, good, tests) in PARTS.items():
        root = data / source
        chosen = sorted((root / "train" / "good").iterdir())[:good]
        seen: set[Path] = set()
        for pattern in tests:
            every = sorted(path for path in (root / "test").glob(pattern) if path not in seen)
            wanted = [path for path in every if pattern != "*/*" or path.parent.name != "good"]
            seen.add(wanted[0])
        for path in [*chosen, *sorted(seen)]:
            target = folder / "data" / product / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            mask = root / "ground_truth" / path.parent.name / f"{path.stem}_mask.png"
            if path in seen and mask.exists():
                place = folder / "data" / product / mask.relative_to(root)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(mask, place)


def detectors(run: Recording) -> None:
    """Fits detectors of every kind and inspects with each."""
    offline = ("--recipe", "paper-offline")
    small = (*offline, "--resolution", "224")
    kinds: dict[str, tuple[str, int, tuple[str, ...]]] = {
        "default-1": ("bottle", 1, ()),
        "default-4": ("bottle", 4, ()),
        "offline-1": ("transistor", 1, offline),
        "offline-4": ("transistor", 4, offline),
        "tiles": ("transistor", 1, ("--tiles", "448", *offline)),
        "roi-auto": ("transistor", 2, ("--roi", "auto")),
        "roi-polygon": ("bottle", 2, ("--roi", "100,100 400,100 400,400 100,400", *offline)),
        "rotations": ("screw", 1, ("--rotations", "8")),
        "compact": ("wood", 20, ("--memory", "compact", *small)),
        "lookup": ("wood", 2, ("--lookup", "softmax", "--pooling", "top-1%", *small)),
    }
    for name, (product, shots, options) in kinds.items():
        run.run("fit", *run.good(product, shots), "-o", f"{name}.hfsad", *options)
        run.inspect(f"detect/{name}", f"{name}.hfsad", product)
    run.run("fit", "--categories", "products", "-o", "products.hfsad", *offline)
    run.inspect("detect/products", "products.hfsad", "bottle")
    run.inspect("detect/foreign", "products.hfsad", "screw")


def changes(run: Recording) -> None:
    """Extends and calibrates detectors, and asks for evidence."""
    good = run.good("bottle", 4, first=4)
    run.run("extend", "offline-1.hfsad", *run.good("transistor", 1, 1), "-o", "extended.hfsad")
    run.inspect("detect/extended", "extended.hfsad", "transistor")
    run.run("calibrate", "default-4.hfsad", *good, "-o", "calibrated.hfsad")
    run.inspect("detect/calibrated", "calibrated.hfsad", "bottle")
    run.run("calibrate", "default-4.hfsad", "--threshold", "0.2", "-o", "moved.hfsad")
    run.inspect("detect/moved", "moved.hfsad", "bottle")
    bad = sorted((run.folder / "data/transistor/test/misplaced").iterdir())[0]
    image = str(bad.relative_to(run.folder))
    for name, detector in (("peak", "offline-4"), ("turned", "roi-auto"), ("tiles", "tiles")):
        words = ["explain", image, "--detector", f"{detector}.hfsad", "--json"]
        run.run(*words, keep=f"explain/{name}.json")
    words = ["explain", image, "--detector", "offline-4.hfsad", "--json", "--at", "200,120"]
    run.run(*words, keep="explain/at.json")


def exports(run: Recording) -> None:
    for runtime in ("openvino", "onnx"):
        run.run("export", "offline-4.hfsad", "--to", runtime, "-o", f"exported-{runtime}")
        run.inspect(f"detect/{runtime}", f"exported-{runtime}", "transistor")


def figures(run: Recording) -> None:
    """What measures: an evaluation, and a benchmark with two presets."""
    place = ["--detector", "default-4.hfsad", "-o", "evaluation"]
    run.run("evaluate", "data/bottle", *place)
    for preset in ("main", "lookup"):
        words = ["lab", "benchmark", "--dataset", "mvtec", "--root", "data", "--preset", preset]
        words += ["--categories", "bottle,transistor", "--shots", "1,2", "--runs", "2"]
        run.run(*words, "--resolution", "224", "-o", f"benchmark/{preset}")


def station(run: Recording) -> None:
    """Makes a product, inspects, asks why, and extends it, over HTTP."""
    log = run.folder / "station.log"
    words = [run.python, "-m", "hyperfsad", "serve", "--store", "store", "--port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(
            words, cwd=run.folder, env=run.environment, stdout=output, stderr=output
        )
    try:
        root = _listening(process, log)
        url = f"{root}/api/v1"
        bad = sorted((run.folder / "data/bottle/test").rglob("*.png"))
        good = [run.folder / name for name in run.good("bottle", 4)]
        product = _post(f"{url}/products", {"name": "bottle"}, good[:3])
        place = f"{url}/products/{product['id']}"
        judged = _post(f"{place}/inspections", {}, bad)["inspections"]
        why = [_get(f"{url}/inspections/{one['id']}/evidence") for one in judged[:2]]
        extended = _post(f"{place}/images", {"confirm": "true"}, good[3:])
        again = _post(f"{place}/inspections", {}, bad)["inspections"]
        answers = {"product": product, "judged": judged, "why": why}
        answers |= {"extended": extended, "again": again}
        (run.folder / "station.json").write_text(json.dumps(answers, indent=1), encoding="utf-8")
        pages = {"openapi.json": f"{url}/openapi.json", "metrics.txt": f"{root}/metrics"}
        for name, address in pages.items():
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                (run.folder / name).write_bytes(answer.read())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    print("        station", flush=True)


def _listening(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """The station's address, once it is ready."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"(https?://[\w.:\[\]]+)", log.read_text())
        if found:
            try:
                if _get(f"{found[1]}/api/v1/ready").get("ready"):
                    return found[1]
            except OSError:
                pass
        time.sleep(0.1)
    raise SystemExit(f"The station does not answer: {log.read_text()}")


def _get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return dict(json.load(answer))


def _post(url: str, fields: Mapping[str, str], images: Sequence[Path]) -> dict[str, Any]:
    mark = uuid.uuid4().hex
    start = f'--{mark}\r\nContent-Disposition: form-data; name="'
    body = b"".join(f'{start}{key}"\r\n\r\n{value}\r\n'.encode() for key, value in fields.items())
    for path in images:
        head = f'{start}images"; filename="{path.name}"\r\n\r\n'.encode()
        body += head + path.read_bytes() + b"\r\n"
    kind = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    request = urllib.request.Request(url, body + f"--{mark}--\r\n".encode(), kind, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return dict(json.load(answer))


STAGES: dict[str, Callable[[Recording], None]] = {
    "detectors": detectors,
    "changes": changes,
    "exports": exports,
    "figures": figures,
    "station": station,
}


def record(options: argparse.Namespace) -> int:
    folder = Path(options.folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    run = Recording(folder, options.python)
    began = time.monotonic()
    if not (folder / "data").exists():
        gather(Path(options.data), folder)
        for product in ("bottle", "transistor"):
            for name in run.good(product, 2):
                target = folder / "products" / product / Path(name).name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, target)
    for name, stage in STAGES.items():
        if not options.only or name in options.only:
            stage(run)
    print(f"{time.monotonic() - began:.0f} s in all")
    return 0


Difference = tuple[str, str]


def compare(options: argparse.Namespace) -> int:
    old, new = Path(options.old), Path(options.new)
    found = list(differences(old, new))
    for place, text in found[: options.most]:
        print(f"{place}: {text}")
    if len(found) > options.most:
        print(f"and {len(found) - options.most} more")
    print(f"{len(answers(old))} files compared, {len(found)} differences")
    return 1 if found else 0


def answers(folder: Path) -> dict[str, Path]:
    """The files that hold answers, by their place."""
    patterns = (
        *("detect/*/results.jsonl", "detect/*/maps/*.npy", "explain/*.json", "station.json"),
        *("evaluation/*.csv", "evaluation/*.json", "benchmark/*/*.csv"),
    )
    found = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return {str(path.relative_to(folder)): path for path in found}


def differences(old: Path, new: Path) -> Iterator[Difference]:
    before, after = answers(old), answers(new)
    for place in before.keys() ^ after.keys():
        yield place, "only old" if place in before else "only new"
    for place in sorted(before.keys() & after.keys()):
        if place.endswith(".npy"):
            yield from _maps(place, np.load(before[place]), np.load(after[place]))
        else:
            yield from _values(place, _read(before[place]), _read(after[place]))


def _read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(row) for row in text.splitlines()]
    if path.suffix == ".csv":
        return [
            {k: _number(v) for k, v in row.items()} for row in csv.DictReader(text.splitlines())
        ]
    return json.loads(text)


def _number(text: str) -> "float | str":
    try:
        return float(text)
    except (ValueError, TypeError):
        return text


def _maps(
    place: str, old: "np.ndarray[Any, Any]", new: "np.ndarray[Any, Any]"
) -> Iterator[Difference]:
    if old.shape != new.shape:
        yield place, f"shape {old.shape} became {new.shape}"
    elif (off := float(np.abs(old - new).max())) > CLOSE:
        yield place, f"off by {off:.2g}"


def _values(place: str, old: Any, new: Any) -> Iterator[Difference]:
    name = re.sub(r"\[\d+\]$", "", place).rsplit("/", 1)[-1]
    if name == "regions":
        yield from _regions(place, old, new)
    elif isinstance(old, dict) and isinstance(new, dict):
        fields = [key for key in {**old, **new} if key not in VOLATILE]
        for key in fields:
            if key in old and key in new:
                yield from _values(f"{place}/{key}", old[key], new[key])
            else:
                yield f"{place}/{key}", "only old" if key in old else "only new"
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield place, f"{len(old)} entries became {len(new)}"
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from _values(f"{place}[{number}]", *pair)
    elif name in WORDED:
        if (old is None) != (new is None):
            yield place, f"{old!r} became {new!r}"
    elif isinstance(old, float) and isinstance(new, (float, int)):
        if not abs(old - new) <= CLOSE * max(1.0, abs(old)) and not (old != old and new != new):
            yield place, f"{old!r} became {new!r}"
    elif old != new:
        yield place, f"{old!r} became {new!r}"


def _regions(place: str, old: Any, new: Any) -> Iterator[Difference]:
    """As many regions in the same order; area within 2 %, boxes within a pixel or 2 %."""
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        yield place, f"{old!r} became {new!r}"[:200]
        return
    for number, (one, other) in enumerate(zip(old, new, strict=True)):
        here = f"{place}[{number}]"
        if abs(one["area"] - other["area"]) > AREA * max(one["area"], 1):
            yield here, f"area {one['area']} became {other['area']}"
        if any(
            abs(a - b) > max(2, AREA * abs(a))
            for a, b in zip(one["bbox"], other["bbox"], strict=True)
        ):
            yield here, f"box {one['bbox']} became {other['bbox']}"
        rest = ("area", "bbox", "polygon", "polygons", "holes")
        yield from _values(
            f"{here}/region",
            *({k: v for k, v in r.items() if k not in rest} for r in (one, other)),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder")
    recording.add_argument("--data", default="../shared/data")
    recording.add_argument("--python", default=sys.executable)
    recording.add_argument("--only", nargs="+", choices=STAGES)
    recording.set_defaults(run=record)
    comparing = commands.add_parser("compare")
    comparing.add_argument("old")
    comparing.add_argument("new")
    comparing.add_argument("--most", type=int, default=40, help="differences to print")
    comparing.set_defaults(run=compare)
    options = parser.parse_args()
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())

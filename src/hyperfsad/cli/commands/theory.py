"""The commands of the theory. Heavy imports wait until one runs, since the parser needs them."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ..console import DONE, SOME_FAILED, printable, progress
from . import opening

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...detector.hyperfsad import HyperFSAD


def coverage(options: argparse.Namespace) -> int:
    """Says how many good pictures cover a new good part, and which to take."""
    from ...theory.coverage import cover_normal
    from ...theory.text import coverage_text

    found = opening.found_images(options.normal)
    loaded = options.detector is not None
    detector = (opening.loaded_detector if loaded else opening.new_detector)(options)
    report = cover_normal(
        detector,
        progress(found.paths, "encoding"),
        threshold=options.threshold,
        radius=options.radius,
        chance=options.chance,
        confidence=options.confidence,
    )
    print(printable(coverage_text(report)))
    _write(options, report.to_json())
    if options.plot:
        from ...theory.plots import coverage_figure

        _save(coverage_figure(report), options.plot)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def certify(options: argparse.Namespace) -> int:
    """Prints the certificates of Theorem 1 and the ranking bound of Theorem 2."""
    from ...theory.certificates import certify as certified
    from ...theory.ranking import rank_layers
    from ...theory.text import certificate_text, ranking_text

    good, bad = opening.found_images(options.good), opening.found_images(options.bad)
    detector = _fitted(options)
    report = certified(detector, progress(good.paths, "good"), progress(bad.paths, "bad"))
    blocks = detector.settings.layers
    layers = rank_layers(report.good, report.bad, report.lam, blocks)
    print(printable(certificate_text(report, blocks)))
    print()
    print(printable(ranking_text(layers)))
    _write(options, {"theorem_1": report.to_json(), "theorem_2": layers.to_json()})
    if options.plot:
        from ...theory.plots import certificate_figure

        _save(certificate_figure(report, layers), options.plot)
    return SOME_FAILED if detector.skipped_ or good.failed or bad.failed else DONE


def stability(options: argparse.Namespace) -> int:
    """Prints what noise and more memory can change."""
    from ...theory.stability import check_stability
    from ...theory.text import stability_text

    found = opening.found_images(options.images)
    detector = _fitted(options)
    report = check_stability(detector, progress(found.paths, "checking"), options.noise)
    print(printable(stability_text(report)))
    _write(options, report.to_json())
    if options.plot:
        from ...theory.plots import stability_figure

        _save(stability_figure(report), options.plot)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def drift(options: argparse.Namespace) -> int:
    """Says whether normal has moved over a stream of inspections."""
    from ...theory.drift import (
        DriftReport,
        is_results,
        monitor_drift,
        monitor_scores,
        read_stream,
    )

    sources = [*options.calibration, *options.stream]
    settings = {"false_alarms": options.false_alarms, "defects": options.defects}
    written = [is_results(source) for source in sources]
    report: DriftReport
    failed = False
    if all(written):
        before, stream = read_stream(options.calibration), read_stream(options.stream)
        report = monitor_scores([score for _, score in before], stream, **settings)
    elif any(written):
        raise UsageError(
            "Give results of earlier runs for both the stream and the calibration, or images for"
            " both."
        )
    else:
        good, seen = opening.found_images(options.calibration), opening.found_images(options.stream)
        detector = _fitted(options)
        report = monitor_drift(
            detector,
            progress(good.paths, "calibration"),
            progress(seen.paths, "stream"),
            **settings,
        )
        failed = bool(detector.skipped_ or good.failed or seen.failed)
    print(printable(report.answer()))
    if report.add:
        print("Look at these, and if they show good parts add them with hyperfsad extend:")
        for name in report.add:
            print(f"  {printable(name)}")
    _write(options, report.to_json())
    if options.plot:
        from ...theory.plots import drift_figure

        _save(drift_figure(report), options.plot)
    return SOME_FAILED if failed else DONE


def check_extension(detector: "HyperFSAD", before: int, queries: list[str]) -> None:
    """Prints how many patches of the queries no image after the first `before` can change."""
    from ...theory.stability import check_extension as check

    found = opening.found_images(queries)
    report = check(detector, before, progress(found.paths, "checking"))
    print(report.to_text())


def _fitted(options: argparse.Namespace) -> "HyperFSAD":
    """The saved detector, or a new one on the given good parts."""
    if options.detector:
        return opening.loaded_detector(options)
    if not options.normal:
        raise UsageError("Give --detector with a saved detector, or --normal with good parts.")
    normal = opening.found_images(options.normal)
    return opening.new_detector(options).fit(progress(normal.paths, "learning"))


def _write(options: argparse.Namespace, content: dict[str, Any]) -> None:
    if options.json:
        from ...disk.atomic import atomic_path

        with atomic_path(Path(options.json)) as temporary:
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")


def _save(figure: "Figure", target: str) -> None:
    from ...bench.canvas import save_figure

    path = Path(target)
    save_figure(figure, path.parent, path.stem)

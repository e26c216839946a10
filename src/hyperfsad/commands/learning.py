"""Commands that make detectors."""

import argparse

from ..console import DONE, SOME_FAILED, progress
from ..errors import UsageError
from .opening import found_images, loaded_detector, new_detector, require_free, say_saved


def fit(options: argparse.Namespace) -> int:
    """Learns from good parts and saves a detector."""
    require_free(options.output)
    detector = new_detector(options)
    found = found_images(options.normal)
    detector.fit(progress(found.paths, "learning"))
    detector.save(options.output)
    say_saved(detector, options.output)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def extend(options: argparse.Namespace) -> int:
    """Adds good parts to a saved detector."""
    target = options.output or options.detector
    require_free(target)
    detector = loaded_detector(options)
    before = len(detector.memory_)
    found = found_images(options.normal)
    detector.extend(progress(found.paths, "learning"))
    if len(detector.memory_) == before:
        raise UsageError("There was no new normal image; the detector is as it was.")
    detector.save(target)
    say_saved(detector, target)
    if options.check:
        from ..theory.command import check_extension

        check_extension(detector, before, options.check)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE

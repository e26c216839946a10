"""What it does and doubts is logged, unless somebody takes the messages."""

import logging
import subprocess
import sys

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.messages import INFORMATION, LOGGER, Notice, log
from hyperfsad.wording import sentences
from tests.conftest import make_picture


def codes(caplog: pytest.LogCaptureFixture, level: int) -> set[str]:
    """Of the notices that were logged at a level."""
    said = [record for record in caplog.records if (record.name, record.levelno) == (LOGGER, level)]
    found = [record.args[0] for record in said if isinstance(record.args, tuple)]
    return {notice.code for notice in found if isinstance(notice, Notice)}


def test_a_detector_logs_doubts_as_warnings_and_work_as_information(
    tiny: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    detector = HyperFSAD(tiny, max_cost=2, rotations=1, device="cpu")
    detector.fit(make_picture(0, (160, 160)))
    assert "view-larger" in codes(caplog, logging.INFO)
    assert "one-good-part" in codes(caplog, logging.WARNING)
    detector.predict(make_picture(1, (160, 160)))
    verdicts = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert any("image: " in record.getMessage() for record in verdicts)
    caplog.clear()
    told: list[str] = []
    detector.notify = told.append
    detector.fit(make_picture(0, (160, 160)))
    assert told
    assert not codes(caplog, logging.WARNING) | codes(caplog, logging.INFO)


def test_a_name_with_percent_signs_is_logged_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    log("100%s of %d.png")
    assert caplog.records[-1].getMessage() == "100%s of %d.png"


def test_plain_notices_have_sentences() -> None:
    assert sentences().keys() >= INFORMATION


def test_the_package_imports_no_logging_before_it_speaks() -> None:
    code = "import sys, hyperfsad; assert not {'logging', 'numpy', 'PIL'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr

"""Images that look like a different product from the good parts."""

from pathlib import Path

import pytest
from PIL import Image, ImageEnhance

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.messages import Notice
from tests.codes import codes
from tests.conftest import make_picture, read_results

WHITE = Image.new("RGB", (96, 80), "white")


def test_a_single_product_knows_strangers(detector: HyperFSAD, tmp_path: Path) -> None:
    detector.fit([make_picture(1), ImageEnhance.Brightness(make_picture(1)).enhance(1.1)])
    alike, other = list(detector.predict_many([make_picture(1), WHITE]))
    assert detector.foreign_ is not None
    assert alike.foreign is False
    assert other.foreign is True
    assert other.score_cls > detector.foreign_ > alike.score_cls
    assert other.to_dict()["foreign"] is True
    detector.save(tmp_path / "a.hfsad")
    loaded = HyperFSAD.load(tmp_path / "a.hfsad", device="cpu")
    assert loaded.foreign_ == detector.foreign_


def test_more_good_parts_move_the_limit(detector: HyperFSAD) -> None:
    first = detector.fit(make_picture(1)).foreign_
    assert detector.extend(make_picture(2)).foreign_ != first
    assert detector.unfitted().foreign_ is None


def test_strangers_among_good_parts_are_told(detector: HyperFSAD) -> None:
    told: list[str] = []
    detector.fit(make_picture(1))
    detector.notify = told.append
    alike = ImageEnhance.Brightness(make_picture(1)).enhance(1.1)
    detector.calibrate([alike, WHITE])
    assert codes(told).count("good-parts-foreign") == 1
    told.clear()
    detector.extend([alike])
    assert "good-parts-foreign" not in codes(told)
    detector.extend([WHITE])
    assert codes(told).count("good-parts-foreign") == 1


def test_detect_and_the_report_say_so(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_picture(1).save(tmp_path / "good.png")
    WHITE.save(tmp_path / "white.png")
    out = tmp_path / "out"
    words = ["detect", str(tmp_path / "white.png"), "--normal", str(tmp_path / "good.png")]
    assert main([*words, "-o", str(out), "--backbone", tiny, "--device", "cpu"]) == 0
    told = capsys.readouterr()
    sentence = Notice("foreign-images", images=1)
    assert sentence in told.err
    assert "white.png  (looks like another product)" in told.out
    assert read_results(out)[0]["foreign"] is True
    page = (out / "report.html").read_text(encoding="utf-8")
    assert sentence in page
    assert '"unknown":true' in page

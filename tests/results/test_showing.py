"""Results in notebooks and in other libraries."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import supervision
from PIL import Image

from hyperfsad import AnomalyResult, HyperFSAD, UsageError
from hyperfsad.decisions.regions import Region
from hyperfsad.results.showing import WIDEST
from tests.codes import raises
from tests.conftest import make_picture
from tests.results.test_result import REGION, result


def test_a_notebook_shows_the_heat_map(detector: HyperFSAD, photos: Path) -> None:
    made = detector.fit(photos / "0.png").predict(photos / "1.png")
    shown = made._repr_png_()
    assert shown is not None
    with Image.open(io.BytesIO(shown)) as picture:
        assert picture.format == "PNG"
        assert picture.convert("RGB").tobytes() == made.plot().tobytes()
    large = detector.predict(make_picture(2, (1600, 1200)))._repr_png_()
    assert large is not None
    with Image.open(io.BytesIO(large)) as picture:
        assert max(picture.size) == WIDEST


def test_a_notebook_shows_verdict_and_regions(detector: HyperFSAD, photos: Path) -> None:
    name = photos / "<b>&.png"
    (photos / "1.png").rename(name)
    made = detector.fit(photos / "0.png").predict(name)
    html = made._repr_html_()
    assert "&lt;b&gt;&amp;.png" in html
    assert "<b>&.png" not in html
    assert made.verdict in html
    assert 'src="data:image/png;base64,' in html
    assert html.count("<tr>") == (1 + len(made.regions) if made.regions else 0)
    listed = result(threshold=0.2, map_threshold=0.1, regions=(REGION,))._repr_html_()
    assert "20, 20, 50, 40" in listed


def test_what_has_no_picture_is_shown_without(detector: HyperFSAD, photos: Path) -> None:
    failed = AnomalyResult.failed("a.png", "a.png is <damaged>.")
    assert failed._repr_png_() is None
    assert "a.png is &lt;damaged&gt;." in failed._repr_html_()
    made = detector.fit(photos / "0.png").predict(photos / "1.png")
    (photos / "1.png").unlink()
    assert made._repr_png_() is None
    assert "<img" not in made._repr_html_()


def test_regions_are_detections_of_supervision() -> None:
    other = Region((1, 2, 3, 4), 5.0, 0.7, kind="missing")
    found = result(regions=(REGION, other)).to_supervision()
    assert isinstance(found, supervision.Detections)
    assert found.xyxy.tolist() == [[20, 20, 70, 60], [1, 2, 4, 6]]
    assert found.confidence == pytest.approx(np.array([0.5, 0.7]))
    assert found.class_id.tolist() == [0, 1]
    assert found.data["class_name"].tolist() == ["unexpected", "missing"]
    drawn = supervision.BoxAnnotator().annotate(make_picture(1), found)
    assert drawn.size == make_picture(1).size
    assert len(result().to_supervision()) == 0
    assert supervision.Detections.merge([found, result().to_supervision()]).xyxy.shape == (2, 4)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", None)
    with raises(UsageError, "supervision-missing"):
        result().to_supervision()

"""The page: what stands in it, and how it looks in a real browser."""

import base64
import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad.quality.evaluate import WorstErrors, beside_truth
from hyperfsad.quality.evaluation import EvaluatedImage, Evaluation
from hyperfsad.quality.evaluation_page import save_evaluation
from hyperfsad.quality.test_set import TestImage
from tests.report.samples import sample_result

HOSTILE = "<img src=x onerror=alert(1)>&\"'.png"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Sixteen parts, of which one in four is classified wrongly; one cannot be read."""
    (tmp_path / "in").mkdir()
    images, worst = [], WorstErrors()
    for index in range(16):
        bad = index % 2 == 1
        peak = 0.9 if bad != (index % 4 == 0) else 0.2 + index / 100
        name = str(tmp_path / "in" / (HOSTILE if index == 4 else f"part {index}.png"))
        result = sample_result(name, index, peak=peak, map_threshold=0.5, threshold=0.5)
        kind = ("scratch", "<dent>", "a-very-long-name-of-a-kind-without-any-space")[index % 3]
        one = beside_truth(TestImage(name, bad, kind if bad else "good", None), result)
        images.append(one)
        if one.wrong:
            worst.add(one, result)
    images.append(
        EvaluatedImage("x.png", True, "scratch", None, None, None, "x.png is empty (0 bytes).")
    )
    evaluation = Evaluation("my parts/part.hfsad", tuple(images), 0.5, 0.5)
    save_evaluation(replace(evaluation, false_alarms=worst.pictures()), tmp_path / "out")
    return tmp_path / "out" / "evaluation.html"


def test_the_page_needs_nothing_else_and_runs_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.search(r"https?://", text)
    assert all(t.startswith("data:") for t in re.findall(r'(?:src|href)="([^"]*)"', text))
    assert " style=" not in text  # the policy would refuse it
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "<img src=x" not in text  # names are text
    assert "<dent>" not in text
    assert "&lt;dent&gt;" in text


def test_commands_can_be_copied(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"<code>(.*?)</code>", text)
    assert commands
    for command in commands:
        assert re.fullmatch(
            r"hyperfsad calibrate &#39;my parts/part.hfsad&#39; --threshold [\d.]+", command
        )


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1200, "light")])
def test_it_fits_a_phone_and_a_desk(
    page: Path, opened: Callable[..., Any], width: int, scheme: str
) -> None:
    shown = opened(page, width=width, scheme=scheme)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    outside = """(width) => [...document.querySelectorAll("td, th, p, dd, svg, img, code, li")]
      .filter((node) => node.getBoundingClientRect().right > width).map((node) => node.outerHTML)"""
    assert shown.evaluate(outside, width) == []
    assert shown.locator("svg.roc").is_visible()
    assert shown.locator("svg.histogram").is_visible()
    light = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(245, 246, 248)") == (scheme == "light")


def test_errors_are_shown_with_their_maps(page: Path, opened: Callable[..., Any]) -> None:
    shown = opened(page)
    missed, alarms = (shown.get_by_role("region", name=n) for n in ("Missed", "False alarms"))
    assert missed.locator(".shot").count() == 0  # every fourth part is a good one
    assert alarms.locator(".shot").count() == 4
    badges = alarms.locator(".badge").all_text_contents()
    assert set(badges) == {"good part, called anomalous"}
    photo, glow = (alarms.locator(f".shot img{kind}").first for kind in (":not(.glow)", ".glow"))
    assert photo.bounding_box() == glow.bounding_box()
    box = photo.bounding_box()
    assert box["width"] / box["height"] == pytest.approx(96 / 80, rel=0.02)
    shown.get_by_label("Heat maps over the pictures").uncheck()
    assert not glow.is_visible()
    assert photo.is_visible()
    assert "x.png is empty (0 bytes)." in shown.locator(".failures").inner_text()


def test_a_missed_defect_is_labelled_with_its_truth_and_its_kind(tmp_path: Path) -> None:
    images, worst = [], WorstErrors()
    for kind in ("dent", "scratch"):
        name = str(tmp_path / f"{kind}.png")
        result = sample_result(name, 1, peak=0.3, map_threshold=0.5, threshold=0.5)
        one = EvaluatedImage(name, True, kind, result.score, result.level, False, foreign=True)
        images.append(one)
        worst.add(one, result)
    evaluation = Evaluation("part.hfsad", tuple(images), 0.5, 0.5, missed=worst.pictures())
    save_evaluation(evaluation, tmp_path / "out")
    text = (tmp_path / "out" / "evaluation.html").read_text(encoding="utf-8")
    badges = re.findall(r'<span class="badge \w+">(.*?)</span>', text)
    assert badges[:3] == ["bad part, called good", "kind: dent", "looks like another product"]


def test_the_histogram_says_what_its_axis_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert ">% of the limit</text>" in text
    assert ">limit</text>" in text


def test_the_map_of_a_missed_defect_shows_where_it_looked(tmp_path: Path) -> None:
    """On the usual scale, which begins at the threshold, it would be empty."""
    name = str(tmp_path / "part.png")
    plain = sample_result(name, 1, peak=0.45, map_threshold=0.5, threshold=0.5)
    result = replace(plain, scale=(0.5, 1.0))
    worst = WorstErrors()
    worst.add(EvaluatedImage(name, True, "dent", result.score, result.level, False), result)
    (shot,) = worst.pictures()
    glow = np.asarray(Image.open(io.BytesIO(base64.b64decode(shot.overlay))))[..., 3]
    assert divmod(int(glow.argmax()), glow.shape[1]) == (2, 3)
    assert glow.max() > 100
    assert np.count_nonzero(glow) == 1


def test_the_current_threshold_lies_on_the_curve(page: Path, opened: Callable[..., Any]) -> None:
    shown = opened(page)
    circle = shown.locator("svg.roc circle")
    at = [float(circle.get_attribute(name)) for name in ("cx", "cy")]
    # 4 of 8 good parts are called anomalous, and 8 of 8 defects
    assert at == pytest.approx([46 + 260 * 4 / 8, 10])
    corners = shown.locator("svg.roc polyline").get_attribute("points").split()
    assert corners[0] == "46.00,270.00"
    assert corners[-1] == "306.00,10.00"

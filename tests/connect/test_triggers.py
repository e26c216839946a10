"""Triggers: which frames are shots."""

import math
from collections.abc import Iterable

import numpy as np
import pytest

from hyperfsad.connect.sources import Frame, Pixels
from hyperfsad.connect.triggers import Every, Software, Still, Trigger, seconds_of, trigger_of
from hyperfsad.errors import UsageError
from tests.codes import raises
from tests.connect.videos import belt


def frame(number: int, pixels: Pixels, rate: float = 20.0) -> Frame:
    return Frame(number, number / rate, 0.0, 0, lambda: pixels)


def fired(trigger: Trigger, scenes: Iterable[Pixels], rate: float = 20.0) -> list[int]:
    """The numbers of the frames that are shots."""
    frames = [frame(number, pixels, rate) for number, pixels in enumerate(scenes)]
    return [one.number for one in frames if trigger.fires(one) is not None]


def test_every_keeps_its_step_whatever_the_rate_of_the_camera() -> None:
    blank = [np.zeros((8, 8, 3), np.uint8)] * 40
    assert fired(Every(0.5), blank, rate=10) == [0, 5, 10, 15, 20, 25, 30, 35]
    # steps that fall between two frames: the next frame, and no drift
    assert fired(Every(0.25), blank[:21], rate=10) == [0, 3, 5, 8, 10, 13, 15, 18, 20]
    assert fired(Every(0.01), blank[:5], rate=10) == [0, 1, 2, 3, 4]


def test_every_does_not_catch_up_after_a_pause() -> None:
    trigger, pixels = Every(1.0), np.zeros((8, 8, 3), np.uint8)
    times = [0.0, 0.5, 10.0, 10.1, 10.2, 11.2]
    assert [t for t in times if trigger.fires(Frame(0, t, 0.0, 0, lambda: pixels))] == [
        0.0, 10.0, 11.2,
    ]  # fmt: skip


def scenes(places: Iterable[float | None], noise: float = 0.0) -> list[Pixels]:
    rng = np.random.default_rng(0)
    found = []
    for place in places:
        pixels = belt(place).astype(np.float64)
        pixels += noise * rng.standard_normal(pixels.shape)
        found.append(pixels.clip(0, 255).astype(np.uint8))
    return found


ARRIVING = [*np.linspace(0.0, 0.5, 15).tolist()]
LEAVING = [*np.linspace(0.5, 1.1, 15).tolist()]


@pytest.mark.parametrize("noise", [0.0, 8.0])
def test_still_fires_once_for_each_part_that_stands_and_never_at_the_empty_belt(
    noise: float,
) -> None:
    visit: list[float | None] = [*ARRIVING, *[0.5] * 20, *LEAVING, *[None] * 20]
    shots = fired(Still(), scenes([*[None] * 20, *visit, *visit], noise))
    first, second = 20 + len(ARRIVING), 20 + len(visit) + len(ARRIVING)
    assert len(shots) == 2
    # after 0.3 s of standing still, which are 6 frames, and a look every 0.1 s
    assert first + 4 <= shots[0] <= first + 10
    assert second + 4 <= shots[1] <= second + 10


def test_still_is_silent_while_a_part_only_passes() -> None:
    passing = [0.5 + 0.5 * math.sin(number / 5) for number in range(60)]
    assert fired(Still(), scenes([*[None] * 20, *passing])) == []


def test_still_sees_a_part_that_took_the_place_of_another() -> None:
    places = [*[None] * 20, *ARRIVING, *[0.5] * 20, *LEAVING[:8], *[LEAVING[7]] * 20]
    assert len(fired(Still(), scenes(places))) == 2


def test_software_gives_each_request_the_next_frame() -> None:
    trigger, pixels = Software(), np.zeros((8, 8, 3), np.uint8)
    assert trigger.fires(frame(0, pixels)) is None
    first, second = trigger.ask(), trigger.ask("0" * 32)
    assert trigger.waiting == 2
    assert trigger.fires(frame(1, pixels)) == first
    assert trigger.fires(frame(2, pixels)) == second == "0" * 32
    assert trigger.fires(frame(3, pixels)) is None


def test_a_camera_that_goes_takes_the_requests_with_it() -> None:
    trigger = Software()
    trigger.ask()
    assert trigger.reset() == 1
    assert trigger.fires(frame(0, np.zeros((8, 8, 3), np.uint8))) is None


def test_texts() -> None:
    assert seconds_of("500ms", "deadline") == 0.5
    assert seconds_of("2s", "deadline") == seconds_of(" 2.0 s ", "deadline") == 2.0
    for text in ("", "500", "0s", "-1s", "1h", "1e9s", "nans"):
        with raises(UsageError, "duration-invalid", name="deadline", given=text):
            seconds_of(text, "deadline")
    assert isinstance(trigger_of("still"), Still)
    assert isinstance(trigger_of("software"), Software)
    assert isinstance(trigger_of("every:20ms"), Every)
    with raises(UsageError, "trigger-unknown", given="sometimes"):
        trigger_of("sometimes")

"""Good parts against thresholds: new ones from further parts, and which parts lie beyond."""

from collections.abc import Sequence

from ..decisions.odd import odd_parts
from ..decisions.thresholds import Calibration, from_good_parts, one_decides
from ..evidence.patch import against
from ..messages import Notify
from ..method.memory import MemoryBank
from ..views import View
from .remarks import Reach, about_odd, listed


def calibrated(
    parts: Sequence[Reach], rate: float, support: Calibration, keep_odd: bool, notify: Notify
) -> Calibration:
    """The thresholds; odd parts are named, and left out unless they shall be kept."""
    odd = odd_parts([strength for _, strength in parts])
    rest = [part for place, part in enumerate(parts) if place not in odd]
    if odd:
        notify(about_odd([parts[place] for place in odd], rest, keep_odd))
    used = list(parts) if keep_odd else rest
    if above := [name for name, strength in used if strength > 1]:
        what = "this part is" if len(above) == 1 else "these parts are"
        notify(
            f"Above the threshold that was estimated from the learnt parts: {listed(above)}. Make"
            f" sure that {what} good."
        )
    found = from_good_parts(
        [strength for _, strength in used], rate, support, odd=len(parts) - len(used)
    )
    enough = one_decides(len(used), rate)
    if enough is not None:
        largest = max(used, key=lambda part: part[1])[0]
        notify(
            f"At {100 * rate:g} % with {len(used)} good parts, one part sets the threshold:"
            f" {largest}. With {enough} parts or more, one part no longer decides."
        )
    return found


def anomalous_before(
    view: View, memory: MemoryBank, threshold: float | None, map_threshold: float | None
) -> list[tuple[str, str]]:
    """Good parts of `memory` that are new and were anomalous while `view` knew the others alone,
    with how far each reached."""
    if threshold is None:
        return []
    known = {image.sha256 for image in view.bank.images}
    found = []
    for entry, *_ in memory.entries:
        image = memory.images[entry]
        if image.sha256 not in known:
            one = view.score_entry(memory, entry)
            if reach := _beyond(one.score, one.peak, threshold, map_threshold):
                found.append((image.name, reach))
    return found


def _beyond(score: float, peak: float, threshold: float, map_threshold: float | None) -> str | None:
    """How far an image is beyond a threshold, by its score or else by its map; None: it is not."""
    if score > threshold:
        return f"score {score:.3f}, {against(score, threshold)}"
    if map_threshold is not None and peak > map_threshold:
        return f"map {peak:.3f}, {against(peak, map_threshold)}"
    return None

"""Learning what defects are called, from a few bad parts that somebody has named."""

from collections.abc import Callable, Iterable

from ..decisions.defects import DefectExample, TaughtDefects
from ..encoders.encoder import PreparedImage
from ..errors import UsageError
from ..images.loading import NormalImage
from ..messages import Notice, Notify
from ..method.scoring import TokenScore


def taught(
    before: TaughtDefects,
    defect: str,
    images: Iterable[tuple[NormalImage, PreparedImage]],
    signed: Callable[[PreparedImage], TokenScore],
    level: Callable[[TokenScore], float | None],
    notify: Notify,
) -> TaughtDefects:
    """What is known after these examples of a defect; says which of them look good, since their
    strongest place may be no defect."""
    known, seen, good = before, 0, []
    for image, pixels in images:
        score = signed(pixels)
        if score.signature is None:
            raise UsageError("example-without-defect", image=image.name)
        example = DefectExample(defect, image.name, image.sha256, score.signature)
        known, seen = known.with_example(example), seen + 1
        reached = level(score)
        if reached is not None and reached <= 1:
            good.append((image.name, reached))
    if not seen:
        raise UsageError("no-example", defect=defect)
    if good:
        notify(Notice("examples-look-good", parts=good, defect=defect))
    return known

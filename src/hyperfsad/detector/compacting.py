"""What a compact memory goes with."""

from ..errors import UsageError
from ..method.coreset import COMPACT, check_memory


def check_compact(memory: str, *, tiles: bool, budget: float | None, lookup: str) -> None:
    """Refuses what is no kind of memory, and what a compact one cannot have."""
    check_memory(memory)
    if memory != COMPACT:
        return
    if tiles or budget is not None:
        raise UsageError(
            "Tiles are compared near their own place, so there is nothing to make compact; leave"
            " --memory compact, or --tiles and --budget out."
        )
    if lookup != "sparsemax":
        raise UsageError(
            "What a compact memory changes is known for sparsemax alone; leave --memory compact or"
            " --lookup out."
        )

"""How often the peers turn their support images."""

from ..errors import UsageError

ROTATIONS = (1, 8)
"""As it is, or in steps of 45 degrees, as their authors do."""


def check_rotations(rotations: int) -> None:
    """Refuses any other number of orientations."""
    if rotations not in ROTATIONS:
        raise UsageError(f"The number of rotations is 1 or 8, not {rotations}.")

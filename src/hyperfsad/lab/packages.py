"""Packages that parts of the lab need, and the product does not."""

from ..errors import UsageError


def missing_package(package: str) -> UsageError:
    """The error for a package of the extra `bench` that is not installed."""
    return UsageError("lab-needs-package", package=package)

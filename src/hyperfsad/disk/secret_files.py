"""Files that hold secrets: only their owner should be able to read them."""

import os
import stat
import warnings
from pathlib import Path

from ..errors import HyperfsadWarning, UsageError, reason
from ..messages import Notice


def read_secret(path: Path) -> str:
    """The text of such a file."""
    try:
        text = path.read_text(encoding="utf-8")
        check_secret(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("secret-file-unreadable", file=path, reason=reason(error)) from error
    return text


def check_secret(path: Path) -> None:
    """Warns where other accounts of this machine can read a file."""
    # systemd hands files over by a list of rights, which looks like a right of the group
    handed = str(path.parent) == os.environ.get("CREDENTIALS_DIRECTORY")
    others = stat.S_IRWXO if handed else stat.S_IRWXG | stat.S_IRWXO
    if path.stat().st_mode & others and os.name == "posix":
        warnings.warn(Notice("secret-file-open", file=path), HyperfsadWarning, stacklevel=3)

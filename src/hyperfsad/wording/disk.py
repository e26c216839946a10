"""Sentences about files and folders on disk."""

import errno
from pathlib import Path
from typing import Any

from . import Sentences

WRITE_PROBLEMS = {
    errno.ENOSPC: "the disk is full; free some space or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; free some space or write elsewhere",
    errno.EACCES: "writing there is not allowed; write elsewhere",
    errno.EPERM: "writing there is not allowed; write elsewhere",
    errno.EROFS: "the disk is read-only; write elsewhere",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EEXIST: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder; give the name of a file",
    errno.EFBIG: "it would be larger than files may be there; write elsewhere",
    errno.ELOOP: "its folder is a link that leads to itself",
    errno.ENAMETOOLONG: "the name is too long for this file system",
}
"""Errors of the operating system that a user can act upon."""


def _write_failed(path: Path, error: int, **_: Any) -> str:
    return f"Cannot write {path}: {WRITE_PROBLEMS[error]}."


def _locked(path: Path, holder: str, **_: Any) -> str:
    doing = f"writing to {path}" if path.is_dir() else f"changing {path}"
    return f"Another process ({holder}) is {doing}"


def _target_locked(path: Path, holder: str, option: Any, **_: Any) -> str:
    another = "folder" if path.is_dir() else "file"
    return (
        f"{_locked(path, holder)}; try again when it is done, choose another {another}, or wait"
        f" with {option['wait']}."
    )


def _lock_awaited(path: Path, holder: str, **_: Any) -> str:
    return f"{_locked(path, holder)}; waiting until it is done."


DISK_SENTENCES: Sentences = {
    "write-failed": _write_failed,
    "write-folder-missing": "Cannot write {path}: the folder {folder} does not exist; make it"
    " first.",
    "write-name-invalid": "Cannot write {path!r}: {reason}.",
    "write-not-a-file": "Cannot write {path}: it is {kind}, and only files are replaced; give"
    " another name.",
    "target-locked": _target_locked,
    "lock-awaited": _lock_awaited,
    "locks-unsupported": "{folder} is on a file system without locks; make sure that no other"
    " process writes there.",
    "header-too-large": "The names and numbers of these images take {given_mb:.1f} MB, but a file"
    " has room for {limit_mb:.1f} MB; learn fewer images.",
    "secret-file-unreadable": "{file} cannot be read: {reason}.",
    "secret-file-open": "Other accounts of this machine can open {file}; run `chmod 600 {file}`.",
}

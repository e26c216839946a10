"""The Hugging Face hub: what its cache holds, and downloads into it."""

import threading
from collections.abc import Iterable
from pathlib import Path

from ..errors import UnreachableError, first_line
from .folders import weight_files
from .specs import Hub

CONFIGS = ("config.json", "preprocessor_config.json", "*.safetensors.index.json")
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)
"""Of models that read text; others have none."""
_FILES = [*CONFIGS, *TOKENIZER, "model*.safetensors"]


def cached(source: Hub) -> Path | None:
    """The folder of a repository in the hub's cache, if it is complete.

    That of the known revision, or of the newest that was fetched by another program.
    """
    known = _cached(source.repository, source.revision) if source.revision else None
    return known or _cached(source.repository, None)


def _cached(repository: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        kept = snapshot_download(
            repository, revision=revision, allow_patterns=_FILES, local_files_only=True
        )
    except LocalEntryNotFoundError:
        return None
    folder = Path(kept)
    return folder if (folder / "config.json").exists() and weight_files(folder) else None


def source_of(sources: Iterable[object], folder: Path) -> Hub | None:
    """Which of these sources a folder of the hub's cache belongs to."""
    for source in sources:
        home = isinstance(source, Hub) and f"models--{source.repository.replace('/', '--')}"
        if isinstance(source, Hub) and folder.parent.parent.name == home:
            return source
    return None


def ask(source: Hub, seconds: float) -> None:
    """One attempt: raises UnreachableError unless the hub answers for a repository in that time.

    The client's own time limit does not cover the search for the hub's address, and counts anew
    for each address; so a thread asks, and is not waited for any longer.
    """
    from huggingface_hub import HfApi

    failures: list[Exception] = []

    def request() -> None:
        try:
            HfApi().model_info(
                source.repository, revision=source.revision or "main", timeout=seconds
            )
        except Exception as error:  # the client passes on what its HTTP library raises
            failures.append(error)

    asking = threading.Thread(target=request, daemon=True)
    asking.start()
    asking.join(seconds)
    if asking.is_alive():
        raise UnreachableError(f"no answer in {seconds:g} s")
    if failures:
        raise UnreachableError(first_line(failures[0])) from failures[0]


def download(source: Hub) -> Path:
    """The folder of a repository in the hub's cache, downloaded; or raises UnreachableError."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(
            snapshot_download(source.repository, revision=source.revision, allow_patterns=_FILES)
        )
    except Exception as error:  # the client passes on what its HTTP library raises
        raise UnreachableError(first_line(error)) from error
    if not weight_files(folder):
        raise UnreachableError("no safetensors file there")
    return folder

"""`completion`: what makes a shell complete commands and options."""

import argparse
from importlib.util import find_spec

from ..errors import UsageError
from .console import DONE, make_parser

SHELLS = ("bash", "zsh", "fish")


def add_completion(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print a script that makes a shell complete commands, options and files. bash: put it into"
        " ~/.local/share/bash-completion/completions/hyperfsad; zsh: into a file _hyperfsad of a"
        " folder of $fpath; fish: into ~/.config/fish/completions/hyperfsad.fish."
    )
    command.add_argument("shell", choices=SHELLS, help="the shell")


def completion(options: argparse.Namespace) -> int:
    """Prints the script of a shell."""
    if find_spec("shtab") is None:
        raise UsageError("completion-package")
    import shtab

    parser = make_parser(everything=True)
    for action in _files(parser):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return DONE


def _files(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """All arguments that take files or folders."""
    found: list[argparse.Action] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found += _files(below)
        elif action.nargs != 0 and not action.choices and action.type in (None, str):
            found.append(action)
    return found

"""The command line: it parses, calls and prints.

Each family of commands has a module with the options and the function of each command. What they
share: `console` (runs a command, and prints what a person reads), `arguments` (options) and
`detectors` (made, opened, fitted and run).
"""

from .console import main

__all__ = ["main"]

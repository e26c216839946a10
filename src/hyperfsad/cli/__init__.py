"""The command line: it parses, calls and prints.

`main` runs a command. Each family of commands has a module with the options and the function of
each command. What they share: `arguments` (options), `detectors` (made, opened and fitted) and
`console` (what a person reads).
"""

from .main import main

__all__ = ["main"]

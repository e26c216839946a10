"""`python -m hyperfsad` is the `hyperfsad` command."""

import sys

if not getattr(sys.flags, "safe_path", sys.flags.isolated):
    del sys.path[0]  # the working folder: a `numpy.py` there is not ours to run

from .cli import main

sys.exit(main())

"""`python -m hyperfsad` is the `hyperfsad` command."""

import sys

from .cli import main

sys.exit(main())

"""`python -m hyperfsad` is the `hyperfsad` command."""

import sys

from .cli.main import main

sys.exit(main())

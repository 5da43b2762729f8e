"""``python -m bakery``."""

import sys

# Python puts the working folder first, and that may be anybody's checkout: do as `python -P` does.
if not sys.flags.safe_path:
    del sys.path[0]

from bakery.cli.app import main

main()

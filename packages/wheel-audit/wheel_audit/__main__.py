"""``python -m wheel_audit``."""

import sys

# Python puts the working folder first, and that may be anybody's checkout: do as `python -P` does.
if not sys.flags.safe_path:
    del sys.path[0]

from wheel_audit.command import main

raise SystemExit(main())

"""The command line. Only this package prints and exits; it passes the environment to the others.

Each file is one command or a small group; ``app`` lists them. Commands import other packages inside functions, so that
``--help`` is fast. This package may import all others.
"""

import gc

# A command allocates much while it starts and frees little of it. Collections would take a tenth of that time.
gc.set_threshold(100_000)

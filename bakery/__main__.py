"""``python -m bakery``."""

from bakery.cli.app import main

main()

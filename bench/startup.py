"""How long `wheel-bakery --help` takes, beside the imports it cannot do without."""

from __future__ import annotations

import sys

from timing import BAKERY, Call, Row, medians, table

BAR = 1.3


def main() -> int:
    own, imports = medians([Call([*BAKERY, "--help"]), Call([sys.executable, "-c", "import pydantic, typer, rich"])])
    rows = [
        Row("wheel-bakery --help", f"{own:.3f} s"),
        Row("import pydantic, typer, rich", f"{imports:.3f} s"),
        Row("ratio", f"{own / imports:.2f}", f"≤ {BAR:g}", own <= BAR * imports),
    ]
    return table("Startup (median of 10)", rows)


if __name__ == "__main__":
    sys.exit(main())

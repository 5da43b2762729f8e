"""Standard output whose reader leaves."""

from __future__ import annotations

import os

from bakery.cli.failures import without_reader


def test_output_that_nobody_reads_is_no_failure() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:
        output = without_reader(pipe)
        output.write("read\n")
        output.flush()
        assert os.read(reader, 100) == b"read\n"
        os.close(reader)
        for _ in range(3):
            output.write("x" * 100_000)
            output.flush()
        output.close()

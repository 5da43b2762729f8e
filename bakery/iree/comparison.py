"""Compares results with expected results: bakery's own program does it, alone in a container."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bakery.core.errors import EngineError
from bakery.iree.call_args import Case
from bakery.iree.mlir.signature import Type
from bakery.iree.models.job import Tolerance
from bakery.iree.models.module import CheckRecord, ErrorRecord
from bakery.iree.npy import ELEMENTS
from bakery.iree.sandbox import RESULT, Sandbox
from bakery.plan.values import Json

Pending = tuple[Case, tuple[Path | bytes, ...]]
"""A check that ran, and each of its expected results: a ``.npy`` file, or the text of a number."""

TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(rtol=1e-9, atol=1e-12),
    "float32": Tolerance(rtol=1e-4, atol=1e-5),
    "float16": Tolerance(rtol=1e-2, atol=1e-3),
    "bfloat16": Tolerance(rtol=2e-2, atol=1e-2),
    "complex64": Tolerance(rtol=1e-4, atol=1e-5),
    "complex128": Tolerance(rtol=1e-9, atol=1e-12),
}
"""Default tolerances; integers and booleans must be equal.

They are wider than NumPy's because compilers reorder sums: about a thousand roundings of the type.
"""


def compare(pending: Sequence[Pending], results: Mapping[str, Path], sandbox: Sandbox, image: str) -> list[CheckRecord]:
    """Compare results in a container that runs nothing else. Return one record for each check, in order.

    Args:
        results: name → file with a result.
        image: an image with Python and NumPy, for the engine's own platform.

    Raises:
        EngineError: the container cannot be run, or fails.
    """
    files: dict[str, Path | bytes] = {}
    pairs: list[Json] = []
    for case, expected in pending:
        tolerances = dict(TOLERANCES)
        tolerances.update((case.check.tolerance or {}).items())
        for name, type_, content in zip(case.results, case.types, expected, strict=True):
            files[f"got/{name}"] = results[name]
            tolerance = tolerances.get(_dtype(type_), Tolerance())
            shape: list[Json] = [size for size in type_.shape or () if size is not None]
            pair: dict[str, Json] = {"got": f"got/{name}", "dtype": _dtype(type_), "rtol": tolerance.rtol}
            pair |= {"atol": tolerance.atol, "shape": shape if name.endswith(".bin") else None}
            if isinstance(content, bytes) and not content.startswith(b"\x93NUMPY"):
                pair["expected"] = {"number": content.decode()}
            else:
                files[f"expected/{name}"] = content
                pair["expected"] = f"expected/{name}"
            pairs.append(pair)
    if not pairs:
        return [CheckRecord(function=case.call.function.name, status="passed") for case, _ in pending]
    result = sandbox.run_program(image, "module_compare.py", pairs, files)
    if result.code or RESULT not in result.files:
        raise EngineError("results cannot be compared", details=result.log.splitlines()[-8:])
    differences = iter(json.loads(result.files[RESULT].read_bytes()))
    return [_record(case, differences) for case, _ in pending]


def _record(case: Case, differences: Iterator[Mapping[str, Json]]) -> CheckRecord:
    errors, reasons = [], []
    for index, (type_, item) in enumerate(zip(case.types, differences, strict=False)):
        if item["problem"]:
            reasons.append(f"result {index}: {item['problem']}")
            continue
        fields = {key: item[key] for key in ("absolute", "relative", "at", "got", "expected", "beyond", "elements")}
        error = ErrorRecord.model_validate({"result": index, "dtype": _dtype(type_) or "other", **fields})
        errors.append(error)
        if error.beyond:
            reasons.append(_reason(error))
    status = "failed" if reasons else "passed"
    return CheckRecord.model_validate(
        {"function": case.call.function.name, "status": status, "reason": "; ".join(reasons), "errors": errors}
    )


def _reason(error: ErrorRecord) -> str:
    at = f" at [{', '.join(map(str, error.at))}]" if error.at else ""
    largest = "" if error.absolute is None else f"; largest error {error.absolute:.3g}"
    if error.relative is not None and error.absolute is not None:
        largest += f", relative {error.relative:.3g}"
    return (
        f"result {error.result}: {error.beyond} of {error.elements} elements are wrong: "
        f"expected {error.expected}{at}, got {error.got}{largest}"
    )


def _dtype(type_: Type) -> str:
    return ELEMENTS.get(type_.element.removeprefix("s"), "")

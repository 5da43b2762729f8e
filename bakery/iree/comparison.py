"""Results against what was expected of them: by bakery's own program, in a container of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bakery.core.errors import EngineError
from bakery.iree import programs
from bakery.iree.call_args import Case
from bakery.iree.limits import CALL_S, limits_for
from bakery.iree.mlir.signature import Type
from bakery.iree.models.job import Check, Tolerance
from bakery.iree.models.module import CheckRecord, ErrorRecord
from bakery.iree.npy import ELEMENTS
from bakery.iree.sandbox import Sandbox
from bakery.plan.values import Json

Pending = tuple[Case, tuple[Path | bytes, ...]]
"""A check that ran, and what is expected of each of its results: a ``.npy`` file, or the text of a number."""

TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(rtol=1e-9, atol=1e-12),
    "float32": Tolerance(rtol=1e-4, atol=1e-5),
    "float16": Tolerance(rtol=1e-2, atol=1e-3),
    "bfloat16": Tolerance(rtol=2e-2, atol=1e-2),
    "complex64": Tolerance(rtol=1e-4, atol=1e-5),
    "complex128": Tolerance(rtol=1e-9, atol=1e-12),
}
"""What is allowed where a check says nothing; whole numbers and truth values must be equal.

Wider than numpy's, since compilers reorder sums: about a thousand roundings of the type.
"""


def compare(pending: Sequence[Pending], out: Mapping[str, Path], box: Sandbox, image: str) -> list[CheckRecord]:
    """Compare results in a container that runs nothing else.

    Args:
        out: the module's results, by name.
        image: an image with Python and numpy, for the engine's own machine.

    Returns:
        One record for each check, in order.

    Raises:
        EngineError: the container cannot be run, or cannot read what bakery gave it.
    """
    files: dict[str, Path | bytes] = {"compare.py": programs.text("module_compare.py").encode()}
    pairs: list[dict[str, Json]] = []
    for case, expected in pending:
        for name, type_, wanted in zip(case.results, case.types, expected, strict=True):
            files[f"got/{name}"] = out[name]
            tolerance = _tolerance(case.check, _dtype(type_))
            pair: dict[str, Json] = {"got": f"got/{name}", "dtype": _dtype(type_), "rtol": tolerance.rtol}
            pair |= {"atol": tolerance.atol, "shape": _shape(type_) if name.endswith(".bin") else None}
            if isinstance(wanted, bytes) and not wanted.startswith(b"\x93NUMPY"):
                pair["expected"] = {"number": wanted.decode()}
            else:
                files[f"expected/{name}"] = wanted
                pair["expected"] = f"expected/{name}"
            pairs.append(pair)
    if not pairs:
        return [CheckRecord(function=case.call.function.name, status="passed") for case, _ in pending]
    files["pairs.json"] = json.dumps(pairs).encode()
    ran = box.run(
        image,
        ["python3", "-I", "compare.py", "pairs.json", "out/compared.json"],
        files,
        wanted=("compared.json",),
        limits=limits_for(files, CALL_S),
    )
    if ran.code or "compared.json" not in ran.out:
        raise EngineError("results cannot be compared", details=ran.log.splitlines()[-8:])
    found = iter(json.loads(ran.out["compared.json"].read_bytes()))
    return [_judged(case, found) for case, _ in pending]


def _judged(case: Case, found: Iterator[Mapping[str, Json]]) -> CheckRecord:
    errors, reasons = [], []
    for index, (type_, item) in enumerate(zip(case.types, found, strict=False)):
        if item["problem"]:
            reasons.append(f"result {index}: {item['problem']}")
            continue
        fields = {key: item[key] for key in ("absolute", "relative", "at", "got", "expected", "beyond", "elements")}
        error = ErrorRecord.model_validate({"result": index, "dtype": _dtype(type_) or "other", **fields})
        errors.append(error)
        if error.beyond:
            reasons.append(wrong(error))
    status = "failed" if reasons else "passed"
    return CheckRecord.model_validate(
        {"function": case.call.function.name, "status": status, "reason": "; ".join(reasons), "errors": errors}
    )


def wrong(error: ErrorRecord) -> str:
    """Return in words how a result is wrong."""
    at = f" at [{', '.join(map(str, error.at))}]" if error.at else ""
    far = "" if error.absolute is None else f"; largest error {error.absolute:.3g}"
    if error.relative is not None and error.absolute is not None:
        far += f", relative {error.relative:.3g}"
    return (
        f"result {error.result}: {error.beyond} of {error.elements} elements are wrong: "
        f"expected {error.expected}{at}, got {error.got}{far}"
    )


def _tolerance(check: Check, dtype: str) -> Tolerance:
    own = next((value for name, value in (check.tolerance or {}).items() if name == dtype), None)
    return own or TOLERANCES.get(dtype, Tolerance())


def _dtype(type_: Type) -> str:
    return ELEMENTS.get(type_.element.removeprefix("s"), "")


def _shape(type_: Type) -> list[Json]:
    return [size for size in type_.shape or () if size is not None]

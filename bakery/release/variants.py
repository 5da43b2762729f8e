"""Packages audited wheels again as wheel variants: the same files, and ``variant.json`` with what the audit read."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bakery.core.errors import AuditError, OutputError
from bakery.plan.model import Plan
from bakery.plan.values import substitute
from bakery.release.verify import assigned
from bakery.runs.audited import report_on
from bakery.runs.publish import publish
from wheel_audit.finding import Finding, Severity
from wheel_audit.variant import FILE, BadVariant, declare, derive, is_label, label_of, write
from wheel_audit.wheel_names import split_label

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Declared:
    """What a recipe says of a wheel's variant: its label, empty for one that names the properties; and ``namespace ::
    feature`` → values."""

    label: str = ""
    properties: Mapping[str, Sequence[str]] = field(default_factory=dict)


def declared_variants(plan: Plan, wheels: Sequence[Path]) -> dict[Path, Declared]:
    """Return what ``[wheel.variants]`` says of each wheel of a plan's cells; values without text are left out."""
    result: dict[Path, Declared] = {}
    cells = {cell.id: cell for cell in (*plan.cells, *plan.cibuildwheel_cells)}
    for name, matched in assigned(plan, wheels)[0].items():
        values, audit = plan.values_of_wheel(cells[name]), plan.of(cells[name]).audit
        properties: dict[str, list[str]] = {}
        for key, value in audit.variant_properties:
            if text := substitute(value, values):
                properties.setdefault(key, []).append(text)
        declared = Declared(substitute(audit.variant_label, values), properties)
        result |= dict.fromkeys(matched, declared)
    return result


def make_variants(
    wheels: Sequence[Path],
    output: Path,
    root: Path,
    dialect: str,
    declared: Mapping[Path, Declared] | None = None,
) -> tuple[Path, ...]:
    """Write a variant of each wheel into a folder, and return their paths. ``dialect`` is one of `dialects`.

    ``declared`` has labels and properties in place of those that the audit reads.

    Raises AuditError if a wheel or its variant does not pass the audit, or if two variants have one name, and
    OutputError if a file cannot be written. Then nothing is written.
    """
    problems: list[str] = []
    made: dict[str, Path] = {}
    try:
        output.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix=".bakery-", dir=output)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}") from error
    with scratch as folder:
        for wheel in wheels:
            try:
                variant = _package(wheel, Path(folder), dialect, (declared or {}).get(wheel, Declared()))
            except BadVariant as reason:
                problems.append(f"{wheel.name}: {reason}")
                continue
            if other := made.get(variant.name):
                problems.append(f"{wheel.name} and {other.name} both become {variant.name}: same tags, same properties")
            made[variant.name] = wheel
        if problems:
            raise AuditError(
                f"{len(problems)} of the {len(wheels)} wheels cannot become variants; nothing was written",
                details=problems,
                hint="each line says what to change; `wheel-bakery audit WHEEL` shows a wheel's device code",
            )
        return publish([Path(folder, name) for name in sorted(made)], output, root=root)


def _package(wheel: Path, folder: Path, dialect: str, declared: Declared) -> Path:
    """Write the variant of a wheel and audit it. Raises BadVariant with what is wrong."""
    if split_label(wheel.name)[1]:
        raise BadVariant("it is a variant already; name the plain wheel")
    report = report_on(wheel)
    _refuse(report.findings)
    properties = declare(derive(report.device_objects), declared.properties)
    label = (properties and declared.label) or label_of(properties)
    if not is_label(label):
        raise BadVariant(
            f"wheel.variants.label: {label[:100]!r} is no label; write lower-case letters, digits, _ and dots"
        )
    target = folder / f"{wheel.name.removesuffix('.whl')}-{label}.whl"
    if target.exists():
        return target
    try:
        _copy(wheel, target, write({label: properties}, dialect).encode())
    except OSError as error:
        raise OutputError(f"cannot write {target.name}: {error.strerror or error}") from error
    _refuse(report_on(target).findings)
    return target


def _refuse(findings: Sequence[Finding]) -> None:
    texts = [finding.message for finding in findings if finding.severity is Severity.ERROR]
    if texts:
        raise BadVariant("it did not pass the audit: " + "; ".join(texts))


def _copy(wheel: Path, target: Path, text: bytes) -> None:
    """Copy a wheel member by member, in its order, with ``variant.json`` and its line before RECORD's own."""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as result:
        for info in source.infolist():
            head, _, name = info.filename.partition("/")
            if not (head.endswith(".dist-info") and name == "RECORD"):
                with source.open(info) as content, result.open(_like(info, info.filename), "w") as member:
                    while chunk := content.read(_CHUNK):
                        member.write(chunk)
                continue
            path = f"{head}/{FILE}"
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
            lines = source.read(info).splitlines(keepends=True)
            # Its own line may be quoted, and need not be there.
            own = re.compile(b'"?%b"?,' % re.escape(info.filename.encode()))
            at = next((i for i, line in enumerate(lines) if own.match(line)), len(lines))
            end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
            if at and not lines[at - 1].endswith(b"\n"):
                lines[at - 1] += end
            lines.insert(at, f"{path},sha256={digest},{len(text)}".encode() + end)
            result.writestr(_like(info, path), text)
            result.writestr(_like(info, info.filename), b"".join(lines))


def _like(info: zipfile.ZipInfo, path: str) -> zipfile.ZipInfo:
    """Return the entry of a new member with the time, mode and compression of another one."""
    entry = zipfile.ZipInfo(path, info.date_time)
    entry.compress_type, entry.external_attr = info.compress_type, info.external_attr
    entry.create_system, entry.file_size = info.create_system, info.file_size
    return entry

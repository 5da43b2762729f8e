"""Runs external tools: auditwheel, abi3audit and check-wheel-contents in separate processes, and readme-renderer.

auditwheel documents its JSON (``show --json``, version 1). The next two have no stable interface: abi3audit writes
JSON, check-wheel-contents lines that have been the same for years. Output that cannot be parsed is a failure of the
tool, never of the wheel. No tool needs a network for a file on disk.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from wheel_audit.environment import clean_environment
from wheel_audit.readers import json_of
from wheel_audit.text import listed

_AUDITWHEEL_SECONDS = 300.0
_SECONDS = 900.0
_VERSIONED = ("auditwheel", "abi3audit", "abi3info", "check-wheel-contents", "readme-renderer", "docutils")
_CONTENTS_LINE = re.compile(r"(W\d{3}): (.*?):?")
_INSTALL = "install it: python -m pip install 'wheel-audit[tools]'"
_BROKEN = {
    "unsupported_isa": "instructions beyond the platform's baseline",
    "ucs2": "a narrow unicode (UCS2) Python",
    "pyfpe": "PyFPE_jbuf",
}


@dataclass(frozen=True, slots=True)
class AuditwheelReport:
    """The result of auditwheel, or why it failed or was skipped.

    ``overall`` is the oldest platform tag that the wheel fulfils, considering external libraries; ``symbols`` considers
    only symbol versions. ``broken`` says why no manylinux tag is possible (instruction set, UCS2, PyFPE). ``libraries``
    and ``blacklisted`` have tag → the external libraries and the symbols that it does not allow.
    """

    overall: str = ""
    symbols: str = ""
    broken: str = ""
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blacklisted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failure: str = ""
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class ToolRemark:
    """A problem that a tool found: the tool's code for it (``W005``), one sentence, and paths inside the wheel."""

    code: str
    text: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool; ``failure`` says why it has none, ``hint`` what to do. An absent tool was left out on purpose."""

    remarks: tuple[ToolRemark, ...] = ()
    failure: str = ""
    hint: str = ""
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The result of each tool; empty for one that was not run."""

    abi3: ToolResult = ToolResult()
    contents: ToolResult = ToolResult()
    readme: ToolResult = ToolResult()


class _ToolError(Exception):
    """Why a tool did not finish."""


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return the tools that an audit depends on, with their versions; empty if not installed."""
    return tuple((name, next((item.version for item in distributions(name=name)), "")) for name in _VERSIONED)


def run_tools(wheel: Path, *, stable_abi: str = "", restructured: str = "") -> ToolResults:
    """Run the tools on a wheel in parallel.

    ``stable_abi`` is the oldest Python, as ``3.9``, that its stable-ABI modules support, empty without them;
    ``restructured`` is its description, if the rendering can fail.
    """
    with ThreadPoolExecutor() as pool:
        contents = pool.submit(run_check_wheel_contents, wheel)
        abi3 = pool.submit(run_abi3audit, wheel, stable_abi)
        # In this thread: it starts no process.
        readme = render_readme(restructured) if restructured else ToolResult()
        return ToolResults(abi3.result(), contents.result(), readme)


def run_abi3audit(wheel: Path, oldest: str) -> ToolResult:
    """Check with abi3audit that the modules use only the stable ABI of ``oldest``; nothing if that is empty."""
    arguments = ["--report", "--assume-minimum-abi3", oldest]
    return _run_and_parse("abi3audit", arguments, wheel, parse_abi3audit) if oldest else ToolResult()


def run_check_wheel_contents(wheel: Path) -> ToolResult:
    """Run check-wheel-contents without the configuration of the current folder."""
    return _run_and_parse(
        "check_wheel_contents", ["--no-config"], wheel, lambda output: parse_check_wheel_contents(output, wheel)
    )


def render_readme(description: str) -> ToolResult:
    """Render a description in reStructuredText as PyPI does."""
    try:
        from readme_renderer import rst
    except ImportError:
        return ToolResult(failure="readme-renderer is not installed", hint=_INSTALL, is_absent=True)
    problems = io.StringIO()
    try:
        rendered = rst.render(description, stream=problems)
    except MemoryError:
        raise
    except Exception as reason:  # a hostile text can cause any error in docutils
        return ToolResult(failure=f"readme-renderer failed: {type(reason).__name__}")
    first = next((line.strip() for line in problems.getvalue().splitlines() if line.strip()), "no reason given")
    return ToolResult() if rendered else ToolResult((ToolRemark("render", first),))


def parse_abi3audit(output: str) -> ToolResult:
    """Parse abi3audit's report. Other output raises ValueError, KeyError, TypeError or AttributeError."""
    remarks: list[ToolRemark] = []
    for spec in json_of(output)["specs"].values():
        for item in spec["wheel"]:
            name, result = item["name"], item["result"]
            if symbols := set(result["non_abi3_symbols"]):
                remarks.append(
                    ToolRemark("not-abi3", f"uses {listed(sorted(symbols))}, not part of the stable ABI", (name,))
                )
            if later := [f"{symbol} ({since})" for symbol, since in result["future_abi3_objects"].items()]:
                text = f"uses {listed(sorted(later))}, newer than the stable ABI of {result['baseline']}"
                remarks.append(ToolRemark("newer-abi3", text, (name,)))
    return ToolResult(tuple(remarks))


def parse_check_wheel_contents(output: str, wheel: Path) -> ToolResult:
    """Parse the lines ``WHEEL: CODE: text:``, each followed by files after two blanks; raise ValueError for others."""
    remarks: list[tuple[str, str, list[str]]] = []
    for line in output.splitlines():
        remark = line.removeprefix(f"{wheel.absolute()}: ")
        if remark != line and (match := _CONTENTS_LINE.fullmatch(remark)):
            remarks.append((match[1], match[2], []))
        elif line.startswith("  ") and remarks:
            remarks[-1][2].append(line[2:])
        elif remark != "OK":
            raise ValueError(line)
    if not output.strip():
        raise ValueError("it wrote nothing")
    return ToolResult(tuple(ToolRemark(code, text, tuple(files)) for code, text, files in remarks))


def run_auditwheel(wheel: Path) -> AuditwheelReport:
    """Return auditwheel's report; it may be a failure."""
    if sys.platform != "linux":
        return AuditwheelReport(skipped="auditwheel runs on Linux only")
    if find_spec("auditwheel") is None:
        return AuditwheelReport(skipped="auditwheel is not installed")
    try:
        # No search path: the result must not depend on the libraries of this machine.
        done = _run("auditwheel", ["show", "--json", "--ldpaths="], wheel, _AUDITWHEEL_SECONDS)
    except (OSError, _ToolError) as reason:
        return AuditwheelReport(failure=f"it {reason}")
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    if "couldn't detect libc" in last:
        return AuditwheelReport(skipped="the wheel needs nothing of a C library, and its tag names none")
    return parse_auditwheel(done.stdout, failure=last)


def parse_auditwheel(output: str, *, failure: str) -> AuditwheelReport:
    """Parse auditwheel's JSON; ``failure`` is the reason if it is invalid."""
    try:
        document = json_of(output)
    except ValueError:
        return AuditwheelReport(failure=failure)
    if document.get("version") != 1 or "overall_tag" not in document:
        return AuditwheelReport(failure=" ".join(str(document.get("error", failure)).split()))
    libraries: dict[str, tuple[str, ...]] = {}
    symbols: dict[str, tuple[str, ...]] = {}
    for tag, policy in document["policy_upgrades"].items():
        libraries[tag] = tuple(map(str, policy.get("libs_to_eliminate") or ()))
        forbidden = policy.get("blacklisted_symbols") or {}
        symbols[tag] = tuple(f"{library}:{name}" for library, names in forbidden.items() for name in names)
    broken = ", ".join(text for key, text in _BROKEN.items() if document[key])
    return AuditwheelReport(document["overall_tag"], document["sym_tag"], broken, libraries, symbols)


def _run_and_parse(module: str, arguments: list[str], wheel: Path, parse: Callable[[str], ToolResult]) -> ToolResult:
    name = module.replace("_", "-")
    if find_spec(module) is None:
        return ToolResult(failure=f"{name} is not installed", hint=_INSTALL, is_absent=True)
    try:
        done = _run(module, arguments, wheel, _SECONDS)
        # If stdout is empty, stderr has the reason.
        return parse(done.stdout or done.stderr)
    except _ToolError as reason:
        return ToolResult(failure=f"{name} {reason}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        return ToolResult(failure=f"{name} failed: {reason}")


def _run(module: str, arguments: list[str], wheel: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run ``python -m MODULE ARGUMENTS WHEEL``. Raises _ToolError over a limit, OSError if it does not start."""
    # -P: nothing in the working folder is imported.
    command = [sys.executable, "-P", "-m", module, *arguments, str(wheel.absolute())]
    try:
        done = subprocess.run(
            command,
            env=clean_environment(os.environ),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _ToolError(f"took more than {seconds:.0f} seconds") from error
    if limit := exceeded_limit(done):
        raise _ToolError(limit)
    return done


def exceeded_limit(done: subprocess.CompletedProcess[str]) -> str:
    """Return which limit, inherited from this process, ended a tool; empty for none."""
    if sys.platform != "win32" and done.returncode == -signal.SIGXCPU:
        return "took more CPU time than the size of the wheel allows"
    if done.returncode and "MemoryError" in done.stderr:
        return "took more memory than the size of the wheel allows"
    return ""

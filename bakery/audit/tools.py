"""What other tools say of a wheel: abi3audit and check-wheel-contents, in processes of their own, and readme-renderer.

The first two are no libraries with a stable interface. abi3audit writes JSON; the others write lines that have been the
same for years, and whatever cannot be read is a failure of the tool, never a verdict on the wheel. None of them
needs a network for a file that lies here.
"""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_TIMEOUT = 900.0
_VERSIONED = ("auditwheel", "abi3audit", "abi3info", "check-wheel-contents", "readme-renderer", "docutils")
_CONTENTS_LINE = re.compile(r"(W\d{3}): (.*?):?")


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that a tool found.

    Attributes:
        code: the tool's own name for it: ``W005``, ``not-abi3``.
        text: one sentence.
        files: what it is about: paths inside the wheel.
    """

    code: str
    text: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool said.

    Attributes:
        remarks: what it found.
        failure: why it has no verdict; empty if it has one, or was not asked.
    """

    remarks: tuple[Remark, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """What each of the tools said; one that was not asked said nothing."""

    abi3: Answer = Answer()
    contents: Answer = Answer()
    readme: Answer = Answer()


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return the tools that an audit's outcome depends on, with their versions; empty for one that is missing."""

    def of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return ""

    return tuple((name, of(name)) for name in _VERSIONED)


def ask_tools(wheel: Path, *, stable_abi: str = "", restructured: str = "") -> Answers:
    """Ask the tools about the wheel at ``wheel``, all at once.

    Args:
        stable_abi: the oldest Python, as ``3.9``, that its modules for the stable ABI load in; empty if it has none.
        restructured: its description, if the rendering of that can fail.
    """
    with ThreadPoolExecutor() as pool:
        contents = pool.submit(ask_contents, wheel)
        abi3 = pool.submit(ask_abi3, wheel, stable_abi) if stable_abi else None
        readme = pool.submit(ask_readme, restructured) if restructured else None
        return Answers(abi3.result() if abi3 else Answer(), contents.result(), readme.result() if readme else Answer())


def ask_abi3(wheel: Path, oldest: str) -> Answer:
    """Ask abi3audit whether the modules use more of Python than the stable ABI of ``oldest``."""
    return _ask("abi3audit", ["--report", "--assume-minimum-abi3", oldest], wheel, read_abi3)


def ask_contents(wheel: Path) -> Answer:
    """Ask check-wheel-contents about the files; no configuration of the current folder counts."""
    return _ask("check_wheel_contents", ["--no-config"], wheel, lambda output: read_contents(output, wheel))


def ask_readme(description: str) -> Answer:
    """Render a description in reStructuredText as PyPI does."""
    try:
        from readme_renderer import rst
    except ImportError:
        return Answer(failure="readme-renderer is not installed")
    problems = io.StringIO()
    try:
        rendered = rst.render(description, stream=problems)
    except MemoryError:
        raise
    except Exception as reason:  # whatever a hostile text makes docutils stumble over
        return Answer(failure=f"readme-renderer failed: {type(reason).__name__}")
    first = next((line.strip() for line in problems.getvalue().splitlines() if line.strip()), "no reason given")
    return Answer() if rendered else Answer((Remark("render", first),))


def read_abi3(output: str) -> Answer:
    """Read abi3audit's report.

    Raises:
        ValueError: it is none.
    """
    remarks: list[Remark] = []
    for spec in json.loads(output)["specs"].values():
        for item in spec["wheel"]:
            name, result = item["name"], item["result"]
            if found := sorted(set(result["non_abi3_symbols"])):
                remarks.append(Remark("not-abi3", f"uses {_listed(found)}, not part of the stable ABI", (name,)))
            if later := sorted(f"{symbol} ({since})" for symbol, since in result["future_abi3_objects"].items()):
                baseline = result["baseline"]
                remarks.append(
                    Remark("newer-abi3", f"uses {_listed(later)}, newer than the stable ABI of {baseline}", (name,))
                )
    return Answer(tuple(remarks))


def read_contents(output: str, wheel: Path) -> Answer:
    """Read check-wheel-contents' lines: ``WHEEL: CODE: text:`` and the files below, each behind two blanks.

    Raises:
        ValueError: these are others.
    """
    remarks: list[tuple[str, str, list[str]]] = []
    for line in output.splitlines():
        said = line.removeprefix(f"{wheel.absolute()}: ")
        if said != line and (match := _CONTENTS_LINE.fullmatch(said)):
            remarks.append((match[1], match[2], []))
        elif line.startswith("  ") and remarks:
            remarks[-1][2].append(line[2:])
        elif said != "OK":
            raise ValueError(line)
    if not output.strip():
        raise ValueError("it wrote nothing")
    return Answer(tuple(Remark(code, text, tuple(files)) for code, text, files in remarks))


def _ask(module: str, arguments: list[str], wheel: Path, read: Callable[[str], Answer]) -> Answer:
    """Run ``python -m MODULE ARGUMENTS WHEEL`` and read what it writes."""
    if find_spec(module) is None:
        return Answer(failure=f"{module.replace('_', '-')} is not installed")
    # -P: nothing in the working folder is imported.
    command = [sys.executable, "-P", "-m", module, *arguments, str(wheel.absolute())]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_TIMEOUT, check=False
        )
        if reason := stopped(done):
            return Answer(failure=f"{module.replace('_', '-')} {reason}")
        # They write only verdicts to stdout; an empty one says why in stderr.
        return read(done.stdout or done.stderr)
    except subprocess.TimeoutExpired:
        return Answer(failure=f"{module.replace('_', '-')} took more than {_TIMEOUT:.0f} seconds")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        return Answer(failure=f"{module.replace('_', '-')} failed: {reason}")


def stopped(done: subprocess.CompletedProcess[str]) -> str:
    """Return which limit ended a tool, which has those of the process that asks it; empty for none."""
    if sys.platform != "win32" and done.returncode == -signal.SIGXCPU:
        return "took more CPU time than the audit of a wheel of its size may take"
    if done.returncode and "MemoryError" in done.stderr:
        return "took more memory than the audit of a wheel of its size may take"
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

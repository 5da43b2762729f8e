"""Plan → configurations of cibuildwheel, and the programs that they call.

cibuildwheel knows Python and platform; each combination of other axes has its own configuration. Options that all cells
share are written once, others in overrides that select cells by their identifiers.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

from bakery.core.cell_ids import IDENTIFIERS, MACHINES, axis_tags, python_tag
from bakery.core.names import SYSTEMS, with_derived
from bakery.plan.cells import Cell
from bakery.plan.delivery import Naming
from bakery.plan.model import Plan
from bakery.plan.values import Value, substitute
from bakery.toolchains import programs as scripts

FOLDER = "cibuildwheel"
"""The folder of the committed files."""

DEFAULT_IMAGE = "manylinux_2_28"
"""PyPA's image, for recipes whose base cibuildwheel cannot use."""

_HEAD = """\
# Written by `wheel-bakery generate` from {}; edits are lost.
# cibuildwheel --config-file THIS_FILE PACKAGE builds the same wheels on Linux, macOS and Windows;
# `wheel-bakery wheel` runs it, audits the wheels, and publishes them to the output folder.

"""

_COPY = (
    'python -c "import os, shutil, sys; os.makedirs(sys.argv[2]); shutil.copy(sys.argv[1], sys.argv[2])" '
    "{wheel} {dest_dir}/repaired"
)
"""Copies a wheel without repair to the folder where it is finished."""

_QUOTED = r"""(?:[^|&;"'\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*"""
_OPERATOR_OF_SH = re.compile(rf"{_QUOTED}[|&;]")
_OPERATOR_OF_CMD = re.compile(r'[^|&"]*(?:"[^"]*"[^|&"]*)*[|&]')
"""Commands with an operator of the shell outside of quotes."""

_WILDCARD = re.compile(r"\[\]?[^\]]*\]|[*?]")

Toml = str | bool | list[str] | dict[str, str] | dict[str, str | list[str]]
Options = dict[str, Toml]


def identifier(cell: Cell) -> str:
    """Return the identifier of a cell in cibuildwheel, such as ``cp312-macosx_arm64``."""
    system = IDENTIFIERS[cell.platform]
    return f"{python_tag(cell.axes['python'])}-{system.replace('manylinux', 'musllinux') if cell.is_musl else system}"


def variants(plan: Plan) -> dict[str, tuple[Cell, ...]]:
    """Return the name of each configuration → its cells, Linux first."""
    cells = (*plan.cells, *plan.cibuildwheel_cells)
    axes = [axis for axis in cells[0].axes if axis not in ("python", "platform")]
    values = {axis: list(dict.fromkeys(cell.axes[axis] for cell in cells)) for axis in axes}
    varying = {axis: axis_tags(axis, some, long=True) for axis, some in values.items() if some[1:]}
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        tags = [names[cell.axes[axis]] for axis, names in varying.items()]
        groups.setdefault("-".join((plan.recipe, *tags)) + cell.own, []).append(cell)
    return {name: tuple(group) for name, group in groups.items()}


def configurations(plan: Plan, folder: str = FOLDER) -> dict[str, str]:
    """Return path → text of every configuration, and of the programs that they call.

    ``folder`` has these files; it is relative to the folder that cibuildwheel runs in.
    """
    texts = {f"{folder}/{name}.toml": _configuration(plan, cells, folder) for name, cells in variants(plan).items()}
    return texts | {f"{folder}/{name}": scripts.text(name) for name in programs(plan)}


def options_of(plan: Plan, cell: Cell, folder: str = FOLDER) -> Options:
    """Return the options of one cell, with its image on Linux; ``folder`` as for `configurations`."""
    return _Options(plan, cell, folder).all()


def programs(plan: Plan) -> Sequence[str]:
    """Return the scripts of `bakery.toolchains.programs` that the configurations call."""
    plans = [plan.of(cells[0]) for cells in variants(plan).values()]
    called = {
        "smoke.py": any(item.cibuildwheel.load or item.facts.test_imports for item in plans),
        "steps.py": any(item.cibuildwheel.requirements or item.facts.test_files or _lacks_pip(item) for item in plans),
        "finish.py": any(map(_finishes, plans)),
        "install-packages": any(item.cibuildwheel.system_packages for item in plans),
    }
    return [name for name, is_called in called.items() if is_called]


def _finishes(plan: Plan) -> bool:
    return bool(plan.audit.requires) or plan.audit.namings[0] != Naming(index=plan.audit.namings[0].index)


def _lacks_pip(plan: Plan) -> bool:
    """Whether the last step of the repair needs a package, and uv made the environment, which then has no pip."""
    return _finishes(plan) and plan.cibuildwheel.frontend == "uv"


def _configuration(plan: Plan, cells: tuple[Cell, ...], folder: str) -> str:
    import tomli_w

    options = {identifier(cell): options_of(plan, cell, folder) for cell in cells}
    table: dict[str, Toml | Options | list[Options]] = {"build": list(options), "skip": "", "archs": ["all"]}
    images = _take_images(options)
    table |= _take_shared(options)
    for system in SYSTEMS:
        names = [identifier(cell) for cell in cells if cell.platform.startswith(system)]
        shared = _take_shared({name: options[name] for name in names})
        if system == "linux" and any(cell.images for cell in cells):
            # By default, cibuildwheel mounts the machine's / into the container.
            shared["container-engine"] = "docker; disable_host_mount: true"
        if of_system := shared | (images if system == "linux" else {}):
            table[system] = of_system
    overrides: list[tuple[list[str], Options]] = []
    for name, rest in options.items():
        alike = next((names for names, others in overrides if others == rest), None)
        if alike is not None:
            alike.append(name)
        elif rest:
            overrides.append(([name], rest))
    if overrides:
        table["overrides"] = [{"select": names, **rest} for names, rest in overrides]
    return _HEAD.format(plan.source_file) + tomli_w.dumps({"tool": {"cibuildwheel": table}}, indent=2)


def _take_shared(options: Mapping[str, Options]) -> Options:
    """Return the options that all cells share, and remove these from ``options``."""
    if not options:
        return {}
    first, *others = options.values()
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    for item in options.values():
        for key in shared:
            del item[key]
    return shared


def _take_images(options: Mapping[str, Options]) -> Options:
    """Return the images that all cells of their machine and C library share, and remove these from ``options``."""
    shared: Options = {}
    for key in sorted({key for item in options.values() for key in item if key.endswith("-image")}, reverse=True):
        own = [item for item in options.values() if key in item]
        if all(item[key] == own[0][key] for item in own):
            shared[key] = own[0][key]
            for item in own:
                del item[key]
    return shared


class _Options:
    """The options of one cell."""

    def __init__(self, plan: Plan, cell: Cell, folder: str) -> None:
        self._plan, self._cell = plan.of(cell), cell
        self._settings = self._plan.cibuildwheel
        self._values = with_derived(plan.args_of(cell))
        self._folder = "{project}/" + folder
        self._system = cell.platform.partition("/")[0]

    def all(self) -> Options:
        """Return the options that are set, in the order of cibuildwheel's documentation."""
        isolated = not self._settings.requirements
        name = "build[uv]" if self._settings.frontend == "uv" else "build"
        without_isolation: dict[str, str | list[str]] = {"name": name, "args": ["--no-isolation"]}
        options: Options = {
            "build-frontend": name if isolated else without_isolation,
            "config-settings": self._config_settings(),
            "environment": {key: _escaped(self._of(value)) for key, value in self._settings.environment[self._system]},
            "before-all": self._before_all(),
            "before-build": self._before_build(),
            "repair-wheel-command": self._repair(),
            "test-requires": [self._of(value) for value in self._settings.test_requirements],
            "test-command": self._test(),
            **self._image(),
        }
        return {key: value or "" for key, value in options.items() if value or key == "repair-wheel-command"}

    def _image(self) -> Options:
        """Return the option with the container for Linux: the recipe's base, or PyPA's image."""
        if self._system != "linux":
            return {}
        image, kind = self._cell.images[0], "musllinux" if self._cell.is_musl else "manylinux"
        # A Debian image has a suite, and cibuildwheel cannot use it.
        return {f"{kind}-{MACHINES[self._cell.platform]}-image": DEFAULT_IMAGE if image.suite else image.ref}

    def _config_settings(self) -> dict[str, str | list[str]]:
        texts: dict[str, list[str]] = {}
        for key, value in self._plan.facts.config_settings:
            texts.setdefault(key, []).append(self._of(value))
        return {key: items if items[1:] else items[0] for key, items in texts.items()}

    def _of(self, value: Value) -> str:
        return substitute(value, self._values)

    def _before_all(self) -> str:
        if self._system == "linux" and self._settings.system_packages:
            return f"sh {self._folder}/install-packages {shlex.join(self._settings.system_packages)}"
        return self._of(self._settings.before_all[self._system])

    @property
    def _source(self) -> str:
        """The top of the source, which files and commands of the recipe are relative to."""
        up = posixpath.relpath(".", self._plan.facts.subdirectory)
        return "{package}" if up == "." else f"{{package}}/{up}"

    def _before_build(self) -> list[str]:
        requirements = [self._quoted(self._of(value)) for value in self._settings.requirements]
        prepare = (
            [" ".join(["python", f"{self._folder}/steps.py", "prepare", "{package}", *requirements])]
            if requirements
            else []
        )
        command = self._plan.facts.before_build if self._system == "linux" else ""
        # The shell itself replaces ${NAME} in the command, as in a bake; all that it needs is the variable.
        given = (f"{name}={shlex.quote(self._values[name])}" for name in self._settings.before_build_variables)
        ours = [f"cd {self._source} && {' '.join([*given, 'sh', '-ec', shlex.quote(command)])}"] if command else []
        by = f"{self._folder}/steps.py" if _lacks_pip(self._plan) else "-m pip"
        return [*ours, *prepare, *([f"python {by} install wheel"] if _finishes(self._plan) else [])]

    def _repair(self) -> list[str]:
        if not _finishes(self._plan):
            return self._repaired("{dest_dir}")
        words = ["python", f"{self._folder}/finish.py", "{dest_dir}/repaired", "{dest_dir}", "--no-repair"]
        for requirement in self._plan.audit.requires:
            words += ["--require", self._quoted(self._of(requirement))]
        words += ["--name", self._quoted(self._of(self._plan.audit.namings[0].words))]
        return [*(self._repaired("{dest_dir}/repaired") or [_COPY]), " ".join(words)]

    def _repaired(self, folder: str) -> list[str]:
        audit = self._plan.audit
        if not audit.repaired:
            return []
        excluded = {
            "linux": [glob for glob in audit.excludes if not glob.endswith((".dll", ".dylib"))],
            "macos": [_longest_literal(glob) for glob in audit.excludes if glob.endswith(".dylib")],
            "windows": [glob for glob in audit.excludes if glob.lower().endswith(".dll")],
        }[self._system]
        excludes = [word for item in excluded for word in ("--exclude", self._quoted(item))]
        if self._system == "macos":
            words = ["delocate-wheel", "--require-archs", "{delocate_archs}", *excludes]
            return [" ".join([*words, "-w", folder, "-v", "{wheel}"])]
        if self._system == "windows":
            joined = ["--exclude", self._quoted(";".join(excluded))] if excluded else []
            return [" ".join(["delvewheel", "repair", *joined, "-w", folder, "-v", "{wheel}"])]
        words = ["auditwheel", "repair", *excludes, *(["--strip"] if audit.stripped else [])]
        if audit.plat != "auto":
            words += ["--plat", f"{audit.plat}_{MACHINES[self._cell.platform]}"]
        return [" ".join([*words, "-w", folder, "{wheel}"])]

    def _test(self) -> list[str]:
        """Return the commands of the test: the same steps as in the test stage, in the same order."""
        smoke = ["python", f"{self._folder}/smoke.py", "{wheel}"]
        # On Windows a module finds its libraries only after its package, when imported, has registered their folders.
        smoke += ["--load"] if self._settings.load and self._system != "windows" else []
        smoke += [word for module in self._plan.facts.test_imports for word in ("--import", module)]
        # On Linux, the command of a test with a GPU is that of `wheel-bakery gpu-test`.
        given = () if self._settings.test_gpu and self._system == "linux" else self._settings.test_command[self._system]
        command = self._of(given).strip()
        files = [self._quoted(item) for item in self._plan.facts.test_files] if command else []
        take = ["python", f"{self._folder}/steps.py", "take", self._source, *files]
        before = [*([" ".join(smoke)] if len(smoke) > 3 else []), *([" ".join(take)] if files else [])]
        return self._after(before, command) if command else before

    def _after(self, steps: list[str], command: str) -> list[str]:
        """Return the steps and the recipe's command, which is run only after steps that passed.

        cibuildwheel joins them with ``&&`` for one shell, where ``||`` of the command would also follow a failed step.
        """
        windows = self._system == "windows"
        if not steps or not (_OPERATOR_OF_CMD if windows else _OPERATOR_OF_SH).match(command):
            return [*steps, command]
        if windows:
            # To cmd.exe, & is the weakest of its operators.
            return [" & ".join([*(f"{step} || exit 1" for step in steps), command])]
        return [*steps, f"sh -c {shlex.quote(command)}"]

    def _quoted(self, word: str) -> str:
        """Return a word quoted for the shell of this system."""
        # cmd.exe has no escape for a double quote in quotes; markers of requirements, which have some, take both.
        return '"' + word.replace('"', "'") + '"' if self._system == "windows" else shlex.quote(word)


def _longest_literal(glob: str) -> str:
    """Return the text by which delocate excludes libraries: their path contains it. Of a glob, its longest literal part."""
    ending = ".dylib"
    return max((part for part in _WILDCARD.split(glob) if part not in ("", ending)), key=len, default=ending)


def _escaped(text: str) -> str:
    """Escape a value of the environment, which cibuildwheel reads like bash reads text in double quotes."""
    return "".join(f"\\{char}" if char in '\\"$`' else char for char in text)

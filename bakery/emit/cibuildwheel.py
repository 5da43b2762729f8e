"""Plan → configurations of cibuildwheel, and the programs that they call.

cibuildwheel knows Python and platform; each combination of other axes has its own configuration. Options that all cells
share are written once, others in overrides that select cells by their identifiers.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence

from bakery.core.cell_ids import IDENTIFIERS, MACHINES, axis_tag, python_tag
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
    varying = [axis for axis in axes if len({cell.axes[axis] for cell in cells}) > 1]
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        tags = [axis_tag(axis, cell.axes[axis], short=False) for axis in varying]
        groups.setdefault("-".join((plan.recipe, *tags)) + cell.own, []).append(cell)
    return {name: tuple(group) for name, group in groups.items()}


def configurations(plan: Plan, folder: str = FOLDER) -> dict[str, str]:
    """Return path → text of every configuration, and of the programs that they call.

    ``folder`` has these files; it is relative to the folder that cibuildwheel runs in.
    """
    texts = {f"{folder}/{name}.toml": _configuration(plan, cells, folder) for name, cells in variants(plan).items()}
    return texts | {f"{folder}/{name}": scripts.text(name) for name in programs(plan)}


def options_of(plan: Plan, cell: Cell, folder: str = FOLDER) -> Options:
    """Return the options of one cell, without images; ``folder`` as for `configurations`."""
    return _Options(plan, cell, folder).all()


def programs(plan: Plan) -> Sequence[str]:
    """Return the scripts of `bakery.toolchains.programs` that the configurations call."""
    plans = [plan.of(cells[0]) for cells in variants(plan).values()]
    called = {
        "smoke.py": any(item.cibuildwheel.load or item.facts.test_imports for item in plans),
        "steps.py": any(item.cibuildwheel.requirements or item.facts.test_files for item in plans),
        "finish.py": any(map(_finishes, plans)),
        "install-packages": any(item.cibuildwheel.system_packages for item in plans),
    }
    return [name for name, is_called in called.items() if is_called]


def _finishes(plan: Plan) -> bool:
    return bool(plan.audit.requires) or plan.audit.namings[0] != Naming(index=plan.audit.namings[0].index)


def _configuration(plan: Plan, cells: tuple[Cell, ...], folder: str) -> str:
    import tomli_w

    options = {identifier(cell): options_of(plan, cell, folder) for cell in cells}
    table: dict[str, Toml | Options | list[Options]] = {"build": list(options), "skip": "", "archs": ["all"]}
    table |= _take_shared(options)
    for system in SYSTEMS:
        names = [identifier(cell) for cell in cells if cell.platform.startswith(system)]
        shared = _take_shared({name: options[name] for name in names})
        if of_system := shared | (_images(cells) if system == "linux" else {}):
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


def _images(cells: tuple[Cell, ...]) -> Options:
    """Return the options of the containers for Linux: on the recipe's base, or PyPA's image."""
    options: Options = {}
    if any(cell.images for cell in cells):
        # By default, cibuildwheel mounts the machine's / into the container.
        options["container-engine"] = "docker; disable_host_mount: true"
    for platform in ("linux/amd64", "linux/arm64"):
        # A Debian image has a suite, and cibuildwheel cannot use it.
        if first := next((cell for cell in cells if cell.platform == platform), None):
            image = first.images[0]
            kind = "musllinux" if first.is_musl else "manylinux"
            options[f"{kind}-{MACHINES[platform]}-image"] = DEFAULT_IMAGE if image.suite else image.ref
    return options


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
        }
        return {key: value or "" for key, value in options.items() if value or key == "repair-wheel-command"}

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
        return self._settings.before_all[self._system]

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
        ours = [f"cd {self._source} && sh -ec {shlex.quote(command)}"] if command else []
        return [*ours, *prepare, *(["python -m pip install wheel"] if _finishes(self._plan) else [])]

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
            # delocate excludes libraries whose path contains the text.
            "macos": [glob.partition("*")[0] for glob in audit.excludes if glob.endswith(".dylib")],
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
        command = self._of(self._settings.test_command[self._system]).strip()
        files = [self._quoted(item) for item in self._plan.facts.test_files] if command else []
        take = ["python", f"{self._folder}/steps.py", "take", self._source, *files]
        return [
            *([" ".join(smoke)] if len(smoke) > 3 else []),
            *([" ".join(take)] if files else []),
            *([command] if command else []),
        ]

    def _quoted(self, word: str) -> str:
        """Return a word quoted for the shell of this system."""
        return f'"{word}"' if self._system == "windows" else shlex.quote(word)


def _escaped(text: str) -> str:
    """Escape a value of the environment, which cibuildwheel reads like bash reads text in double quotes."""
    return "".join(f"\\{char}" if char in '\\"$`' else char for char in text)

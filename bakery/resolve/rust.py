"""Rust: the toolchain of the builder, and the crates of the project, fetched before the step that compiles.

::

    toolkit ─ rust ┬ builder …
                   └ crates (Cargo.lock) ─ mounted by compile

Stage ``project`` reads the source; stages ``rust`` and ``crates`` see what it found, and not the source. So they run
again only if manifests or lock files change, and no configuration of the project reaches the step with the network.
"""

from __future__ import annotations

from bakery.plan.dockerfile import Command, Mount, Role, Run, Script, Stage
from bakery.plan.values import Value, literal
from bakery.resolve.base_stages import Lines
from bakery.resolve.references import parse_table
from bakery.resolve.stage_inputs import StageInputs, literals, toolkit_stage, with_args
from bakery.toolchains import program_mounts
from bakery.toolchains.pip_steps import CERTIFICATES, NET, TOOLS

PROJECT = "/requires/cargo"
"""The folder of stage ``project`` with what `cargo_project.py` found."""

_RUST, _CRATES = "rust", "crates"
_PYTHON = f"{TOOLS}/bin/python"
_HOME = "/crates"
_CACHE = "/var/cache/cargo"
DIST_SERVER = "RUSTUP_DIST_SERVER"


def read_project(inputs: StageInputs) -> tuple[Script, ...]:
    """Return the command that reads which Rust and which crates the source needs; none for a recipe without Rust."""
    rust = inputs.recipe.builder.rust
    program = program_mounts.path("cargo_project.py")
    return (Script(f"{_PYTHON} {program} {inputs.package} {rust} {PROJECT}"),) if rust else ()


def below_builder(inputs: StageInputs, lines: Lines) -> str:
    """Return the stage that the builder starts from."""
    if inputs.recipe.builder.rust:
        return _RUST
    return lines.packages.base if inputs.native_python else toolkit_stage(inputs)


def rust_stages(inputs: StageInputs, lines: Lines) -> tuple[Stage, ...]:
    """Return the stages of the toolchain and of the crates; none for a recipe without Rust."""
    builder = inputs.recipe.builder
    if not builder.rust:
        return ()
    base = lines.packages.base if inputs.native_python else toolkit_stage(inputs)
    wanted = f"{PROJECT}/rust"
    install = Command(
        literals(NET, _PYTHON, program_mounts.path("rust.py"), wanted),
        tuple(item for item in parse_table(builder.environment) if item[0] == DIST_SERVER),
    )
    mounts = (Mount("bind", wanted, source=wanted, from_="project"), *CERTIFICATES)
    about = "The Rust that recipe or project ask for."
    run = Run((install,), mounts, Role.RUST)
    rust = with_args(Stage(_RUST, literal(base), (run,), about, Role.RUST, "toolkit Rust"))
    if builder.network:
        return (rust,)
    fetch = Run(
        (Command(literals(NET, "vendor-crates", PROJECT, _CACHE)),),
        (
            Mount("bind", PROJECT, source=PROJECT, from_="project"),
            # Two cargos must not write there at once, and each has a lock file of its own.
            Mount("cache", _CACHE, id="bakery-cargo", sharing="locked"),
            *CERTIFICATES,
            Mount("secret", "", id="cargo-config"),
        ),
        Role.RUST,
    )
    return (rust, Stage(_CRATES, literal(_RUST), (fetch,), "The crates of Cargo.lock.", Role.RUST, "fetch Rust crates"))


def crates_mounts(inputs: StageInputs) -> tuple[Mount, ...]:
    """Return the mounts of the step that compiles: its CARGO_HOME."""
    if not inputs.recipe.builder.rust or inputs.recipe.builder.network:
        return ()
    return (Mount("bind", _HOME, source=_HOME, from_=_CRATES, writable=True),)


def cargo_environment(inputs: StageInputs) -> tuple[tuple[str, Value], ...]:
    """Return the variables of the step that compiles."""
    if not crates_mounts(inputs):
        return ()
    return (("CARGO_HOME", literal(_HOME)), ("CARGO_NET_OFFLINE", literal("true")))

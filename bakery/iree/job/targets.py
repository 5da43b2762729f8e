"""Targets of the pinned compiler, by name."""

from __future__ import annotations

from functools import cache

from bakery.iree.plan import ModuleTarget
from bakery.recipe.problems import nearest, one_of, shorten
from bakery.toolchains import facts


class UnknownTarget(Exception):
    """A name is not a target; ``fix`` says what to write."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


@cache
def all_targets() -> dict[str, ModuleTarget]:
    """Return name → target, in the order of the facts."""
    targets = {}
    for row in facts.iree_targets():
        for architecture in row.names or ("",):
            name = ":".join(part for part in (row.backend, architecture and row.prefix + architecture) if part)
            targets[name] = ModuleTarget(
                name=name,
                backend=row.backend,
                architecture=row.architecture or architecture.partition(":")[0],
                machine=row.machine,
                device=row.device,
                flags=tuple(flag.replace("{}", architecture) for flag in row.flags),
                is_local=row.is_local,
            )
    return targets


def target(text: str) -> ModuleTarget:
    """Return the target of a name.

    Raises:
        UnknownTarget: the compiler would refuse it, or crash.
    """
    names = all_targets()
    if text in names:
        return names[text]
    shown = shorten(text)
    for row in facts.iree_refused():
        if text in row.names or f"cuda:{text}" in row.names:
            raise UnknownTarget(f"target '{shown}': {row.why}", f"write one of: {one_of(row.instead)}")
    backends = dict.fromkeys(name.partition(":")[0] for name in names)
    backend, _, architecture = text.partition(":")
    if "," in text:
        raise UnknownTarget(f"target '{shown}' is a list; write each target separately", _several(text))
    if backend in backends and not architecture:
        some = next(name for name in names if name.startswith(f"{backend}:"))
        raise UnknownTarget(f"target '{shown}' names no {_DEVICES[backend]}", f"write one such as {some}")
    if backend not in backends:
        guess = nearest(text, [*names, *(name.partition(":")[2] for name in names)])
        match = guess if guess in names else next((name for name in names if guess and name.endswith(f":{guess}")), "")
        fix = f"write {match}" if match else f"expected one of {', '.join(backends)}, such as {next(iter(names))}"
        raise UnknownTarget(f"unknown target '{shown}'" + (f"; did you mean {match!r}?" if match else ""), fix)
    others = [name for name in names if name.startswith(f"{backend}:")]
    close = nearest(text, others, 0.5)
    what = f"unknown target '{shown}'" + (f"; did you mean {close!r}?" if close else "")
    raise UnknownTarget(what, f"write {close}; targets: {one_of(others)}" if close else f"targets: {one_of(others)}")


_DEVICES = {"cpu": "CPU", "cuda": "architecture", "rocm": "architecture"}


def _several(text: str) -> str:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    backend = parts[0].partition(":")[0] if parts else ""
    full = [part if ":" in part else f"{backend}:{part}" for part in parts]
    return " ".join(f"--target {shorten(part)}" for part in full[:8])

"""Registers QEMU with the kernel, so that this machine can run programs of another architecture.

The registration lasts until the next boot and holds for all containers and programs of the machine. QEMU comes from
Debian's static programs, unpacked into the cache folder. The kernel keeps it open (flag F): containers need no file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bakery.core.cell_ids import MACHINES
from bakery.core.errors import UnavailableError
from bakery.engine import debian_packages
from bakery.engine.debian_packages import Bundle, Progress
from bakery.engine.host import run_tool
from bakery.engine.paths import engine_paths

BINFMT = Path("/proc/sys/fs/binfmt_misc")
"""The kernel's list of interpreters for other program formats."""

BUNDLE = Bundle(name="qemu", packages=("qemu-user-static",))
HINT = (
    "install qemu-user-static and binfmt-support; with access to an image registry: "
    "`docker run --privileged --rm tonistiigi/binfmt --install all`"
)

_EMULATORS = tuple(f"qemu-{machine}" for machine in MACHINES.values())


def emulated(platform: str) -> bool:
    """Whether the kernel runs programs of a platform with QEMU."""
    return (BINFMT / f"qemu-{MACHINES[platform]}").exists()


def enable(platform: str, progress: Progress) -> bool:
    """Register an emulator for a platform; return False if there is nothing to do.

    Raises UnavailableError without root, Debian or binfmt_misc; OSError if the cache cannot be written.
    """
    if platform.partition("/")[2] == debian_packages.architecture() or emulated(platform):
        return False
    if os.geteuid() != 0:
        raise UnavailableError(f"registering an emulator for {platform} needs root", hint=f"as root, {HINT}")
    try:
        folder = debian_packages.unpack_bundle(engine_paths(), BUNDLE, progress, lambda root, _: _trim(root))
    except UnavailableError as error:
        raise UnavailableError(error.message, hint=HINT, details=error.details) from error
    if not (BINFMT / "register").exists():
        errors = run_tool(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)])
        if errors is not None:
            raise UnavailableError("this kernel has no binfmt_misc", hint=HINT, details=errors)
    name = f"qemu-{MACHINES[platform]}"
    progress(f"registering {name} with the kernel")
    try:
        (BINFMT / "register").write_text(registration((folder / f"usr/lib/binfmt.d/{name}.conf").read_text(), folder))
    except OSError as error:
        raise UnavailableError(f"the kernel does not accept an emulator: {error}", hint=HINT) from error
    return True


def registration(text: str, folder: Path) -> str:
    """Return a line of binfmt.d(5), with the interpreter below ``folder``.

    Raises UnavailableError if the kernel would not keep the interpreter open, so containers could not find it.
    """
    line = text.strip()
    *head, interpreter, flags = line.rsplit(":", 2)
    if "F" not in flags or not interpreter.startswith("/"):
        raise UnavailableError(f"cannot use this registration of QEMU: {line}", hint=HINT)
    return ":".join([*head, f"{folder}{interpreter}", flags])


def _trim(root: Path) -> None:
    """Keep only the emulators of bakery's platforms: there are 35, of 10 MB each."""
    for path in (root / "usr/bin").iterdir():
        if path.name.removesuffix("-static") not in _EMULATORS:
            path.unlink()
    shutil.rmtree(root / "usr/share", ignore_errors=True)

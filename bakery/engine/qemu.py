"""Programs of another architecture on this machine: QEMU, registered with the kernel.

The kernel keeps the registration until it restarts, for every container and program of the machine. QEMU comes from
Debian's package of static programs, unpacked into the cache folder; the kernel holds it open (flag F), so containers
need no file of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bakery.core.errors import UnavailableError
from bakery.core.names import MACHINES
from bakery.engine import debian_packages
from bakery.engine.debian_packages import Bundle, Progress
from bakery.engine.paths import places

BINFMT = Path("/proc/sys/fs/binfmt_misc")
"""Where the kernel lists what it starts programs of other formats with."""

BUNDLE = Bundle(name="qemu", own=("qemu-user-static",))
HINT = (
    "install qemu-user-static and binfmt-support; where an image registry is in reach: "
    "`docker run --privileged --rm tonistiigi/binfmt --install all`"
)

_KEPT = tuple(f"qemu-{machine}" for machine in MACHINES.values())


def emulated(platform: str) -> bool:
    """Whether the kernel starts programs of a platform by QEMU."""
    return (BINFMT / f"qemu-{MACHINES[platform]}").exists()


def enable(platform: str, progress: Progress) -> bool:
    """Let this machine run programs of a platform; say whether anything had to be done.

    Args:
        platform: in Docker's spelling, one of MACHINES.
        progress: told each step.

    Raises:
        UnavailableError: it cannot be done here: not root, no Debian, or a kernel without binfmt_misc.
        OSError: the cache cannot be written.
    """
    if platform.partition("/")[2] == debian_packages.architecture() or emulated(platform):
        return False
    if os.geteuid() != 0:
        raise UnavailableError(f"registering an emulator for {platform} needs root", hint=f"as root, {HINT}")
    try:
        folder = debian_packages.unpack_bundle(places(), BUNDLE, progress, lambda root, _: _trim(root))
    except UnavailableError as error:
        raise UnavailableError(error.message, hint=HINT, details=error.details) from error
    _mount()
    name = f"qemu-{MACHINES[platform]}"
    progress(f"registering {name} with the kernel")
    try:
        (BINFMT / "register").write_text(registration((folder / f"usr/lib/binfmt.d/{name}.conf").read_text(), folder))
    except OSError as error:
        raise UnavailableError(f"the kernel does not take an emulator: {error}", hint=HINT) from error
    return True


def registration(text: str, folder: Path) -> str:
    """Return a line of binfmt.d(5), with the interpreter below ``folder``.

    Raises:
        UnavailableError: the kernel would not hold the interpreter open, so that no container found it.
    """
    line = text.strip()
    *head, interpreter, flags = line.rsplit(":", 2)
    if "F" not in flags or not interpreter.startswith("/"):
        raise UnavailableError(f"cannot use this registration of QEMU: {line}", hint=HINT)
    return ":".join([*head, f"{folder}{interpreter}", flags])


def _trim(root: Path) -> None:
    """Keep the emulators of bakery's platforms alone: there are 35, of 10 MB each."""
    for path in (root / "usr/bin").iterdir():
        if path.name.removesuffix("-static") not in _KEPT:
            path.unlink()
    shutil.rmtree(root / "usr/share", ignore_errors=True)


def _mount() -> None:
    """Mount binfmt_misc if nobody has.

    Raises:
        UnavailableError: the kernel has none.
    """
    if (BINFMT / "register").exists():
        return
    command = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError("this kernel has no binfmt_misc", hint=HINT, details=done.stderr.splitlines())

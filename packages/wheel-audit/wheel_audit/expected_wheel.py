"""What a cell of the plan promises about a wheel; the audit needs nothing else to check it."""

from __future__ import annotations

from dataclasses import dataclass

from wheel_audit.symbols import CxxAbi


@dataclass(frozen=True, slots=True)
class ExpectedFolder:
    """What the shared objects in a folder of the wheel must be, where folders are for different CUDA releases.

    Attributes:
        folder: as the source has it, ``src/pkg/cu12``; the wheel's may lack the first names.
        device_archs: exactly the device code that they must have, together; empty for no promise.
        cuda: the CUDA release that they are built for; empty for no promise.
    """

    folder: str
    device_archs: tuple[str, ...] = ()
    cuda: str = ""


def folder_of(path: str, folder: str) -> str:
    """Return the folder of a wheel that a file of it is in, if it is that of the source; else an empty text.

    ``folder`` is as the source has it, ``src/pkg/cu12``; the wheel's may lack the first names.
    """
    names = folder.split("/")
    folders = ("/".join(names[start:]) for start in range(len(names)))
    return next((name for name in folders if path.startswith(f"{name}/")), "")


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files that the build was sent, by their paths in the build context, as git sees them.

    Attributes:
        tracked: path → sha256 of each file that git tracks.
        ignored: the same of files that git ignores, without those that a build made and those that the recipe accepts.
        links: path and target of each link whose target was not sent, though the checkout has it, and the sha256 of
            that; empty for a folder.
    """

    tracked: tuple[tuple[str, str], ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedWheel:
    """What a wheel must be; ``None`` (or empty) means that nothing is promised about it.

    Attributes:
        version: the exact version, local part included.
        python: the Python it must install on: ``3.11``, or ``3.14t`` for a free-threaded one.
        pythons: the other Pythons that a wheel for several must install on.
        abi3: False refuses a stable-ABI wheel, True refuses any other.
        platform: the platform it was built for: ``linux/amd64``, ``linux/arm64``, ….
        max_glibc: the newest glibc it may need, as ``2.28``.
        plat: the platform tag it must install under: ``manylinux_2_28_x86_64``, or an older one.
        excludes: globs of sonames that must not be in the wheel, as given to auditwheel.
        pure: True refuses machine code, False refuses a wheel without any.
        max_size: the largest file, in bytes.
        device_archs: exactly the device code that it must have, as in nvcc's ``code=``: ``sm_90a``, ``compute_90``.
        cuda: the CUDA release that it is built for: ``13.0.3``; only the major is compared. It promises no device code.
        folders: the same for objects in some folders; ``device_archs`` and ``cuda`` are of those outside of them.
        native: a folder of the source with compiled files, of which the wheel must have some; empty for none.
        requires: requirements that METADATA must have: ``torch==2.11.*``, or one that admits this release.
        cxx_abi: libstdc++'s ABI in the torch that it is built for: ``cxx11`` (1) or ``old`` (0).
        torch_abi: the oldest torch whose stable ABI, and nothing else of torch, it uses: ``2.10``.
        stripped: True refuses debug information.
        source: the files of the source that it was built from.
        public_index: PyPI's limit of 100 MiB and its rules for versions and descriptions apply.
    """

    name: str | None = None
    version: str | None = None
    python: str | None = None
    pythons: tuple[str, ...] = ()
    abi3: bool | None = None
    platform: str | None = None
    max_glibc: str | None = None
    plat: str | None = None
    excludes: tuple[str, ...] = ()
    pure: bool | None = None
    max_size: int | None = None
    device_archs: tuple[str, ...] = ()
    cuda: str = ""
    folders: tuple[ExpectedFolder, ...] = ()
    native: str = ""
    requires: tuple[str, ...] = ()
    cxx_abi: CxxAbi = ""
    torch_abi: str = ""
    stripped: bool = False
    public_index: bool = False
    source: SourceFiles | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is promised, as for the wheel of another project."""
        return self == ExpectedWheel()

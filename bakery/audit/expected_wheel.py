"""What the plan's cell promises of a wheel, in words that the audit needs nothing else to judge."""

from __future__ import annotations

from dataclasses import dataclass

from bakery.audit.symbols import CxxAbi


@dataclass(frozen=True, slots=True)
class ExpectedWheel:
    """What a wheel must be; ``None`` (or empty) means that nothing is promised about it.

    Attributes:
        name: the project's name; compared in its normalised form.
        version: the exact version, local part included.
        python: the Python it must install on: ``3.11``, or ``3.14t`` for a free-threaded one.
        pythons: further Pythons that it must install on: all that a stable-ABI wheel serves, and the lowest that it is
            said to.
        abi3: False refuses a stable-ABI wheel, True refuses any other.
        platform: the bake platform it was built for: ``linux/amd64``, ``linux/arm64``, ….
        max_glibc: the newest glibc it may need, as ``2.28``.
        plat: the platform tag it must install under: ``manylinux_2_28_x86_64``; an older one is fine.
        excludes: globs over sonames that must stay outside the wheel, as given to auditwheel.
        pure: True refuses machine code, False refuses a wheel without any.
        max_size: the largest file, in bytes.
        device_archs: all that it must hold code for, and nothing else, as nvcc's ``code=`` has it: ``sm_80``,
            ``sm_90a``, ``compute_90``.
        cuda: the release of CUDA that it is made with and for: ``13.0.3``; only the major is compared, and by itself it
            promises no device code.
        requires: requirements that METADATA must hold: ``torch==2.11.*``; one that admits this release will do.
        cxx_abi: libstdc++'s ABI of the torch that it is built for: ``cxx11`` (1) or ``old`` (0).
        stripped: True refuses debug information.
        public_index: the wheel goes to PyPI, whose limit of 100 MiB then binds, as do its rules for versions and
            descriptions.
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
    requires: tuple[str, ...] = ()
    cxx_abi: CxxAbi = ""
    stripped: bool = False
    public_index: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is promised, as of a wheel that somebody else made."""
        return self == ExpectedWheel()

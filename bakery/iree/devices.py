"""What compiled modules can run on from here: the engine's own machine, one that is emulated, a GPU; and if not, why."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from bakery.core.errors import BakeryError, InterruptedBake
from bakery.core.names import MACHINES
from bakery.engine.client import Engine, EngineInfo
from bakery.engine.qemu import emulated
from bakery.iree.models.module import TargetRecord
from bakery.iree.modules import Compiled
from bakery.iree.sandbox import Limits, Sandbox
from bakery.iree.vmfb import Code, as_spirv_1_6, spirv_version

CPU_IMAGE = "iree-cpu"
"""Has iree-run-module, iree-benchmark-module, Python and numpy."""

CUDA_IMAGE = "iree-cuda"
"""Has ptxas beside that."""

Images = Callable[[str, str], str]
"""Image's name and platform → an image that the engine has. Raises UnavailableError where it cannot be had."""

_PLATFORMS = {machine: platform for platform, machine in MACHINES.items() if platform.startswith("linux/")}

_NVIDIA = Path("/dev/nvidiactl")
_TOOL_S = 120

_NEEDS = {
    "cuda": "needs an NVIDIA GPU and the nvidia container runtime, which are not here",
    "vulkan": "needs a GPU with a Vulkan driver; containers of bakery have none",
    "metal": "needs macOS",
    "rocm": "needs an AMD GPU; containers of bakery have none",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a module runs.

    Attributes:
        image: the image that runs it; empty where it cannot run.
        reason: why it cannot, and what would help; empty where it can.
        platform: of the image, in Docker's spelling.
        emulated: another machine's programs are emulated.
        gpus: the container gets the GPUs.
    """

    image: str = ""
    reason: str = ""
    platform: str = ""
    emulated: bool = False
    gpus: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """What a tool said; not having looked is no objection."""

    ok: bool
    text: str


@dataclass(slots=True)
class _Kept:
    images: dict[tuple[str, str], str | BakeryError] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Surface:
    """What an engine's machine offers.

    Attributes:
        environment: all of the docker client's environment.
        images: makes or finds images.
    """

    environment: Mapping[str, str]
    images: Images
    _kept: _Kept = field(default_factory=_Kept)

    @cached_property
    def engine(self) -> EngineInfo:
        """What the engine says of itself."""
        return Engine(self.environment).info()

    @property
    def platform(self) -> str:
        """The engine's own platform."""
        return _PLATFORMS.get(self.engine.architecture, "linux/amd64")

    def tools(self) -> str:
        """Return an image with Python and numpy, for the engine's own machine."""
        return self._image(CPU_IMAGE, self.platform)

    def place(self, target: TargetRecord) -> Place:
        """Return where modules for a target run."""
        if target.backend == "cpu":
            return self._cpu(target)
        if target.backend == "cuda" and self.has_gpu:
            return Place(self._image(CUDA_IMAGE, self.platform), platform=self.platform, gpus=True)
        return Place(reason=_NEEDS[target.backend])

    @cached_property
    def has_gpu(self) -> bool:
        """Whether containers can have an NVIDIA GPU: the driver's device is there, and the engine has the runtime."""
        return _NVIDIA.exists() and "nvidia" in self.engine.runtimes

    def inspect(self, module: Compiled, box: Sandbox) -> tuple[list[str], list[str]]:
        """Have code for GPUs looked at by their own tools, where these can be had.

        Returns:
            What was found to be right or could not be looked at, and what is wrong.

        Raises:
            EngineError: a container cannot be run.
        """
        right: list[str] = []
        wrong: list[str] = []
        for code in module.content.codes:
            if code.kind == "cuda":
                command = f'ptxas --gpu-name={code.architecture} "$file" --output-file=code.cubin'
                found = self._tool(box, "ptxas", command, code.texts)
            elif code.kind == "vulkan":
                found = self._spirv(box, code)
            else:
                continue
            (right if found.ok else wrong).append(f"{code.name}: {found.text}")
        return right, wrong

    def _spirv(self, box: Sandbox, code: Code) -> _Found:
        command = 'spirv-val --target-env vulkan1.3 "$file"'
        found = self._tool(box, "spirv-val", command, code.texts)
        if found.ok or "NoSignedWrap" not in found.text:
            return found
        # iree-org/iree#24724: iree-compile 3.13.0 writes version 1.0 into the header, and what 1.4 and later have into
        # the module. Drivers take that; all else in it is to be looked at, too.
        again = self._tool(box, "spirv-val", command, tuple(map(as_spirv_1_6, code.texts)))
        version = ", ".join(sorted(set(map(spirv_version, code.texts))))
        return replace(again, text=f"{again.text}, as SPIR-V 1.6; its header says {version} (iree-org/iree#24724)")

    def _tool(self, box: Sandbox, tool: str, command: str, texts: Sequence[bytes]) -> _Found:
        """Run a tool on files."""
        try:
            name = self._image(CUDA_IMAGE, self.platform)
        except BakeryError as error:
            return _Found(True, f"not looked at by {tool}: {error.message}")
        script = (
            f"command -v {tool} >/dev/null || exit 99; for file in in/*; do {command} || exit 1; done; {tool} --version"
        )
        files: dict[str, Path | bytes] = {f"in/{index}": text for index, text in enumerate(texts)}
        ran = box.run(name, ["sh", "-c", script], files, limits=Limits(seconds=_TOOL_S))
        lines = [line.strip() for line in ran.log.splitlines() if line.strip()]
        if ran.code == 99:
            return _Found(True, f"not looked at by {tool}, which the image does not have")
        if ran.code:
            return _Found(False, f"{tool} refuses it: {' | '.join(lines[-3:])[:400]}")
        version = next((line for line in lines if re.search(r"\d+\.\d+", line)), "")
        return _Found(True, f"accepted by {tool} ({version})")

    def _cpu(self, target: TargetRecord) -> Place:
        platform = _PLATFORMS.get(target.machine, self.platform)
        foreign = platform != self.platform
        if foreign and not emulated(platform):
            return Place(
                reason=f"this machine runs no {target.machine} programs: `wheel-bakery engine emulate {platform}`"
            )
        try:
            image = self._image(CPU_IMAGE, platform)
        except BakeryError as error:
            if not foreign:
                raise
            return Place(reason=f"the image for {platform} cannot be had: {error.message}")
        return Place(image, platform=platform, emulated=foreign)

    def prepare(self, modules: Sequence[Compiled]) -> None:
        """Make the images that are needed: in the main thread, where a signal ends what makes them."""
        kinds = {code.kind for module in modules for code in module.content.codes}
        for module in modules:
            self.place(module.target)
        if kinds & {"cuda", "vulkan"}:
            with contextlib.suppress(BakeryError):
                self._image(CUDA_IMAGE, self.platform)

    def _image(self, name: str, platform: str) -> str:
        """Return an image; it is asked for once, also where it cannot be had."""
        with self._kept.lock:
            if (name, platform) not in self._kept.images:
                try:
                    self._kept.images[name, platform] = self.images(name, platform)
                except InterruptedBake:
                    raise
                except BakeryError as error:
                    self._kept.images[name, platform] = error
            found = self._kept.images[name, platform]
        if isinstance(found, BakeryError):
            raise found
        return found

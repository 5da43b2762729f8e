"""The devices that compiled modules can run on: the engine's CPU, an emulated CPU, a GPU."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bakery.core.errors import BakeryError, InterruptedBake
from bakery.engine.client import Engine, EngineInfo
from bakery.engine.qemu import emulated
from bakery_iree.models.module import TargetRecord
from bakery_iree.modules import Compiled
from bakery_iree.plan import PLATFORMS
from bakery_iree.sandbox import Limits, Sandbox
from bakery_iree.vmfb import Code, as_spirv_1_6, spirv_version

CPU_IMAGE = "iree-cpu"
"""The recipe of the image with iree-run-module, iree-benchmark-module, Python and NumPy."""

CUDA_IMAGE = "iree-cuda"
"""The recipe of the image that also has ptxas."""

Images = Callable[[str, str], str]
"""Recipe and platform → the name of an image that the engine has. Raises UnavailableError if there is none."""

_NVIDIA = Path("/dev/nvidiactl")
_TOOL_S = 120

_NEEDS = {
    "cuda": "needs an NVIDIA GPU and the nvidia container runtime",
    "vulkan": "needs a GPU with a Vulkan driver, which containers of bakery do not have",
    "metal": "needs macOS",
    "rocm": "needs an AMD GPU, which containers of bakery do not have",
}


@dataclass(frozen=True, slots=True)
class Device:
    """The device that a module runs on.

    Attributes:
        image: the image that runs it; empty if the device is not available, for the ``reason``.
        platform: of the image, in Docker's spelling; it may be ``emulated``.
        gpus: the container gets the GPUs.
    """

    image: str = ""
    reason: str = ""
    platform: str = ""
    emulated: bool = False
    gpus: bool = False


_Inspection = tuple[bool, str]
"""Whether a tool accepts a file, also true if the tool is missing; and what to report."""


@dataclass
class Devices:
    """The devices of the engine's machine; ``images`` finds or builds images."""

    environment: Mapping[str, str]
    images: Images
    _images: dict[tuple[str, str], str | BakeryError] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def engine(self) -> EngineInfo:
        """The description of the engine."""
        return Engine(self.environment).info()

    @property
    def platform(self) -> str:
        """The engine's own platform."""
        return PLATFORMS.get(self.engine.architecture, "linux/amd64")

    @cached_property
    def has_gpu(self) -> bool:
        """Whether containers can use an NVIDIA GPU: the driver's device exists, and the engine has the runtime."""
        return _NVIDIA.exists() and "nvidia" in self.engine.runtimes

    def tools_image(self) -> str:
        """Return an image with Python and NumPy, for the engine's own platform."""
        return self._image(CPU_IMAGE, self.platform)

    def find(self, target: TargetRecord) -> Device:
        """Return the device that runs modules of a target."""
        if target.backend == "cpu":
            return self._cpu(target)
        if target.backend == "cuda" and self.has_gpu:
            return Device(self._image(CUDA_IMAGE, self.platform), platform=self.platform, gpus=True)
        return Device(reason=_NEEDS[target.backend])

    def _cpu(self, target: TargetRecord) -> Device:
        platform = PLATFORMS.get(target.machine, self.platform)
        is_foreign = platform != self.platform
        if is_foreign and not emulated(platform):
            command = f"`wheel-bakery engine emulate {platform}`"
            return Device(reason=f"this machine cannot run {target.machine} programs; {command} sets up an emulator")
        try:
            image = self._image(CPU_IMAGE, platform)
        except BakeryError as error:
            if not is_foreign:
                raise
            return Device(reason=f"the image for {platform} is not available: {error.message}")
        return Device(image, platform=platform, emulated=is_foreign)

    def prepare(self, modules: Sequence[Compiled]) -> None:
        """Build the images that are needed. Call this in the main thread, where a signal ends a build."""
        for module in modules:
            self.find(module.target)
        if {code.kind for module in modules for code in module.content.codes} & {"cuda", "vulkan"}:
            with contextlib.suppress(BakeryError):
                self._image(CUDA_IMAGE, self.platform)

    def inspect(self, module: Compiled, sandbox: Sandbox) -> tuple[list[str], list[str]]:
        """Check code for GPUs with the tools of their vendors, if the image has them.

        Return what is right or was not checked, and what is wrong.
        """
        right: list[str] = []
        wrong: list[str] = []
        for code in module.content.codes:
            if code.kind == "cuda":
                command = f'ptxas --gpu-name={code.architecture} "$file" --output-file=code.cubin'
                accepted, text = self._run_tool(sandbox, "ptxas", command, code.texts)
            elif code.kind == "vulkan":
                accepted, text = self._inspect_spirv(sandbox, code)
            else:
                continue
            (right if accepted else wrong).append(f"{code.name}: {text}")
        return right, wrong

    def _inspect_spirv(self, sandbox: Sandbox, code: Code) -> _Inspection:
        command = 'spirv-val --target-env vulkan1.3 "$file"'
        accepted, text = self._run_tool(sandbox, "spirv-val", command, code.texts)
        if accepted or "NoSignedWrap" not in text:
            return accepted, text
        # iree-org/iree#24724: iree-compile 3.13.0 writes version 1.0 into the header, and features of 1.4 and later into
        # the module. Drivers accept that. Everything else in the module is checked as 1.6.
        accepted, text = self._run_tool(sandbox, "spirv-val", command, tuple(map(as_spirv_1_6, code.texts)))
        version = ", ".join(sorted(set(map(spirv_version, code.texts))))
        return accepted, f"{text}, as SPIR-V 1.6; its header says {version} (iree-org/iree#24724)"

    def _run_tool(self, sandbox: Sandbox, tool: str, command: str, texts: Sequence[bytes]) -> _Inspection:
        """Run a tool on files in a container."""
        try:
            image = self._image(CUDA_IMAGE, self.platform)
        except BakeryError as error:
            return True, f"not checked by {tool}: {error.message}"
        script = (
            f"command -v {tool} >/dev/null || exit 99; for file in in/*; do {command} || exit 1; done; {tool} --version"
        )
        files: dict[str, Path | bytes] = {f"in/{index}": text for index, text in enumerate(texts)}
        result = sandbox.run(image, ["sh", "-c", script], files, limits=Limits(seconds=_TOOL_S))
        lines = [line.strip() for line in result.log.splitlines() if line.strip()]
        if result.code == 99:
            return True, f"not checked by {tool}: the image does not have it"
        if result.code:
            return False, f"{tool} refuses it: {' | '.join(lines[-3:])[:400]}"
        version = next((line for line in lines if re.search(r"\d+\.\d+", line)), "")
        return True, f"accepted by {tool} ({version})"

    def _image(self, name: str, platform: str) -> str:
        """Return an image. Each one is requested once, even if it is not available."""
        key = name, platform
        with self._lock:
            if key not in self._images:
                try:
                    self._images[key] = self.images(name, platform)
                except InterruptedBake:
                    raise
                except BakeryError as error:
                    self._images[key] = error
            image = self._images[key]
        if isinstance(image, BakeryError):
            raise image
        return image

"""Tests wheels on the GPU of this machine; writes a record for each.

Usage: python run.py [--installed]

It runs in a folder that `wheel-bakery gpu-test` filled, and needs nothing but Python, pip and NVIDIA's driver. Each wheel
gets an environment of its own, with several extras one for each. Exit status 1: a test failed. 2: there is no GPU, or no Python that a wheel needs.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FORMAT = 2
_KEPT = ("LANG", "LC_ALL", "TZ", "CUDA_VISIBLE_DEVICES")
"""Variables of this machine that a test gets: none that may hold a credential."""
_CAPABILITY = (75, 76)
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


def main(folder: Path, *, installed: bool) -> int:
    """Test all wheels of a folder; return the exit status. With ``installed``, use the packages of this Python."""
    gpu = find_gpus()
    if not gpu:
        print("gpu-test: no NVIDIA GPU: libcuda.so.1 is missing, or finds no device", file=sys.stderr)
        return 2
    jobs = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    if missing := sorted({job["python"] for job in jobs if not _python(job["python"])}):
        print("gpu-test: no python" + ", python".join(missing) + " on PATH", file=sys.stderr)
        return 2
    results = [_test(folder, job, gpu, installed=installed) for job in jobs]
    return 0 if all(results) else 1


def find_gpus() -> dict[str, Any]:
    """Return the driver, its CUDA release and the GPUs of this machine; empty if there are none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    count, release = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return {}
    cuda.cuDriverGetVersion(ctypes.byref(release))
    cuda_release = f"{release.value // 1000}.{release.value % 1000 // 10}"
    return {"driver": _driver(), "cuda": cuda_release, "gpus": [_gpu(cuda, number) for number in range(count.value)]}


def _gpu(cuda: ctypes.CDLL, number: int) -> dict[str, str]:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    cuda.cuDeviceGet(ctypes.byref(device), number)
    cuda.cuDeviceGetName(name, len(name), device)
    parts = []
    for attribute in _CAPABILITY:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        parts.append(str(value.value))
    return {"name": name.value.decode(errors="replace"), "capability": ".".join(parts)}


def _driver() -> str:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    text = ctypes.create_string_buffer(96)
    known = not nvml.nvmlInit_v2() and not nvml.nvmlSystemGetDriverVersion(text, len(text))
    return text.value.decode(errors="replace") if known else ""


def _driver_folder() -> str:
    """Return the folder of the driver that this process has loaded; smoke.py replaces LD_LIBRARY_PATH."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    paths = (line.split(maxsplit=5)[5] for line in maps.splitlines() if "/libcuda.so" in line)
    return str(Path(next(paths, "/")).parent)


def _python(version: str) -> str | None:
    own = f"{sys.version_info[0]}.{sys.version_info[1]}{getattr(sys, 'abiflags', '').replace('d', '')}"
    return sys.executable if own == version else shutil.which(f"python{version}")


def _test(folder: Path, job: Mapping[str, Any], gpu: Mapping[str, Any], *, installed: bool) -> bool:
    """Test one wheel and write its record; return whether it passed."""
    wheel = folder / "wheels" / job["wheel"]
    print(f"{wheel.name}: on {', '.join(item['name'] for item in gpu['gpus'])}, driver {gpu['driver']}", flush=True)
    tests = []
    for test in job["tests"]:
        with tempfile.TemporaryDirectory(prefix="gpu-test-") as scratch:
            fault, packages = _checked(folder, {**job, **test}, Path(scratch), wheel, installed=installed)
        tests.append({**test["does"], "packages": packages, "fault": fault})
    faults = [
        f"{test['extra']}: {test['fault']}" if test["extra"] else test["fault"] for test in tests if test["fault"]
    ]
    record = {
        "format": FORMAT,
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        **gpu,
        "python": job["python"],
        "environment": "installed" if installed else "clean",
        "tests": tests,
        "result": "failed" if faults else "passed",
        "fault": ", ".join(faults),
    }
    path = folder / "records" / f"{wheel.name}.gpu-test.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(": ".join(filter(None, [wheel.name, record["result"], record["fault"]])), flush=True)
    return not faults


def _checked(
    folder: Path, job: Mapping[str, Any], scratch: Path, wheel: Path, *, installed: bool
) -> tuple[str, dict[str, str]]:
    """Return the step that failed, empty for none, and the packages of the environment."""
    python, work = str(scratch / "venv" / "bin" / "python"), scratch / "work"
    files = folder / "files" / job["files"]
    if files.is_dir():
        shutil.copytree(files, work, symlinks=True)
    work.mkdir(exist_ok=True)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    driver = _driver_folder()
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    environment.update({"PATH": path, "HOME": str(work), "LD_LIBRARY_PATH": driver, **job["variables"]})
    does = job["does"]
    smoke = [python, str(folder / "smoke.py"), str(wheel), "--driver", driver, *["--load"] * does["load"]]
    smoke += [word for module in does["imports"] for word in ("--import", module)]
    smoke += [word for other in does["without"] for word in ("--without", other)]
    steps: list[tuple[str, Callable[[], bool]]] = [
        ("install", lambda: _install(job, scratch, wheel, environment, installed=installed)),
        ("load and import", lambda: _succeeds(smoke, work, environment)),
        ("test command", lambda: _succeeds(["sh", "-c", does["command"]], work, environment)),
    ]
    fault = next((name for name, step in steps if not step()), "")
    if fault == "install":
        return fault, {}
    return fault, _packages(python, environment, installed=installed)


def _install(
    job: Mapping[str, Any], scratch: Path, wheel: Path, environment: Mapping[str, str], *, installed: bool
) -> bool:
    """Install the wheel and what its test needs; return whether that succeeded.

    Only wheels are taken, and all are downloaded before the first one is installed: from then on, ``.pth`` files of packages
    run whenever Python starts, so nothing gets more than ``environment``, without the index and its password.
    """
    venv, wheels, extra = scratch / "venv", scratch / "wheels", job["does"]["extra"]
    python = str(venv / "bin" / "python")
    # This Python's pip, if it has one, saves the time to copy another.
    outer = importlib.util.find_spec("pip") is not None
    create = [str(_python(job["python"])), "-m", "venv", *["--without-pip"] * outer, str(venv)]
    if not _succeeds(create, scratch, os.environ):
        return False
    pip = [*([sys.executable, "-m", "pip", "--python", python] if outer else [python, "-m", "pip"]), "--quiet"]
    download = [*pip, "download", "--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(wheels)]
    download += ["--extra-index-url", job["index"]] if job["index"] else []
    wheels.mkdir()
    if installed:
        # Of a virtual environment, too, which the new one does not see otherwise.
        (site,) = venv.glob("lib/python*/site-packages")
        (site / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    elif job["locked"]:
        lock = scratch / "locked.txt"
        lock.write_text("\n".join(job["locked"]) + "\n", encoding="utf-8")
        if not _succeeds([*download, "--no-deps", "--require-hashes", "-r", str(lock)], scratch, os.environ):
            return False
    elif not _succeeds([*download, str(wheel) + f"[{extra}]" * bool(extra), *job["requirements"]], scratch, os.environ):
        return False
    shutil.copy(wheel, wheels)
    alone = {**environment, "PIP_CONFIG_FILE": os.devnull}
    words = [*pip, "install", "--disable-pip-version-check", "--no-deps", "--no-index", *map(str, wheels.iterdir())]
    return _succeeds(words, scratch, alone)


def _packages(python: str, environment: Mapping[str, str], *, installed: bool) -> dict[str, str]:
    """Return the packages of an environment, without running their code (-S): it could print something else."""
    program = "import importlib.metadata as m, json, sys; found = m.distributions(path=sys.argv[1:])"
    program += "; print(json.dumps({d.name: d.version for d in found}))"
    folders = [*map(str, Path(python).parent.parent.glob("lib/python*/site-packages"))]
    folders += [sysconfig.get_path("purelib")] * installed
    command = [python, "-I", "-S", "-c", program, *folders]
    listed = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    return dict(json.loads(listed.stdout)) if listed.returncode == 0 else {}


def _succeeds(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    return subprocess.run(command, cwd=folder, env=dict(environment), check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, installed="--installed" in sys.argv[1:]))

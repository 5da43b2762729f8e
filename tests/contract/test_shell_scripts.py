"""The shell programs that run inside images: a POSIX shell can read them, and they do what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bakery.toolchains.programs import requires

FOLDER = Path(requires.__file__).parent
SHELL = sorted(path for path in FOLDER.iterdir() if path.is_file() and path.read_bytes().startswith(b"#!/bin/sh\n"))
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="they run on Linux")


def run(name: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(["sh", str(FOLDER / name), *words], env=env, capture_output=True, text=True, check=False)


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_all_are_known() -> None:
    assert {"find-python", "install-packages", "net", "with-ccache"} <= {path.name for path in SHELL}


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_a_shell_can_read_it(shell: str, path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"this machine has no {shell}")
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_shellcheck_is_content(path: Path) -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([shellcheck, "--norc", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- find-python


@pytest.fixture
def pythons(tmp_path: Path) -> Path:
    """Give a folder for PATH with a Python under three names; two of them are none or too old."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    program(bin_, "python", "exit 1")
    program(bin_, "python3", f'exec "{sys.executable}" "$@"')
    for name in ("sh", "tr"):
        (bin_ / name).symlink_to(shutil.which(name) or "")
    return bin_


@pytest.mark.parametrize("version", [(), (VERSION,)])
def test_a_python_on_path(pythons: Path, version: tuple[str, ...]) -> None:
    if Path("/opt/python").exists():
        pytest.skip("this machine has Pythons where manylinux images have them")
    assert run("find-python", *version, PATH=str(pythons)).stdout == f"{pythons / 'python3'}\n"


@pytest.mark.parametrize(("version", "said"), [("3.77", "3.77"), (f"{VERSION}t", f"{VERSION}t")])
def test_no_such_python(pythons: Path, version: str, said: str) -> None:
    done = run("find-python", version, PATH=str(pythons))
    assert done.returncode == 1
    assert done.stderr == f"find-python: this base has no Python {said}\n"


# --- net, with-ccache, install-packages


def test_net_without_secrets_changes_nothing() -> None:
    if Path("/run/secrets").exists():
        pytest.skip("this machine has secrets")
    done = run(
        "net", "sh", "-c", 'printf "%s|" "$1" "${SSL_CERT_FILE-none}" "${PIP_CONFIG_FILE-none}"; exit 7', "x", "a b"
    )
    assert (done.returncode, done.stdout) == (7, "a b|none|none|")


def test_with_ccache_without_ccache(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    done = run(
        "with-ccache", "sh", "-c", 'printf "%s|" "$PATH" "${CCACHE_DIR-none}" "$1"', "x", "a b", PATH=str(tmp_path)
    )
    assert done.stdout == f"{tmp_path}|none|a b|"


def test_with_ccache(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    program(tmp_path, "ccache", "")
    done = run(
        "with-ccache", "sh", "-c", 'printf "%s|" "$CCACHE_DIR" "$CMAKE_CUDA_COMPILER_LAUNCHER"', PATH=str(tmp_path)
    )
    assert done.stdout == "/var/cache/ccache|ccache|"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("gcc -c a.c -o a.o", 0),
        ("ccache g++ -x c++ -c a.s.cpp", 0),
        ("gcc -c a.s", 1),
        ("gcc -c a.S -o a.o", 1),
        ("g++ -c a.ii", 1),
        ("gcc -x assembler -c a.c", 1),
        ("gcc -xassembler-with-cpp -c a.c", 1),
        ("gcc -x cpp-output -c a.c", 1),
        ("gcc -fpreprocessed -c a.c", 1),
        ("gcc @more -c a.c", 2),
        ("gcc -flto=auto -c a.c", 0),
        ("gcc -flto=auto -c a.i", 2),
    ],
)
def test_sources_that_ccache_does_not_preprocess(tmp_path: Path, words: str, status: int) -> None:
    """2: it may be for LTO, so links are not cached either."""
    script, mark = tmp_path / "ccache-source", tmp_path / "refused"
    script.write_text((FOLDER / "ccache-source").read_text().replace("/tmp/ccache-refused", str(mark)))
    # The program looks at the command of the process that calls it.
    code = f"import subprocess, sys; sys.exit(subprocess.run(['sh', {str(script)!r}]).returncode)"
    done = subprocess.run([sys.executable, "-c", code, *words.split()], check=False)
    assert done.returncode + mark.exists() == status


@pytest.mark.parametrize("cached", [True, False])
def test_nvcc_with_options_that_ccache_understands(tmp_path: Path, cached: bool) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "nvcc", 'printf "%s|" "$@"')
    if cached:
        program(tmp_path, "ccache", 'echo "ccache"; exec "$@"')
    words = ["--generate-dependencies-with-compile", "--dependency-output", "a b.d", '-DNAME="x y"', "-c", "a b.cu", ""]
    done = run("nvcc-ccache", *words, PATH=str(tmp_path), CUDA_HOME=str(tmp_path))
    assert done.stdout == "ccache\n" * cached + '-MD|-MF|a b.d|-DNAME="x y"|-c|a b.cu||'


def test_nothing_to_install(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    assert run("install-packages", PATH=str(tmp_path)).returncode == 0


def test_packages_of_alpine(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    program(tmp_path, "apk", 'echo "$@"')
    done = run("install-packages", "fftw-dev", "make", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "add --quiet --no-cache -- fftw-dev make\n")


def test_a_base_without_a_package_manager(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "")
    done = run("install-packages", "git", "make", PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "install-packages: this base has none of apt-get, dnf, yum and apk; cannot install git make\n"

"""What needs no engine needs no Unix either: these commands run where fcntl and its like do not exist."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# Modules that Windows lacks, and those that only a bake needs.
BLOCKED = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "python_on_whales", "hcl2", "auditwheel")

BLOCK = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
sys.argv = ["bakery", *sys.argv[2:]]
import os
for name in ("posix_spawn", "geteuid", "getuid", "fork", "O_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)
"""


def portable(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = BLOCK + "from bakery.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "-", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_init_runs_without_unix(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    (tmp_path / "docker-bake.hcl").write_text("")
    (tmp_path / "demo.c").touch()
    done = portable("init", "--pyproject", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "wheel-bakery[bake-file]" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--explain"),
        ("plan", "--json"),
        ("check",),
        ("generate", "--check"),
        ("schema",),
        ("gpus", "80;90"),
        ("rules",),
        ("explain", "clang-arch"),
        ("wheel", "--print"),
        ("wheel", "-r", "ujson", "--backend", "cibuildwheel", "--print"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_runs_without_unix(arguments: tuple[str, ...]) -> None:
    done = portable(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_audit_runs_without_unix(tmp_path: Path) -> None:
    archive = tmp_path / "demo-1.0-py3-none-any.whl"
    archive.write_bytes(b"no wheel at all")
    done = portable("audit", str(archive), "--json")
    assert done.returncode == 8, done.stderr
    assert "archive-unreadable" in done.stdout


def test_the_driver_of_cibuildwheel_is_imported_without_unix() -> None:
    code = BLOCK + "import bakery.cli.runs, bakery.runs.cibuildwheel.run"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True, timeout=60)


def test_macos_drives_cibuildwheel_by_itself(tmp_path: Path) -> None:
    """On a machine that says it is a Mac: cibuildwheel is started, and refuses to build for macOS on what it sees."""
    (tmp_path / "bakery.toml").write_text('name = "demo"\nplatforms = ["linux/amd64", "macos/arm64"]\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    code = """
import sys
for name in ("python_on_whales", "hcl2", "auditwheel"):
    sys.modules[name] = None
import bakery.cli.runs
bakery.cli.runs._SYSTEMS["linux"] = "macos"
sys.argv = ["bakery", "wheel", "--backend", "cibuildwheel"]
from bakery.cli.app import main; main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 7, done.stderr
    assert "macos" in done.stderr
    assert "cibuildwheel failed" in done.stderr
    assert not list(tmp_path.glob("dist/*"))


def test_help_loads_no_model_no_table_of_facts_and_no_rich() -> None:
    """They cost more than all else that it needs: every call would wait for them (``bench/startup.py``)."""
    blocked = '"bakery.recipe.models", "bakery.toolchains.facts", "rich", "bakery.cli.bake"'
    code = (
        f'import sys; sys.modules.update(dict.fromkeys(({blocked}))); sys.argv = ["bakery", "--help"]\n'
        "from bakery.cli.app import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Build and test wheels:\n  wheel " in done.stdout


@pytest.mark.proof
def test_a_checkout_may_have_any_name(tmp_path: Path) -> None:
    """``git clone`` calls it as the package; and a folder above it may have blanks and letters beyond ASCII."""
    checkout = tmp_path / "a b ü" / "bakery"
    for name in ("bakery", "packages", "tests"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, checkout)
    packages = [checkout, checkout / "packages/wheel-audit", checkout / "packages/bakery-iree"]
    # One that looks into paths, and one that runs a program of the checkout.
    chosen = (
        "tests/contract/test_fuzzed.py::test_the_runner_sees_what_no_reader_may_do",
        "tests/unit/resolve/test_with_jobs.py",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages))},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout

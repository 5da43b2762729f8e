"""The command: exit codes, JSON, and what a file says that a wheel must be."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from wheels import write_wheel

import wheel_audit
from wheel_audit.command import FAILED, UNREADABLE, USAGE, main
from wheel_audit.expected_file import read_expected
from wheel_audit.expected_wheel import ExpectedFolder


def test_a_wheel_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_wheel(tmp_path)), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["ok"], row["wheel"]["name"]) == (True, "demo")


def test_a_file_says_what_a_wheel_must_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect = tmp_path / "wheel.toml"
    expect.write_text('version = "2.0"\nmax_size = 1\nexcludes = ["libcuda.so.1"]\nabi3 = false\n')
    assert main([str(write_wheel(tmp_path)), "--expect", str(expect)]) == FAILED
    said = capsys.readouterr().out
    assert "[promised-version]" in said
    assert "[size-limit]" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('max-glibc = "2.28"', "max-glibc: unknown key; did you mean max_glibc?"),
        ("max_size = true", "max_size: expected a whole number"),
        ('excludes = "libcuda.so.1"', "excludes: expected an array of strings"),
        ('cxx_abi = "new"', 'cxx_abi: expected "cxx11" or "old"'),
        (
            'max_glibc = "manylinux_2_28"',
            """max_glibc: expected a release of glibc, such as "2.28", not 'manylinux_2_28'""",
        ),
        ('python = "cp311"', """python: expected a release of Python, such as "3.11" or "3.14t", not 'cp311'"""),
        ('pythons = ["3.11", "3"]', 'pythons: expected a release of Python, such as "3.11" or "3.14t", not \'3\''),
        ('torch_abi = "abc"', 'torch_abi: expected a release of torch, such as "2.10"'),
        ('requires = ["torch >>> 2"]', 'requires: expected a requirement, such as "torch==2.11.*"'),
        ('plat = "manylinux"', 'plat: expected a platform tag, such as "manylinux_2_28_x86_64"'),
        ('platform = "linux"', 'platform: expected a system and a machine, such as "linux/amd64"'),
        ('version = "one"', 'version: expected a version, such as "1.0" or "1.0+cu128"'),
        ('name = "a b"', 'name: expected the name of a project, such as "demo-kernels"'),
        ('device_archs = ["90"]', 'device_archs: expected GPU code, such as "sm_90a" or "compute_90"'),
        ('cuda = "cu128"', 'cuda: expected a release of CUDA, such as "12.8"'),
        ('folders = "x"', "folders: expected an array of tables, such as [[folders]]"),
        ('folders = [{cuda = "12"}]', "folders: expected an array of tables, such as [[folders]]"),
        ('[[folders]]\nfolder = "x"\ncuda = "new"', "folders: cuda: expected a release of CUDA"),
        ('[[folders]]\nfolder = "x"\nfolders = []', "folders: folders: unknown key; did you mean folder?"),
        ("source = 1", "source: unknown key"),
        ("a = [", "wheel.toml: "),
        ("a = " + "[" * 10_000, "nested too deep"),
    ],
)
def test_a_wrong_file_is_told(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect = tmp_path / "wheel.toml"
    expect.write_text(text)
    assert main([str(write_wheel(tmp_path)), "--expect", str(expect)]) == USAGE
    assert said in capsys.readouterr().err


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "wheel.toml").write_text("max_size = 'a'\nabi3 = 1\nnope = 2\n")
    with pytest.raises(ValueError, match=r"(?s)max_size.*abi3.*nope"):
        read_expected(tmp_path / "wheel.toml")


def test_every_key_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "wheel.toml").write_text(
        'name = "Demo_x"\nversion = "1.0+cu128"\npython = "3.14t"\npythons = ["3.9"]\nabi3 = true\nplatform = "linux/arm/v7"\n'
        'max_glibc = "2.28"\nplat = "macosx_11_0_arm64"\nexcludes = ["a*"]\npure = false\nmax_size = 1\ncuda = "13.0.3"\n'
        'device_archs = ["sm_90a", "compute_120f"]\nnative = "src/x"\nrequires = ["torch==2.11.*"]\ncxx_abi = ""\n'
        'torch_abi = "2.10"\nstripped = true\npublic_index = true\n'
        '[[folders]]\nfolder = "demo/cu12"\ndevice_archs = ["sm_80"]\ncuda = "12"\n[[folders]]\nfolder = "demo/cu13"\n'
    )
    expected = read_expected(tmp_path / "wheel.toml")
    assert expected.folders == (ExpectedFolder("demo/cu12", ("sm_80",), "12"), ExpectedFolder("demo/cu13"))
    assert (expected.name, expected.pythons, expected.cuda) == ("Demo_x", ("3.9",), "13.0.3")


@pytest.mark.parametrize("text", [b"", b"PK\5\6" + bytes(18), b"no wheel"])
def test_a_baseline_that_is_no_wheel(text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old := tmp_path / "old-1.0-py3-none-any.whl").write_bytes(text)
    assert main([str(write_wheel(tmp_path)), "--baseline", str(old)]) == USAGE
    assert f"{old} cannot be compared: " in capsys.readouterr().err


def test_files_that_cannot_be_read_do_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_wheel(tmp_path)
    assert main([str(tmp_path / "none.whl"), str(good)]) == UNREADABLE
    shown = capsys.readouterr()
    assert f"ok      {good.name}" in shown.out
    assert "none.whl: No such file" in shown.err
    assert main([str(good), "--baseline", str(tmp_path / "old.whl")]) == UNREADABLE
    assert "old.whl: No such file" in capsys.readouterr().err


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wheel_audit", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == wheel_audit.__version__


def test_all_names_are_there() -> None:
    assert all(getattr(wheel_audit, name) for name in wheel_audit.__all__)


def test_it_needs_neither_docker_nor_pydantic_nor_bakery() -> None:
    needed = " ".join(requires("wheel-audit") or ())
    assert not any(name in needed for name in ("docker", "whales", "pydantic", "bakery"))

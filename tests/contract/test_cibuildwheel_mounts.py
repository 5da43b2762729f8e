"""cibuildwheel itself, with a docker that notes how it is called: no container has the machine's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from noting_docker import write_docker
from processes import linux_build

from bakery.runs.cibuildwheel import process
from bakery.runs.secrets.mask import Mask


@pytest.mark.parametrize(
    "engine",
    [
        None, "docker", "docker; disable_host_mount: false", "docker; disable-host-mount: false",
        "docker; create-args: --label=mine; disable_host_mount: 0",
    ],
)  # fmt: skip
def test_no_container_has_the_machine_s_files(tmp_path: Path, engine: str | None) -> None:
    calls, project = write_docker(tmp_path), tmp_path / "my project"
    project.mkdir()
    # Of the project, none of this is read.
    (project / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\n'
        '[tool.cibuildwheel]\ncontainer-engine = { name = "docker", create-args = ["--privileged"] }\n'
    )
    config = tmp_path / "config.toml"
    config.write_text('[tool.cibuildwheel]\nbuild = ["cp311-manylinux_x86_64"]\n')
    request = replace(
        linux_build(tmp_path),
        arguments=("--platform", "linux", "--archs", "x86_64", "--config-file", str(config), "."),
        root=project,
        create_args=(f"--volume '{project}/pip.conf:/etc/pip.conf:ro'", "--env A=b"),
    )
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    environ |= {"BAKERY_CACHE_KEY": "canary", "ACTIONS_RUNTIME_TOKEN": "canary", "CIBW_BEFORE_ALL": "canary"}
    environ |= {"CIBW_CONTAINER_ENGINE": engine} if engine else {}
    process.build(request, environ, lambda _: None, process.Stop())
    lines = calls.read_text()
    assert '"create"' in lines, (tmp_path / "log").read_text()
    assert "/:/host" not in lines
    assert "--privileged" not in lines
    assert f'"{project}/pip.conf:/etc/pip.conf:ro"' in lines
    assert ("--label=mine" in lines) == ("label" in (engine or ""))
    assert not [name for name in ("BAKERY_", "ACTIONS_", "CIBW_BEFORE_ALL") if name in lines]


def test_its_output_has_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build can read the index's password in the container, and print it."""
    program, shown = tmp_path / "cibuildwheel", list[str]()
    program.write_text("#!/bin/sh\necho 'index-url = https://me:hunter2-x@h'; printf 'me:hunter2-x' | base64; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(process, "command", lambda _: [str(program)])
    request = replace(linux_build(tmp_path), mask=Mask({"index": b"hunter2-x"}))
    ended = process.build(request, {"PATH": f"{tmp_path}:/usr/bin:/bin"}, shown.append, process.Stop())
    assert shown == ["index-url = https://me:***@h", "bWU6***"]
    assert ended.failure.splitlines() == (tmp_path / "log").read_text().splitlines() == shown

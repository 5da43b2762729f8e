"""The private engine and its Debian bases: the parts that need no root, no network and no engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bakery.cli.engine import find_or_start
from bakery.core.errors import EngineError, UnavailableError
from bakery.engine import debian_packages, debian_rootfs, discover, host, oci_archive, private_engine
from bakery.engine.client import parse_buildx_version
from bakery.engine.debian_packages import Bundle
from bakery.engine.paths import engine_paths
from bakery.engine.private_engine import RunningEngine
from bakery.engine.private_engine_files import Prefix

TARGETS = """\
Packages|http://mirror.test/debian/|bookworm|bookworm|Debian
Packages|http://mirror.test/debian/|bookworm-updates|bookworm-updates|Debian
Packages|http://mirror.test/security/|bookworm-security|bookworm-security|Debian-Security
Translations|http://mirror.test/other/|bookworm|bookworm|Debian
"""


def quiet(_message: str) -> None:
    """Ignore progress."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "BAKERY_ENGINE_DIR": str(tmp_path / "engine"),
        "PATH": "/usr/bin:/bin",
    }


# --- places


def test_places_follow_xdg() -> None:
    where = engine_paths({"HOME": "/home/me", "XDG_DATA_HOME": "/data"})
    assert where.cache == Path("/home/me/.cache/bakery")
    assert where.data == Path("/data/bakery/engine")
    assert where.socket == Path("/run/bakery/docker.sock")
    assert where.primary


def test_relative_xdg_is_ignored() -> None:
    assert engine_paths({"HOME": "/home/me", "XDG_CACHE_HOME": "here"}).cache == Path("/home/me/.cache/bakery")


def test_engine_dir_moves_data_and_sockets_but_not_the_cache() -> None:
    where = engine_paths({"HOME": "/home/me", "BAKERY_ENGINE_DIR": "/tmp/two"})
    assert where.cache == Path("/home/me/.cache/bakery")
    assert where.data.is_relative_to("/tmp/two")
    assert where.run.is_relative_to("/tmp/two")
    assert not where.primary


# --- the machine's mirror


def test_mirror_from_targets() -> None:
    found = debian_packages.parse_targets(TARGETS, "bookworm")
    main, security = "http://mirror.test/debian", "http://mirror.test/security"
    assert found == {"": main, "-updates": main, "-security": security}


def test_mirror_named_by_alias() -> None:
    text = "Packages|http://mirror.test/debian/|stable|bookworm|Debian\n"
    main = "http://mirror.test/debian"
    assert debian_packages.parse_targets(text, "bookworm") == {"": main, "-updates": main}


def test_third_party_with_a_suite_name_is_no_mirror() -> None:
    text = "Packages|http://vendor.test/linux/|bookworm|bookworm|Vendor CE\n" + TARGETS
    assert debian_packages.parse_targets(text, "bookworm")[""] == "http://mirror.test/debian"


@pytest.mark.parametrize("text", ["", "nonsense\n", "Packages|x\n", TARGETS])
def test_no_mirror_says_what_to_do(text: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        debian_packages.parse_targets(text, "trixie")
    assert "apt-get update" in caught.value.hint


def test_source_lines_leave_out_what_is_not_configured() -> None:
    mirror = {"": "http://mirror.test/debian", "-updates": "http://mirror.test/debian"}
    lines = debian_packages.source_lines(mirror, "trixie")
    assert [line.split()[-2] for line in lines] == ["trixie", "trixie-updates"]


def test_machine_suite_reads_os_release(monkeypatch: pytest.MonkeyPatch) -> None:
    release = {"ID": "debian", "VERSION_CODENAME": "trixie"}
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert debian_packages.machine_suite() == "trixie"


@pytest.mark.parametrize("release", [{"ID": "ubuntu", "VERSION_CODENAME": "noble"}, {"ID": "debian"}, {}])
def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch, release: dict[str, str]) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: release)
    with pytest.raises(UnavailableError, match="not a Debian machine"):
        debian_packages.machine_suite()


def test_bundle_key_depends_on_content() -> None:
    one = debian_packages.bundle_key(Bundle("x", packages=("runc",)), "bookworm", "x86_64")
    assert one == debian_packages.bundle_key(Bundle("y", packages=("runc",)), "bookworm", "x86_64")
    assert one != debian_packages.bundle_key(Bundle("x", newer=("runc",)), "bookworm", "x86_64")
    assert one != debian_packages.bundle_key(Bundle("x", packages=("runc",)), "bookworm", "aarch64")


def test_no_host_name_of_a_mirror_or_registry_is_written_down() -> None:
    for path in Path(debian_packages.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert "debian.org" not in text, path
        assert "docker.io/" not in text, path


# --- errors


def test_private_engine_needs_root(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError) as caught:
        private_engine.install(quiet, environ)
    assert "root" in caught.value.message
    assert "buildx plugin 0.19" in caught.value.hint


def test_private_engine_needs_debian(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    def refuse() -> str:
        raise UnavailableError("this is not a Debian machine but Other")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(private_engine, "machine_suite", refuse)
    with pytest.raises(EngineError) as caught:
        private_engine.start(Prefix(Path("/nowhere")), quiet, environ)
    assert "not a Debian machine" in caught.value.message
    assert "buildx plugin 0.19" in caught.value.hint


def test_base_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnavailableError) as caught:
        debian_rootfs._require_means("amd64")
    assert "root" in caught.value.hint


@pytest.mark.parametrize(("suite", "arch"), [("sarge", "amd64"), ("trixie", "mips")])
def test_unknown_base_names_the_known_ones(suite: str, arch: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        debian_rootfs.ensure_debian({}, suite, arch, "debian:x", quiet)
    assert "trixie" in caught.value.hint
    assert "arm64" in caught.value.hint


# --- the running engine


def test_environment_puts_the_engine_first_once(environ: dict[str, str]) -> None:
    where = engine_paths(environ)
    engine = RunningEngine(1, f"unix://{where.socket}", "28.5.2", Prefix(Path("/prefix")), where)
    once = private_engine.environment(engine, environ)
    assert once["PATH"] == "/prefix/bin:/usr/bin:/bin"
    assert once["DOCKER_HOST"] == f"unix://{where.socket}"
    assert once["DOCKER_CONFIG"] == str(where.client)
    assert private_engine.environment(engine, environ | once) == once


def test_daemon_keeps_to_its_own_folders(environ: dict[str, str]) -> None:
    where = engine_paths(environ)
    settings = private_engine.daemon_configuration(where, Prefix(Path("/prefix")), 500 * private_engine.GB)
    for key in ("data-root", "exec-root", "pidfile"):
        assert Path(str(settings[key])).is_relative_to(environ["BAKERY_ENGINE_DIR"])
    assert settings["hosts"] == [f"unix://{where.socket}"]
    assert settings["features"] == {"containerd-snapshotter": True}


@pytest.mark.parametrize(("disk", "layers", "everything"), [(20, 30, 45), (100, 30, 45), (1000, 300, 450)])
def test_limits_of_the_build_cache_grow_with_the_disk(disk: int, layers: int, everything: int) -> None:
    """Gigabytes: layers are removed before the compiler caches, which the second rule alone removes."""
    first, second = private_engine.cache_policy(disk * private_engine.GB)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["filter"] == ["type=regular"]
    assert first["maxUsedSpace"] == str(layers * private_engine.GB)
    assert (second["all"], second["maxUsedSpace"]) == (True, str(everything * private_engine.GB))


@pytest.mark.parametrize(
    "content", ["", "not a number", "999999999", pytest.param(str(os.getpid()), id="a live process")]
)
def test_stale_pid_file_is_no_engine(environ: dict[str, str], content: str) -> None:
    where = engine_paths(environ)
    where.run.mkdir(parents=True)
    where.pid_file.write_text(content)
    where.socket.touch()
    assert private_engine.engine_pid(where) is None
    assert private_engine.status(environ) is None
    # This test's own process is named in one of the files: stop must not touch it.
    assert private_engine.stop(environ) is False
    assert not where.pid_file.exists()
    assert not where.socket.exists()


def test_stop_without_an_engine_creates_nothing(environ: dict[str, str]) -> None:
    assert private_engine.stop(environ) is False
    assert not engine_paths(environ).run.exists()


def test_another_dockerd_is_not_ours(environ: dict[str, str], tmp_path: Path) -> None:
    where = engine_paths(environ)
    where.run.mkdir(parents=True)
    other = tmp_path / "dockerd"
    other.symlink_to(sys.executable)
    process = subprocess.Popen([str(other), "-c", "input()"], stdin=subprocess.PIPE)
    try:
        where.pid_file.write_text(str(process.pid))
        assert private_engine.stop(environ) is False
        assert process.poll() is None
    finally:
        process.communicate(b"\n", timeout=10)


def test_cgroup_versions(tmp_path: Path) -> None:
    assert not host.has_cgroups(tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    assert host.has_cgroups(tmp_path)


# --- finding an engine


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("github.com/docker/buildx 0.29.1+ds1 0.29.1+ds1-4", (0, 29, 1)),
        ("github.com/docker/buildx v0.19.0-desktop.2 1fc5647dc2", (0, 19, 0)),
        ("docker: 'buildx' is not a docker command", None),
    ],
)
def test_buildx_version(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_buildx_version(text) == version


def _client(folder: Path, buildx: str) -> None:
    """Write a docker client that answers."""
    program = folder / "docker"
    program.write_text(
        f"""#!/bin/sh\n[ "$1" = version ] && echo '{{"Server": {{"Version": "28.0.0"}}}}' && exit\n{buildx}\n"""
    )
    program.chmod(0o755)


def test_find_takes_the_users_engine(environ: dict[str, str], tmp_path: Path) -> None:
    _client(tmp_path, "echo x/buildx v0.20.0 abc")
    address = discover.find(environ | {"PATH": f"{tmp_path}:/bin"})
    assert (address.source, address.version, address.buildx) == ("user", "28.0.0", "0.20.0")
    assert address.environment == {}


@pytest.mark.parametrize(
    ("buildx", "reason"),
    [("echo x/buildx v0.18.0 abc", "0.19"), ("echo 'no such command' >&2; exit 1", "no such command")],
)
def test_find_refuses_and_says_why(environ: dict[str, str], tmp_path: Path, buildx: str, reason: str) -> None:
    _client(tmp_path, buildx)
    with pytest.raises(EngineError) as caught:
        discover.find(environ | {"PATH": f"{tmp_path}:/bin"})
    assert "wheel-bakery engine up" in caught.value.hint
    assert any(reason in line for line in caught.value.details)


@pytest.mark.parametrize(
    ("variables", "context", "said"),
    [
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, "", "DOCKER_HOST is tcp://127.0.0.1:1"),
        ({"DOCKER_CONTEXT": "far"}, "", "DOCKER_CONTEXT is far"),
        ({}, "far", "the current docker context is far"),
        ({}, "default", ""),
        ({"DOCKER_HOST": ""}, "", ""),
    ],
)
def test_no_other_engine_takes_the_place_of_a_chosen_one(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    context: str,
    said: str,
) -> None:
    """The private engine runs, and the client reaches no other."""
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    (prefix / "packages.json").write_text('{"docker-buildx_0.29.1+ds1-4_amd64.deb": "0"}')
    paths = engine_paths(environ)
    running = RunningEngine(1, f"unix://{paths.socket}", "28.5.2", Prefix(prefix), paths)
    monkeypatch.setattr(private_engine, "status", lambda _: running)
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"currentContext": context}))
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect' >&2; exit 1\n")
    (tmp_path / "docker").chmod(0o755)
    given = environ | variables | {"PATH": f"{tmp_path}:/bin"}
    if not said:
        assert discover.find(given).source == "private"
        return
    for find in (discover.find, find_or_start):
        with pytest.raises(EngineError) as caught:
            find(given)
        assert caught.value.message == f"{said}, and it cannot bake"
        assert caught.value.details == ("Cannot connect",)
    # The variables of `engine env`.
    assert discover.find(given | {"DOCKER_HOST": running.host, "DOCKER_CONTEXT": ""}).source == "private"


def test_find_without_a_client(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        discover.find(environ | {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('{"docker.io_28.5.2_amd64.deb": "0", "docker-buildx_0.29.1+ds1-4_amd64.deb": "0"}', "0.29.1"),
        ('{"docker.io_28.5.2_amd64.deb": "0"}', ""),
        ("[", ""),
        ("1", ""),
    ],
)
def test_the_version_of_buildx_is_that_of_its_package(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "packages.json").write_text(text)
    assert Prefix(tmp_path).buildx == version


# --- images


def _image(folder: Path, name: str) -> tuple[Path, str]:
    """Write an image of one small file."""
    content = folder / "rootfs.tar"
    with tarfile.open(content, "w") as archive:
        archive.addfile(tarfile.TarInfo("etc"))
    image = folder / name
    full = oci_archive.write_image(content, image, repository="local/x", tag="a-arm64", arch="arm64", epoch=86400)
    return image, full


def test_image_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    one, name = _image(tmp_path, "one.tar")
    two, _ = _image(tmp_path, "two.tar")
    assert one.read_bytes() == two.read_bytes()
    assert oci_archive.read_name(one) == name


def test_image_is_an_oci_layout(tmp_path: Path) -> None:
    image, name = _image(tmp_path, "one.tar")
    with tarfile.open(image) as archive:
        archive.extractall(tmp_path / "layout", filter="data")
    layout = tmp_path / "layout"
    entry = json.loads((layout / "index.json").read_text())["manifests"][0]
    assert entry["platform"] == {"architecture": "arm64", "os": "linux", "variant": "v8"}
    assert name.endswith(entry["digest"].removeprefix("sha256:")[:12])
    manifest = json.loads((layout / "blobs" / entry["digest"].replace(":", "/")).read_text())
    config = json.loads((layout / "blobs" / manifest["config"]["digest"].replace(":", "/")).read_text())
    assert config["created"] == "1970-01-02T00:00:00Z"
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert manifest["layers"][0]["size"] == (tmp_path / "rootfs.tar").stat().st_size


def test_image_sources_name_each_part() -> None:
    text = debian_rootfs.sources_text(
        {"": "http://m.test/debian", "-security": "http://m.test/sec"}, "trixie", ["", "-security"]
    )
    assert text.count("Types: deb") == 2
    assert "URIs: http://m.test/sec\nSuites: trixie-security\n" in text

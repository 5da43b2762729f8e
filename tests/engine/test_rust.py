"""Rust in real bakes: a toolchain of the base, crates of a registry with a password, and no network while compiling."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import bakery, shell
from cratesregistry import Crate, served

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tally"
[builder]
rust = "auto"
[builder.before-build]
command = "test ! -e /run/secrets/token && test -z \\"${TOKEN-}\\" && echo 'pub const BEFORE: i64 = 40;' > src/before.rs"
[secrets.token]
env = "TOKEN"
variable = "TOKEN"
steps = ["compile"]
[test]
imports = ["tally"]
command = "python -c 'import tally; assert tally.answer() == 42'"
"""

MANIFEST = """\
[package]
name = "tally"
version = "1.0.0"
edition = "2021"
rust-version = "1.80"
[lib]
crate-type = ["cdylib"]
[dependencies]
itoap = "1"
pyo3-ffi = { version = "0.29", features = ["extension-module"] }
"""

LIBRARY = """\
use pyo3_ffi::*;
use std::ptr::{addr_of_mut, null_mut};
mod before;

unsafe extern "C" fn answer(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let mut text = String::new();
    itoap::fmt(&mut text, before::BEFORE + 2).unwrap();
    PyLong_FromLong(text.parse().unwrap())
}

static mut METHODS: [PyMethodDef; 2] = [
    PyMethodDef {
        ml_name: c"answer".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: answer },
        ml_flags: METH_NOARGS,
        ml_doc: c"The answer.".as_ptr(),
    },
    PyMethodDef::zeroed(),
];

static mut MODULE: PyModuleDef = PyModuleDef {
    m_base: PyModuleDef_HEAD_INIT,
    m_name: c"tally".as_ptr(),
    m_doc: c"".as_ptr(),
    m_size: 0,
    m_methods: unsafe { METHODS.as_mut_ptr().cast() },
    m_slots: null_mut(),
    m_traverse: None,
    m_clear: None,
    m_free: None,
};

#[no_mangle]
pub unsafe extern "C" fn PyInit_tally() -> *mut PyObject {
    PyModule_Create(addr_of_mut!(MODULE))
}
"""


@dataclass
class Registry:
    """A registry of crates that this machine's cargo is configured to use."""

    home: Path
    www: Path
    url: str
    asked: list[str]
    crates: list[Crate]


@pytest.fixture
def registry_of_crates(tmp_path: Path, engine_environment: Mapping[str, str]) -> Iterator[Registry]:
    network = json.loads(shell(engine_environment, "docker", "network", "inspect", "bridge"))
    host = network[0]["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"
    password = f"canary{secrets.token_hex(12)}"
    (tmp_path / "crates").mkdir()
    home = tmp_path / "cargo-home"
    home.mkdir()
    with served(tmp_path / "crates", host, password) as (url, asked, crates):
        (home / "config.toml").write_text(
            '[source.crates-io]\nreplace-with = "own"\n'
            f'[registries.own]\nindex = "{url}"\ntoken = "{password}"\n'
            '[registry]\nglobal-credential-providers = ["cargo:token"]\n'
            '[build]\nrustc-wrapper = "/not-in-containers"\n'
        )
        yield Registry(home, tmp_path / "crates" / "www", url[len("sparse+") : -1], asked, crates)


def project(folder: Path, registry: Registry, *, locked: bool = True) -> Path:
    """Write the project, with hashes of the crates in the registry."""
    needs = {"pyo3-ffi": ["libc", "pyo3-build-config"], "pyo3-build-config": ["target-lexicon"]}
    lock = "version = 3\n\n"
    for crate in sorted(registry.crates, key=lambda item: item.name):
        lock += f'[[package]]\nname = "{crate.name}"\nversion = "{crate.version}"\n'
        lock += 'source = "registry+https://github.com/rust-lang/crates.io-index"\n'
        lock += f'checksum = "{crate.checksum}"\n'
        lock += f"dependencies = {json.dumps(needs[crate.name])}\n\n" if crate.name in needs else "\n"
    lock += '[[package]]\nname = "tally"\nversion = "1.0.0"\ndependencies = ["itoap", "pyo3-ffi"]\n'
    files = {
        "bakery.toml": RECIPE,
        "pyproject.toml": '[build-system]\nrequires = ["maturin>=1.7,<2"]\nbuild-backend = "maturin"\n'
        '[project]\nname = "tally"\nversion = "1.0.0"\n',
        "Cargo.toml": MANIFEST,
        "Cargo.lock": lock,
        "src/lib.rs": LIBRARY,
        # Run from the project, cargo would run this program.
        ".cargo/config.toml": '[registry]\nglobal-credential-providers = ["/src/steal"]\n',
    }
    for name, text in files.items():
        if name != "Cargo.lock" or locked:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def environment(registry: Registry) -> dict[str, str]:
    return {"CARGO_HOME": str(registry.home), "TOKEN": "canary-of-compile", "BAKERY_ALLOW": "secret.env=TOKEN"}


@pytest.mark.proof
def test_a_project_with_crates_of_a_registry(tmp_path: Path, registry_of_crates: Registry) -> None:
    folder = project(tmp_path / "project", registry_of_crates)
    done = bakery(folder, "full", environment=environment(registry_of_crates))
    (wheel,) = done.wheels
    assert wheel.name.startswith("tally-1.0.0-cp311-cp311-manylinux")
    assert {f"/{item.name}-{item.version}.crate" for item in registry_of_crates.crates} <= set(registry_of_crates.asked)
    # Each crate took a slot, which logged its time. sccache's server ran rustc, so its memory is not known.
    crates = json.loads(bakery(folder, "profile", "cp311", "--json").out)["commands"]
    names = [item["name"] for item in crates if item["name"].startswith("rustc/")]
    libraries = {f"rustc/{item.name.replace('-', '_')}" for item in registry_of_crates.crates}
    assert {*libraries, "rustc/tally", "rustc/pyo3-ffi/build_script_build"} <= {*names}
    assert len(names) == len({*names})
    # The project's own crate does not go through it.
    assert {item["mb"] for item in crates if item["name"] in names and item["name"] != "rustc/tally"} == {0}
    # Crates are materials, by the hashes of Cargo.lock.
    records = wheel.parent / ".provenance"
    sbom = json.loads((records / f"{wheel.name}.cdx.json").read_text())
    hashes = {item.get("purl"): item.get("hashes") for item in sbom["components"]}
    for item in registry_of_crates.crates:
        expected = [{"alg": "SHA-256", "content": item.checksum}]
        assert hashes[f"pkg:cargo/{item.name}@{item.version}"] == expected
    statement = json.loads((records / f"{wheel.name}.provenance.json").read_text())
    before = statement["predicate"]["buildDefinition"]["externalParameters"]["beforeBuild"]
    assert before["network"] is False
    assert "before.rs" in before["command"]
    # Nothing that was kept has the password of the registry.
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"canary" in path.read_bytes()]

    # Another source needs the same crates.
    registry_of_crates.asked.clear()
    (folder / "src" / "lib.rs").write_text((folder / "src" / "lib.rs").read_text() + "// more\n")
    again = bakery(folder, "wheel", environment=environment(registry_of_crates))
    assert not [title for title in again.ran() if "vendor-crates" in title]
    assert not registry_of_crates.asked
    # rustc compiles the project, and takes the crates from sccache.
    before, after = (run.results()["wheel-cp311"]["compiler_cache"] for run in (done, again))
    assert before == {"compilations": after["compilations"], "hits": 0}  # type: ignore[index]
    assert after["hits"] >= len(registry_of_crates.crates)  # type: ignore[index]


TOOLCHAIN = Path.home() / ".rustup" / "toolchains" / "stable-x86_64-unknown-linux-gnu"
RUSTLIB = TOOLCHAIN / "lib" / "rustlib"
TRIPLE = "x86_64-unknown-linux-gnu"


def releases(folder: Path, url: str) -> str:
    """Lay out this machine's own Rust as the server of Rust's releases does; return its version."""
    folder.mkdir()
    rustc = TOOLCHAIN / "bin" / "rustc"
    release = subprocess.run([rustc, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    manifest = f'manifest-version = "2"\n[pkg.rust]\nversion = "{release}"\n'
    for name in ("rustc", "cargo", "rust-std"):
        inner = f"rust-std-{TRIPLE}" if name == "rust-std" else name
        file = f"{name}-{release}-{TRIPLE}.tar.gz"
        listed = (RUSTLIB / f"manifest-{name}-{TRIPLE}").read_text().splitlines()
        with tarfile.open(folder / file, "w:gz", compresslevel=1) as archive:
            components = tarfile.TarInfo(f"{name}/components")
            components.size = len(inner) + 1
            archive.addfile(components, io.BytesIO(f"{inner}\n".encode()))
            for line in listed:
                path = line.partition(":")[2]
                archive.add(TOOLCHAIN / path, f"{name}/{inner}/{path}")
        with (folder / file).open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        manifest += f'[pkg.{name}.target.{TRIPLE}]\nurl = "{url}/dist/{file}"\nhash = "{sha256}"\n'
    text = folder / f"channel-rust-{release.rpartition('.')[0]}.toml"
    text.write_text(manifest)
    digest = hashlib.sha256(manifest.encode()).hexdigest()
    text.with_name(f"{text.name}.sha256").write_text(f"{digest}  {text.name}\n")
    return release


@pytest.mark.proof
@pytest.mark.skipif(not RUSTLIB.is_dir(), reason="this machine has no Rust of rustup")
def test_a_release_that_the_package_manager_does_not_have(tmp_path: Path, registry_of_crates: Registry) -> None:
    """The Rust of this machine, from a server with the layout of Rust's own."""
    url = registry_of_crates.url
    release = releases(registry_of_crates.www / "dist", url)
    folder = project(tmp_path / "project", registry_of_crates)
    recipe = (folder / "bakery.toml").read_text()
    short = release.rpartition(".")[0]
    (folder / "bakery.toml").write_text(
        recipe.replace('rust = "auto"\n', f'rust = "{short}"\nenvironment = {{ RUSTUP_DIST_SERVER = "{url}" }}\n')
    )
    told = environment(registry_of_crates)
    # It would give cargo the token of the crates.
    assert f"--allow server={url}" in bakery(folder, "full", code=2, environment=told).err
    done = bakery(folder, "full", "--allow", "secret.env=TOKEN", "--allow", f"server={url}", environment=told)
    assert f"rustc {release}" in done.log("wheel-cp311")
    assert f"Rust {short} is not in this image or its packages (1.85" in done.log("wheel-cp311")
    assert f"/dist/channel-rust-{short}.toml" in registry_of_crates.asked
    assert done.wheels


def test_without_a_lock_file_the_message_says_what_to_do(tmp_path: Path, registry_of_crates: Registry) -> None:
    folder = project(tmp_path / "project", registry_of_crates, locked=False)
    done = bakery(folder, "wheel", code=7, environment=environment(registry_of_crates))
    assert "no Cargo.lock" in done.err
    assert "cargo generate-lockfile" in done.err
    assert not registry_of_crates.asked

"""The programs that read a project's Cargo files, and that install Rust from a folder of releases."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from file_trees import write_files

from bakery.toolchains.programs import cargo_project, rust

MANIFEST = '[package]\nname = "demo"\nversion = "1.0.0"\n'
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def run(folder: Path, word: str = "auto") -> tuple[int, str, Path]:
    """Run the program on a project; return its exit code, its output, and what it wrote."""
    output = folder.parent / "output"
    command = [sys.executable, cargo_project.__file__, str(folder), word, str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr, output


def wanted(folder: Path, word: str = "auto") -> str:
    code, text, output = run(folder, word)
    assert code == 0, text
    return (output / "rust").read_text().strip()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rust-toolchain.toml", '[toolchain]\nchannel = "1.85.1"\ncomponents = ["rustfmt"]\n', "1.85.1"),
        ("rust-toolchain.toml", '[toolchain]\nprofile = "minimal"\n', "stable"),
        ("rust-toolchain", "1.79\n", "1.79"),
        ("rust-toolchain", "nightly-2026-01-31\n", "nightly-2026-01-31"),
        ("rust-toolchain", '[toolchain]\nchannel = "stable"\n', "stable"),
        ("rust-toolchain", "1.80.0-x86_64-unknown-linux-gnu", "1.80.0"),
    ],
)
def test_the_channel_of_a_project(tmp_path: Path, name: str, text: str, expected: str) -> None:
    folder = write_files(tmp_path / "src", {name: text, "Cargo.toml": MANIFEST + 'rust-version = "1.60"\n'})
    assert wanted(folder) == expected
    assert wanted(folder, "1.90") == "1.90"


def test_a_toolchain_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "src", {"rust-toolchain": "my-toolchain"})
    code, text, _ = run(folder)
    assert code == 1
    assert "builder.rust" in text


@pytest.mark.parametrize(
    ("manifest", "lock", "expected"),
    [
        ("", 'version = 3\n[[package]]\nname = "demo"\nversion = "1.0.0"\n', ">=1.53"),
        ("", "version = 4\n", ">=1.78"),
        ('edition = "2024"\n', "version = 4\n", ">=1.85"),
        ('rust-version = "1.95"\nedition = "2024"\n', "version = 4\n", ">=1.95"),
        (
            'rust-version = { workspace = true }\n[workspace.package]\nrust-version = "1.81"\n',
            "version = 4\n",
            ">=1.81",
        ),
        ("", "", "stable"),
    ],
)
def test_the_lowest_rust_that_a_project_allows(tmp_path: Path, manifest: str, lock: str, expected: str) -> None:
    assert wanted(write_files(tmp_path / "src", {"Cargo.toml": MANIFEST + manifest, "Cargo.lock": lock})) == expected


def package(name: str, version: str, source: str = CRATES_IO, checksum: str = "") -> str:
    told = f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = "{source}"\n'
    return told + (f'checksum = "{checksum}"\n' if checksum else "")


def test_only_manifests_reach_the_step_that_fetches(tmp_path: Path) -> None:
    lock = (
        "version = 4\n"
        + '[[package]]\nname = "demo"\nversion = "1.0.0"\n'
        + package("syn", "1.0.9", checksum="a" * 64)
        + package("syn", "2.0.100", checksum="b" * 64)
        + package("forked", "0.1.0", "git+https://git.example/forked?rev=abc#0123456789")
    )
    folder = write_files(
        tmp_path / "src",
        {
            "Cargo.toml": MANIFEST + '[dependencies]\nsyn = "2"\n',
            "Cargo.lock": lock,
            "src/lib.rs": "fn secret() {}",
            "member/Cargo.toml": MANIFEST,
            "member/src/main.rs": "fn main() {}",
            "fuzz/Cargo.lock": "version = 4\n",
            "target/Cargo.toml": "not TOML",
            ".cargo/config.toml": '[build]\nrustc-wrapper = "./evil"\n',
            "python/demo.py": "import this",
        },
    )
    code, text, output = run(folder)
    assert code == 0, text
    assert (output / "roots").read_text() == ".\n"
    manifests = output / "manifests"
    names = {
        path.relative_to(manifests).as_posix(): path.read_text() for path in manifests.rglob("*") if path.is_file()
    }
    assert set(names) == {
        *("Cargo.toml", "Cargo.lock", "src/lib.rs"),
        *("member/Cargo.toml", "member/src/main.rs", "fuzz/Cargo.lock"),
    }
    assert names["src/lib.rs"] == names["member/src/main.rs"] == ""
    told = json.loads((output / "materials" / "crates.json").read_text())
    assert told["packages"] == {"syn": "2.0.100", "syn@1.0.9": "1.0.9", "forked": "0.1.0"}
    assert told["sums"] == {"syn": "b" * 64, "syn@1.0.9": "a" * 64}
    assert told["purls"]["syn@1.0.9"] == "pkg:cargo/syn@1.0.9"
    assert "vcs_url=git%2Bhttps://git.example/forked" in told["purls"]["forked"]


def test_a_crate_below_the_project(tmp_path: Path) -> None:
    files = {"src/rust/Cargo.toml": MANIFEST, "src/rust/Cargo.lock": "version = 4\n", "src/rust/a/Cargo.toml": MANIFEST}
    _, _, output = run(write_files(tmp_path / "src", files))
    assert (output / "roots").read_text() == "src/rust\n"


def test_vendored_crates_are_not_fetched(tmp_path: Path) -> None:
    files = {
        "Cargo.toml": MANIFEST + '[dependencies]\nsyn = "2"\n',
        "Cargo.lock": "version = 4\n",
        ".cargo/config.toml": '[source.crates-io]\nreplace-with = "vendored-sources"\n',
        "vendor/syn/Cargo.toml": "[package",
        "vendor/syn/.cargo-checksum.json": "{}",
    }
    code, text, output = run(write_files(tmp_path / "src", files))
    assert code == 0, text
    assert (output / "roots").read_text() == ""
    assert not list((output / "manifests").iterdir())


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ('[dependencies]\nsyn = "2"\n', 1),
        ('[target."cfg(unix)".build-dependencies]\ncc = { version = "1" }\n', 1),
        ('[dependencies]\nown = { path = "own" }\n', 0),
        ("", 0),
    ],
)
def test_a_project_without_lock_file(tmp_path: Path, more: str, code: int) -> None:
    returned, text, _ = run(write_files(tmp_path / "src", {"Cargo.toml": MANIFEST + more}))
    assert returned == code
    assert ("cargo generate-lockfile" in text and "builder.network = true" in text) == bool(code)


def test_a_project_without_rust(tmp_path: Path) -> None:
    assert wanted(write_files(tmp_path / "src", {"setup.py": ""})) == "stable"


@pytest.mark.parametrize("text", ["[package", "\x00"])
def test_a_broken_manifest_is_one_line(tmp_path: Path, text: str) -> None:
    code, said, _ = run(write_files(tmp_path / "src", {"Cargo.toml": text}))
    assert code == 1
    assert "cannot read" in said


# --- rust


@pytest.mark.parametrize(
    ("version", "asked", "right"),
    [
        ("1.85.0+dfsg3-1~deb12u3", ">=1.78", True),
        ("rustc 1.63.0", ">=1.78", False),
        ("1.85.1", "1.85", True),
        ("1.85.1", "1.85.0", False),
        ("1.85.1", "1.8", False),
        ("1.63.0", "stable", True),
        ("1.96.0", "nightly", False),
        ("1.96.0", "beta", False),
        ("", "stable", False),
    ],
)
def test_which_release_is_right(version: str, asked: str, right: bool) -> None:
    assert rust.fits(version, asked) is right


@pytest.mark.parametrize("asked", ["stable", "stable-2025-03-18", "beta", "nightly-2026-01-02", "1.96"])
def test_a_channel_of_a_day_has_the_release_of_its_manifest(asked: str) -> None:
    assert rust.is_right("rustc 1.96.0", asked)
    assert not rust.is_right("rustc 1.96.0", "1.85")


TRIPLE = "x86_64-unknown-linux-gnu"


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder like the server of Rust's releases; its rustc and cargo are scripts."""
    server = tmp_path / "server"
    day = server / "dist" / "2026-01-31"
    day.mkdir(parents=True)
    text = 'manifest-version = "2"\n'
    for component in rust.COMPONENTS:
        inner = component if component != "rust-std" else f"rust-std-{TRIPLE}"
        program = f"#!/bin/sh\necho '{component} 1.95.1 (abc 2026-01-31)'\n"
        files = {"components": inner + "\n", "install.sh": "exit 1", f"{inner}/manifest.in": ""}
        files |= {f"{inner}/share/doc/x": "", f"{inner}/lib/lib{component}.so": "", f"{inner}/bin/{component}": program}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(f"{component}-1.95.1-{TRIPLE}/{name}")
                member.size, member.mode = len(content), 0o755
                archive.addfile(member, io.BytesIO(content.encode()))
        file = f"{component}-1.95.1-{TRIPLE}.tar.xz"
        (day / file).write_bytes(packed.getvalue())
        text += (
            f"\n[pkg.{component}.target.{TRIPLE}]\navailable = true\n"
            f'url = "{rust.SERVER}/dist/2026-01-31/none.tar.gz"\nhash = "{"0" * 64}"\n'
            f'xz_url = "{rust.SERVER}/dist/2026-01-31/{file}"\nxz_hash = "{hashlib.sha256(packed.getvalue()).hexdigest()}"\n'
        )
    for name in ("channel-rust-stable.toml", "channel-rust-1.95.toml", "2026-01-31/channel-rust-nightly.toml"):
        path = server / "dist" / name
        path.write_text(text)
        path.with_name(path.name + ".sha256").write_text(hashlib.sha256(text.encode()).hexdigest() + f"  {path.name}\n")
    (tmp_path / "links").mkdir()
    monkeypatch.setattr(rust, "HOME", str(tmp_path / "rust"))
    monkeypatch.setattr(rust, "LINKS", str(tmp_path / "links"))
    monkeypatch.setattr(rust, "triple", lambda: TRIPLE)
    monkeypatch.setenv("RUSTUP_DIST_SERVER", server.as_uri())
    return server


@pytest.mark.parametrize("asked", [">=1.90", "stable", "1.95", "nightly-2026-01-31"])
def test_a_release_is_installed(tmp_path: Path, releases: Path, asked: str) -> None:
    rust.install_release(asked, [])
    home = tmp_path / "rust"
    installed = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert installed == {path for name in rust.COMPONENTS for path in (f"bin/{name}", f"lib/lib{name}.so")}
    assert os.path.realpath(tmp_path / "links" / "cargo") == str(home / "bin" / "cargo")
    assert rust.output(str(tmp_path / "links" / "rustc"), "--version").startswith("rustc 1.95.1")


def test_another_hash_is_refused(releases: Path) -> None:
    path = next((releases / "dist").glob("*/rustc-*.tar.xz"))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(SystemExit, match="has not the SHA-256 of the manifest"):
        rust.install_release("stable", [])


def test_another_manifest_is_refused(releases: Path) -> None:
    path = releases / "dist" / "channel-rust-stable.toml"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(SystemExit, match="has not the SHA-256 that the server names"):
        rust.install_release("stable", [])


def test_a_release_that_does_not_exist_is_told(releases: Path) -> None:
    with pytest.raises(SystemExit, match=r"cannot download .*channel-rust-1\.42\.toml"):
        rust.install_release("1.42", [])


def test_a_platform_without_rust_is_told(releases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rust, "triple", lambda: "riscv128-unknown-linux-gnu")
    with pytest.raises(SystemExit, match="has no rustc for riscv128"):
        rust.install_release("stable", [])

"""Base ``image``, pulled from a registry by its digest, and toolkits ``image`` and ``repository``: the CUDA of an image,
or NVIDIA's packages in it.

The images are stand-ins under the names of real ones, in a registry of the tests' own; what compiles in them is CUDA.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import ROOT, Done, bakery, shell
from projects import example, pure
from registry import Pushed, push
from standins import CUDA, NAMES, cuda_tree, make

pytestmark = pytest.mark.engine

Maker = Callable[..., Pushed]

REPOSITORY = 'toolkit = "repository"\ncuda-repository = "file:///srv/cuda"\ncuda-repository-key = '


@dataclass(frozen=True)
class Key:
    """A key that signs packages: the folder of gpg that has it, what it is as text, and its fingerprint."""

    home: Path
    text: bytes
    fingerprint: str


def gpg(home: Path, *words: str) -> bytes:
    command = ("gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
    return subprocess.run([*command, *words], check=True, capture_output=True).stdout


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    """Give a key of nobody's, which no repository of NVIDIA's is signed by."""
    if shutil.which("gpg") is None:
        pytest.skip("this machine has no gpg")
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    gpg(home, "--quick-gen-key", "nobody <n@example.invalid>", "rsa2048", "sign", "never")
    listed = gpg(home, "--list-keys", "--with-colons").decode()
    yield Key(home, gpg(home, "--armor", "--export"), re.findall(r"(?m)^fpr:+([0-9A-F]{40}):", listed)[0])
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False)


@pytest.fixture(scope="session")
def standin(
    registry: str, manylinux_image: str, engine_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Maker]:
    """Give what makes a stand-in and leaves it in the registry."""
    fresh = tmp_path_factory.mktemp("fresh")
    (fresh / "fresh.txt").write_text(str(uuid.uuid4()))
    images = {"manylinux": f"docker-image://{manylinux_image}", "fresh": str(fresh)}
    trees: list[str] = []

    def standin(target: str, **more: str) -> Pushed:
        # The one without a compiler needs no tree.
        if target != "debian-repository" and not trees:
            trees.append(cuda_tree(engine_environment, tmp_path_factory.mktemp("tree")))
        tree = {"tree": f"docker-image://{trees[0]}"} if trees else {}
        return make(engine_environment, registry, target, {**images, **tree, **more})

    yield standin
    for tree in trees:
        shell(engine_environment, "docker", "rmi", "--force", tree)


def cuda_example(folder: Path, builder: str, *, head: str = "") -> Path:
    """Copy examples/cuda with another builder; return its folder."""
    left_out = shutil.ignore_patterns(".bakery", "build", "bakery.toml")
    shutil.copytree(ROOT / "examples" / "cuda", folder, ignore=left_out)
    recipe = f"""\
name = "cuda"
{head}
[variables]
CUDA_VERSION = "{CUDA}"
[builder]
{builder}
requirements = ["cmake>=3.26", "ninja"]
environment = {{ CUDAARCHS = "80;90" }}
[wheel.repair]
exclude = ["libcudart.so.*", "libcuda.so.*"]
strip = true
[test]
requirements = ["cuda-toolkit[cudart]==${{CUDA_VERSION}}", "pytest"]
imports = ["bakery_example_cuda"]
files = ["tests"]
command = "python -m pytest tests"
"""
    (folder / "bakery.toml").write_text(recipe)
    return folder


def audited(done: Done) -> str:
    """Return what `wheel-bakery audit` says of the one wheel."""
    (wheel,) = done.wheels
    return bakery(done.folder, "audit", str(wheel)).out


@pytest.mark.proof
def test_wheel_of_an_nvidia_image(tmp_path: Path, standin: Maker) -> None:
    pushed = standin("nvidia")
    base = f'base = {{ image = "{pushed.name}", digest = "{pushed.digest}" }}\ntoolkit = "image"'
    done = bakery(cuda_example(tmp_path / "project", base), "full")
    assert "sm_80" in audited(done)
    log = done.log("wheel-cp311")
    assert "CUDA 13.0 in /usr/local/cuda-13.0" in log
    # NVIDIA's is empty in the stand-in: that of bakery has been put in its place.
    assert "libcuda.so.1: a stub with" in log


@pytest.mark.proof
def test_wheel_of_a_manylinux_image_with_cuda(tmp_path: Path, standin: Maker) -> None:
    base = 'base = "manylinux_2_28_cuda13_0"\ntoolkit = "image"'
    environment = standin("manylinux-cuda").mirrored
    done = bakery(cuda_example(tmp_path / "project", base), "full", environment=environment)
    assert "sm_80" in audited(done)
    assert "Setting up" not in done.log("wheel-cp311")


@pytest.mark.proof
def test_wheel_with_nvidias_packages(tmp_path: Path, standin: Maker, key: Key) -> None:
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "D42D0685.pub").write_bytes(key.text)
    environment = standin("redhat", key=str(tmp_path / "key")).mirrored
    builder = f'base = "manylinux_2_28"\n{REPOSITORY}"{key.fingerprint}"'
    done = bakery(cuda_example(tmp_path / "project", builder), "full", environment=environment)
    assert "sm_80" in audited(done)
    assert "installed cuda-nvcc-13-0 cuda-cudart-devel-13-0 cuda-cccl-13-0" in done.log("wheel-cp311")


@pytest.mark.proof
def test_wheel_with_nvidias_wheels_on_a_short_name(
    tmp_path: Path, registry: str, manylinux_image: str, engine_environment: Mapping[str, str]
) -> None:
    pushed = push(engine_environment, manylinux_image, f"{registry}/{NAMES['redhat']}")
    project = cuda_example(tmp_path / "project", 'base = "manylinux_2_28"\ntoolkit = "wheels"')
    done = bakery(project, "full", environment=pushed.mirrored)
    assert "sm_80" in audited(done)


def on_image(folder: Path, pushed: Pushed, release: str, more: str = 'toolkit = "image"') -> Path:
    """Write a project without machine code on a stand-in: what its toolkit's stage does is what is looked at."""
    name = pushed.name.replace(CUDA, "${CUDA_VERSION}")
    digest = f', digest = "{pushed.digest}"' if name == pushed.name else ""
    return pure(
        folder,
        f'name = "demo"\nvariables.CUDA_VERSION = "{release}"\n'
        f'[builder]\nbase = {{ image = "{name}"{digest} }}\n{more}\n[test]\nimports = ["demo"]\n',
    )


@pytest.mark.proof
def test_image_is_named_by_the_release(tmp_path: Path, standin: Maker) -> None:
    pushed = standin("nvidia")
    done = bakery(on_image(tmp_path / "project", pushed, CUDA), "wheel")
    text = (done.runs[-1] / "Dockerfile").read_text()
    assert f"FROM {pushed.name.replace(CUDA, '${CUDA_VERSION}')} AS root" in text
    # What the step says is not in the log if another test ran it.
    assert f'own-cuda /usr/local/cuda "{CUDA}"' in done.log("wheel-cp311")


@pytest.mark.proof
def test_image_with_another_cuda_is_told(tmp_path: Path, standin: Maker) -> None:
    done = bakery(on_image(tmp_path / "project", standin("manylinux-cuda"), "13.1.0"), "wheel", code=4)
    assert "image-cuda-release: " in done.err
    assert "has CUDA 13.0, and CUDA_VERSION is 13.1.0" in done.err


def test_image_without_cuda_is_told(tmp_path: Path, pushed: Pushed) -> None:
    done = bakery(on_image(tmp_path / "project", pushed, "13.0.3"), "wheel", code=7)
    assert "there is no nvcc in /usr/local/cuda/bin" in done.err


@pytest.fixture(scope="session")
def apt_repository(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    """Give a signed repository of tiny packages, named as NVIDIA's for Debian."""
    programs = [name for name in ("dpkg-deb", "dpkg-scanpackages") if shutil.which(name) is None]
    if programs:
        pytest.skip(f"this machine has no {', '.join(programs)}")
    root, made = tmp_path_factory.mktemp("apt"), tmp_path_factory.mktemp("packages")
    cuda = Path("usr/local/cuda-13.0")
    nvcc = '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n'
    header = "CUresult CUDAAPI cuInit(unsigned int Flags);\n"
    for name, path, text in (
        ("cuda-nvcc-13-0", cuda / "bin/nvcc", nvcc),
        ("cuda-cudart-dev-13-0", cuda / "targets/x86_64-linux/include/cuda.h", header),
        ("cuda-cccl-13-0", cuda / "targets/x86_64-linux/lib/keep", ""),
    ):
        package = made / name
        (package / path).parent.mkdir(parents=True)
        (package / path).write_text(text)
        (package / path).chmod(0o755)
        (package / "DEBIAN").mkdir()
        (package / "DEBIAN" / "control").write_text(
            f"Package: {name}\nVersion: 13.0.1-1\nArchitecture: amd64\nMaintainer: nobody <n@example.invalid>\n"
            f"Description: a stand-in\n"
        )
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", package, root], check=True)
    index = subprocess.run(["dpkg-scanpackages", "."], cwd=root, check=True, capture_output=True).stdout
    (root / "Packages").write_bytes(index)
    digest = subprocess.run(["sha256sum", "Packages"], cwd=root, check=True, capture_output=True, text=True).stdout
    size = (root / "Packages").stat().st_size
    (made / "Release").write_text(f"Origin: stand-in\nSHA256:\n {digest.split()[0]} {size} Packages\n")
    gpg(key.home, "--clearsign", "-o", str(root / "InRelease"), str(made / "Release"))
    (root / "3bf863cc.pub").write_bytes(key.text)
    return root


@pytest.mark.proof
def test_packages_of_a_debian_repository(tmp_path: Path, standin: Maker, apt_repository: Path, key: Key) -> None:
    pushed = standin("debian-repository", repository=str(apt_repository))
    repository = f'{REPOSITORY}"{key.fingerprint}"'
    done = bakery(on_image(tmp_path / "project", pushed, "13.0.3", repository), "wheel")
    log = done.log("wheel-cp311")
    assert "installed cuda-nvcc-13-0 cuda-cudart-dev-13-0 cuda-cccl-13-0" in log
    assert "CUDA 13.0 in /usr/local/cuda-13.0" in log


@pytest.mark.proof
def test_a_key_that_nobody_published_is_refused(tmp_path: Path, standin: Maker, apt_repository: Path, key: Key) -> None:
    """Whoever stands in for NVIDIA's repository signs it with a key of their own, and puts that beside it."""
    pushed = standin("debian-repository", repository=str(apt_repository))
    repository = REPOSITORY.partition("cuda-repository-key")[0]
    done = bakery(on_image(tmp_path / "project", pushed, "13.0.3", repository), "wheel", code=7)
    assert f"the key in file:///srv/cuda has the fingerprint {key.fingerprint}, and not EB693B30" in done.err
    assert "builder.cuda-repository-key" in done.err


@pytest.mark.proof
def test_release_that_a_repository_lacks_is_told(
    tmp_path: Path, standin: Maker, apt_repository: Path, key: Key
) -> None:
    pushed = standin("debian-repository", repository=str(apt_repository))
    repository = f'{REPOSITORY}"{key.fingerprint}"'
    done = bakery(on_image(tmp_path / "project", pushed, "12.8.1", repository), "wheel", code=7)
    assert "file:///srv/cuda does not give cuda-nvcc-12-8" in done.err


def test_repository_without_a_key_is_told(tmp_path: Path, pushed: Pushed) -> None:
    repository = 'toolkit = "repository"\ncuda-repository = "file:///nowhere/rhel8/x86_64"'
    done = bakery(on_image(tmp_path / "project", pushed, "13.0.3", repository), "wheel", code=7)
    assert "no key of NVIDIA's can be had from file:///nowhere/rhel8/x86_64" in done.err


def on_base(name: str, digest: str) -> str:
    """Return a recipe of examples/cpp on an image."""
    return f"""\
name = "cpp"
[builder]
base = {{ image = "{name}", digest = "{digest}" }}
[wheel.repair]
strip = true
[test]
imports = ["bakery_example_cpp"]
"""


@pytest.mark.proof
def test_wheel_has_the_platform_of_the_image(tmp_path: Path, pushed: Pushed) -> None:
    folder = example(tmp_path / "project", on_base(pushed.name, pushed.digest))
    done = bakery(folder, "wheel")
    (wheel,) = done.wheels
    policies = re.findall(r"manylinux_2_(\d+)_x86_64", wheel.name)
    assert policies
    assert min(map(int, policies)) <= 36
    assert wheel.name.startswith("bakery_example_cpp-1.0.0-cp311-cp311-manylinux")
    text = (done.runs[-1] / "Dockerfile").read_text()
    assert f"FROM {pushed.name}@{pushed.digest} AS root\n" in text


def test_dockerfile_is_the_same_but_for_its_base(tmp_path: Path) -> None:
    """The stages above ``root`` are the base's own; the others are the same, and compile and repair to the letter."""
    image = example(tmp_path / "image", on_base("example.invalid/manylinux_2_28_x86_64:1", "sha256:" + "0" * 64))
    lines = on_base("", "").splitlines(keepends=True)
    debian = example(tmp_path / "debian", "".join(line for line in lines if not line.startswith("base =")))
    stages, texts = [], []
    for folder in (image, debian):
        bakery(folder, "generate")
        text = (folder / "dockerfiles" / "cpp.Dockerfile").read_text()
        stages.append(re.findall(r"^FROM .* AS (?!root|python-)(\S+)$", text, re.MULTILINE))
        texts.append(text[text.index("FROM builder AS compile") : text.index("# A clean base")])
    assert stages[0] == stages[1]
    assert texts[0] == texts[1]


def test_digest_that_is_not_there_is_told(tmp_path: Path, pushed: Pushed) -> None:
    wrong = "sha256:" + "1" * 64
    folder = example(tmp_path / "project", on_base(pushed.name, wrong))
    done = bakery(folder, "wheel", code=7)
    assert wrong in done.err
    assert "not found" in done.err


@pytest.mark.proof
def test_registry_that_does_not_answer_is_told(tmp_path: Path) -> None:
    folder = example(tmp_path / "project", on_base("127.0.0.1:9/nothing:1", "sha256:" + "1" * 64))
    done = bakery(folder, "wheel", code=7)
    assert "127.0.0.1:9" in done.err
    assert "→ " in done.err

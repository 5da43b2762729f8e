"""What a wheel is called and what it requires: several names of one build, the framework's pin, the build's lock."""

from __future__ import annotations

import email
import json
import zipfile
from collections.abc import Mapping
from email.message import Message
from pathlib import Path

import pytest
from command import bakery, shell
from projects import SOURCE, extension

pytestmark = pytest.mark.engine

RECIPE = """\
name = "tiny"

[variables]
TORCH_VERSION = "2.11.0"
CUDA_VERSION = "13.0.3"

[builder]
requirements = ["wheel==0.45.*"]

[wheel]
naming = { clean = true, index = "public" }
also-named = [
    { local = "cu${CUDA_TAG}torch${TORCH_MINOR}", index = "private" },
    { build-tag = "1cu${CUDA_MAJOR}" },
]
requires = ["packaging>=24,<${CUDA_TAG}"]

[test]
command = "python -c 'import tiny, packaging; assert tiny.answer() == 42'"
"""


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [item for item in archive.namelist() if item.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def payload(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {item.filename: item.CRC for item in archive.infolist() if ".dist-info/" not in item.filename}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("namings") / "tiny"
    return extension(folder, RECIPE, SOURCE)


@pytest.mark.proof
def test_one_build_has_several_names(project: Path) -> None:
    done = bakery(project, "full")
    clean, local, tagged = (
        next(path for path in done.wheels if path.name.startswith(name))
        for name in ("tiny-1.0-cp", "tiny-1.0+cu130torch2.11-cp", "tiny-1.0-1cu13-cp")
    )
    assert len(done.wheels) == 3
    assert payload(clean) == payload(local) == payload(tagged)
    assert [metadata(wheel)["Version"] for wheel in (clean, local, tagged)] == ["1.0", "1.0+cu130torch2.11", "1.0"]
    for wheel in done.wheels:
        assert metadata(wheel).get_all("Requires-Dist") == ["packaging>=24,<130"]
    again = bakery(project, "full")
    assert again.wheels == done.wheels
    # One of the three names is for the public index.
    (total,) = json.loads(bakery(project, "plan", "--size", "--json").out)["projects"]
    size = sum(wheel.stat().st_size for wheel in done.wheels)
    assert (total["project"], total["size"], total["uploaded"]) == ("tiny", size, size // 3)


SEVERAL = """\
name = "tiny"
[workspace]
recipes = ["meta"]
[matrix]
python = ["3.11"]
flavor = ["cu12", "cu13"]
[builder]
environment = { FLAVOR = "${FLAVOR}" }
[wheel]
naming = { name = "Tiny-${FLAVOR}" }
"""

META = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "1.0"
[project.optional-dependencies]
cu12 = ["tiny-cu12==1.0"]
cu13 = ["tiny-cu13==1.0"]
[tool.setuptools]
packages = []
"""


@pytest.mark.proof
def test_a_distribution_for_each_value_and_one_that_selects(tmp_path: Path) -> None:
    folder = extension(tmp_path / "tiny", SEVERAL, SOURCE)
    (folder / "meta").mkdir()
    (folder / "meta" / "pyproject.toml").write_text(META)
    (folder / "meta" / "bakery.toml").write_text('name = "meta"\n[matrix]\npython = ["3.11"]\n')
    done = bakery(folder, "wheel")
    names = {wheel.name.split("-1.0-")[0]: metadata(wheel) for wheel in done.wheels}
    assert {name: text["Name"] for name, text in names.items()} == {
        "tiny": "tiny",
        "tiny_cu12": "Tiny-cu12",
        "tiny_cu13": "Tiny-cu13",
    }
    assert len(names["tiny"].get_all("Requires-Dist", [])) == 2
    said = bakery(folder, "verify", "--tag", "v1.0", "dist").out
    assert "3 wheels: complete and as planned" in said
    next(wheel for wheel in done.wheels if wheel.name.startswith("tiny_cu13")).unlink()
    assert "tiny cp311-flavorcu13: a wheel is missing: Tiny-cu13" in bakery(folder, "verify", "dist", code=8).err


def test_derived_values_follow_a_value_that_only_the_raw_file_is_given(
    project: Path, engine_environment: Mapping[str, str], ca_bundle: Path | None
) -> None:
    """``docker buildx bake --set`` reaches no plan: the Dockerfile itself derives CUDA_TAG."""
    bakery(project, "generate")
    sets = [word for name in ("CUDA_VERSION=12.8.1", "TORCH_VERSION=2.10.0") for word in ("--set", f"*.args.{name}")]
    reads = [f"--allow=fs.read={ca_bundle}"] if ca_bundle else []
    environment = {**engine_environment, "CA_BUNDLE": str(ca_bundle or "")}
    shell(environment, "docker", "buildx", "bake", "-f", "bake/tiny.hcl", *reads, *sets, "wheel", cwd=project)
    names = sorted(path.name.split("-cp")[0] for path in (project / "wheels" / "cp311").iterdir())
    assert names == ["tiny-1.0", "tiny-1.0+cu128torch2.10", "tiny-1.0-1cu12"]


@pytest.mark.proof
def test_the_dev_image_has_the_tools_the_project_and_what_was_resolved(
    project: Path, engine_environment: Mapping[str, str]
) -> None:
    """The lock is in the dev image, and it is what is installed."""
    bakery(project, "dev")
    run = ("docker", "run", "--rm", "tiny:dev-cp311")
    try:
        lock = shell(engine_environment, *run, "cat", "/requirements.lock")
        frozen = shell(engine_environment, *run, "python", "-m", "pip", "freeze", "--all")
        script = "ls; python -m build --version; python -V; command -v g++"
        lines = shell(engine_environment, *run, "sh", "-ec", script).splitlines()
    finally:
        shell(engine_environment, "docker", "image", "rm", "tiny:dev-cp311")
    assert {"pyproject.toml", "src"} <= set(lines)
    assert any(line.startswith("build ") for line in lines)
    assert any(line.startswith("Python 3.") for line in lines)
    assert lines[-1] == "/usr/bin/g++"
    assert "wheel==0.45." in lock
    assert all(" --hash=sha256:" in line for line in lock.splitlines())
    locked = {line.partition(" ")[0] for line in lock.splitlines()}
    assert locked <= {line.lower().replace("_", "-") for line in frozen.splitlines()}

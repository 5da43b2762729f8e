"""The build has a repository: versions, files of data and ignored files are those of the checkout, as pip has them."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import Done, bakery, digests, repeated, shell
from helpers.repositories import git
from helpers.version_tools import commit
from projects import pure
from runs import runs_of

pytestmark = pytest.mark.engine

RECIPE = 'name = "demo"\n[matrix]\npython = ["3.11"]\n'
IGNORED = "*.egg-info\n*.local\ndist\n.bakery\nbuild\n"

SCM = """\
[build-system]
requires = ["setuptools>=77", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
dynamic = ["version"]
[tool.setuptools.packages.find]
where = ["src"]
[tool.setuptools_scm]
"""

FALLBACK = """\
import subprocess
from setuptools import setup
try:
    said = subprocess.run(["git", "describe", "--tags"], stdout=subprocess.PIPE, check=True, text=True).stdout
    version = said.strip().lstrip("v")
except (OSError, subprocess.CalledProcessError):
    version = "0+unknown"
setup(name="demo", version=version, py_modules=["demo"])
"""

POETRY = """\
[build-system]
requires = ["poetry-core>=2"]
build-backend = "poetry.core.masonry.api"
[project]
name = "demo"
version = "1.0"
"""


def project(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a project and commit it."""
    for name, text in {"bakery.toml": RECIPE, ".gitignore": IGNORED, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder, at=1_700_000_000)
    return folder


def files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def result(done: Done) -> object:
    return done.results()["wheel-cp311"]["result"]


@pytest.fixture(scope="module")
def scm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a checkout of a project of setuptools-scm, with data that only git knows."""
    told = {"pyproject.toml": SCM, "src/demo/__init__.py": "", "src/demo/tables/table.csv": "1,2\n"}
    folder = project(tmp_path_factory.mktemp("scm") / "project", told)
    git(folder, "tag", "v2.0.0rc1")
    return folder


def test_tracked_data_and_the_version_of_the_tag(scm: Path) -> None:
    (wheel,) = bakery(scm, "wheel").wheels
    assert wheel.name == "demo-2.0.0rc1-py3-none-any.whl"
    assert files(wheel) == {"demo/__init__.py", "demo/tables/table.csv"}
    assert result(bakery(scm, "wheel", "--if-changed")) == "kept"
    # No file changes, and yet the version does.
    commit(scm, at=1_700_000_100)
    (wheel,) = bakery(scm, "wheel", "--if-changed").wheels
    assert wheel.name.startswith("demo-2.0.0rc2.dev1+g")
    assert json.loads(bakery(scm, "why", "cp311", "--json").out)["bake"] == "last"
    git(scm, "tag", "v2026.11.3")
    said = json.loads(bakery(scm, "why", "cp311", "--json").out)
    (stage,) = (item for item in said["stages"] if item["stage"] == "git")
    assert (said["bake"], stage["state"]) == ("next", "rebuilt")
    assert stage["because"][0].startswith("repository ")
    (wheel,) = bakery(scm, "wheel", "--if-changed").wheels
    assert wheel.name == "demo-2026.11.3-py3-none-any.whl"


class Plain:
    """Plain docker in the folder of a project: no Bakery in the process."""

    def __init__(self, environment: Mapping[str, str], bundle: Path | None, out: Path) -> None:
        self.environment = {**environment, "DEST": str(out), **({"CA_BUNDLE": str(bundle)} if bundle else {})}
        self.reads, self.out = [str(bundle)] if bundle else [], out

    def bake(self, folder: Path, *reads: Path, **variables: object) -> None:
        """Bake the wheel; ``reads`` are allowed."""
        self.run(folder, *(f"--allow=fs.read={path}" for path in reads), **variables)

    def run(self, folder: Path, *words: str, **variables: object) -> None:
        """Bake the wheel with more words. Raises AssertionError, with what was said, if that fails."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()  # What is allowed must exist.
        allowed = [*(f"--allow=fs.read={path}" for path in self.reads), f"--allow=fs.write={self.out}"]
        environment = {**self.environment, **{name: str(value) for name, value in variables.items()}}
        command = ("docker", "buildx", "bake", "-f", "bake/demo.hcl", "--progress=plain", *allowed, *words, "wheel")
        shell(environment, *command, cwd=folder)

    @property
    def wheels(self) -> list[str]:
        return sorted(path.name for path in self.out.rglob("*.whl"))


@pytest.fixture
def plain(engine_environment: Mapping[str, str], ca_bundle: Path | None, tmp_path: Path) -> Plain:
    return Plain(engine_environment, ca_bundle, tmp_path / "wheels")


@pytest.mark.proof
def test_plain_docker_gives_the_same(scm: Path, plain: Plain) -> None:
    bakery(scm, "generate")
    git(scm, "add", "--all")
    commit(scm, at=1_700_000_200)
    git(scm, "tag", "--annotate", "--message", "x", "v3.1", at=1_700_000_200)
    git(scm, "pack-refs", "--all")
    (own,) = bakery(scm, "wheel", "--set", "SOURCE_DATE_EPOCH=315532800").wheels
    assert own.name == "demo-3.1-py3-none-any.whl"
    plain.bake(scm)
    assert digests(plain.out) == {own.name: digests(scm / "dist")[own.name]}


@pytest.fixture(scope="module", params=["sha1", pytest.param("sha256", marks=pytest.mark.proof)])
def asking(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Give a checkout with generated files, whose project has a version of its own without git."""
    folder = tmp_path_factory.mktemp(request.param) / "asking"
    folder.mkdir()
    git(folder, "init", "--quiet", f"--object-format={request.param}")
    project(folder, {"setup.py": FALLBACK, "demo.py": ""})
    bakery(folder, "generate")
    commit(folder, at=1_700_000_100)
    git(folder, "tag", "v7")
    return folder


NO_GIT = "the build asks git, and there is no git directory"
WHEEL = ["demo-7-py3-none-any.whl"]


def test_plain_bake_sends_no_configuration(asking: Path, plain: Plain) -> None:
    token = "canary-of-a-token"
    for name in ("config", "hooks/pre-push", "FETCH_HEAD", "logs/HEAD"):
        (asking / ".git" / name).parent.mkdir(exist_ok=True)
        with (asking / ".git" / name).open("a") as file:
            file.write(f"# {token}\n")
    plain.run(asking, "--set=*.target=git-files", f"--set=*.output=type=local,dest={plain.out}")
    sent = {path.relative_to(plain.out).as_posix(): path for path in plain.out.rglob("*") if path.is_file()}
    assert not [name for name, path in sent.items() if token.encode() in path.read_bytes()]
    names = {name.removeprefix("git-checkout/").split("/")[0] for name in sent}
    assert names == {"HEAD", "index", "exclude", "refs", "objects"}


@pytest.mark.proof
def test_plain_bake_of_a_worktree_a_submodule_and_an_archive(asking: Path, plain: Plain, tmp_path: Path) -> None:
    git(asking, "worktree", "add", "--quiet", "--detach", str(tmp_path / "worktree"))
    above = project(tmp_path / "above", {"README": ""})
    if len(git(asking, "rev-parse", "HEAD").strip()) == 40:
        git(above, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(asking), "demo")
        with pytest.raises(AssertionError, match=NO_GIT):
            plain.bake(above / "demo")
        modules = above / ".git" / "modules" / "demo"
        plain.bake(above / "demo", modules, GIT_DIRECTORY=modules)
        assert plain.wheels == WHEEL
    with pytest.raises(AssertionError, match=NO_GIT):
        plain.bake(tmp_path / "worktree")
    own = asking / ".git" / "worktrees" / "worktree"
    with pytest.raises(AssertionError, match="git cannot read"):
        plain.bake(tmp_path / "worktree", own, GIT_DIRECTORY=own)
    plain.bake(tmp_path / "worktree", asking, GIT_CHECKOUT=asking, GIT_DIRECTORY=own)
    assert plain.wheels == WHEEL
    archive = tmp_path / "archive"
    shutil.copytree(asking, archive, ignore=shutil.ignore_patterns(".git"))
    with pytest.raises(AssertionError, match=NO_GIT):
        plain.bake(archive)
    plain.bake(archive, GIT_CHECKOUT="")
    assert plain.wheels == ["demo-0+unknown-py3-none-any.whl"]


@pytest.mark.proof
def test_plain_bake_below_the_top(plain: Plain, tmp_path: Path) -> None:
    top = project(tmp_path / "top", {"sub/bakery.toml": RECIPE, "sub/setup.py": FALLBACK, "sub/demo.py": ""})
    bakery(top / "sub", "generate")
    commit(top, at=1_700_000_100)
    git(top, "tag", "v7")
    with pytest.raises(AssertionError, match=NO_GIT):
        plain.bake(top / "sub")
    plain.bake(top / "sub", top, GIT_CHECKOUT="..")
    assert plain.wheels == WHEEL


@pytest.mark.parametrize("release", ["8.3.1", pytest.param("10.*", marks=pytest.mark.proof)])
def test_source_below_the_top_has_its_files(tmp_path: Path, release: str) -> None:
    """Names with the path of the top, and names relative to it, are those of files: in an image, the top would be /."""
    text = SCM.replace("setuptools-scm>=8", f"setuptools-scm=={release}").replace(
        "setuptools>=77", "setuptools>=77,<81"
    )
    below = {
        "python/bakery.toml": f'{RECIPE}[builder]\nenvironment = {{ GIVEN = "/src/given.txt" }}\n',
        "python/pyproject.toml": f'{text}root = ".."\nwrite_to = "python/src/demo/_version.py"\n',
        "python/setup.py": "import os\nfrom setuptools import setup\nopen(os.environ['GIVEN']).close()\nsetup()\n",
        "python/given.txt": "",
        "python/src/demo/__init__.py": "",
        "python/src/demo/data.json": "{}",
    }
    top = project(tmp_path / "top", below)
    git(top, "tag", "v1.0.0")
    (wheel,) = bakery(top / "python", "wheel").wheels
    assert wheel.name == "demo-1.0.0-py3-none-any.whl"
    assert files(wheel) == {f"demo/{name}" for name in ("__init__.py", "data.json", "_version.py")}


def test_plain_docker_build(asking: Path, plain: Plain) -> None:
    bundle = ["--secret", f"id=ca-bundle,src={plain.reads[0]}"] if plain.reads else []
    output = ("--target=demo-wheel", f"--output=type=local,dest={plain.out}", *bundle)
    command = ("docker", "build", "-f", "dockerfiles/demo.Dockerfile", *output)
    with pytest.raises(AssertionError, match=NO_GIT):
        shell(plain.environment, *command, ".", cwd=asking)
    shell(plain.environment, *command, "--build-context=git-checkout=.", ".", cwd=asking)
    assert plain.wheels == WHEEL


@pytest.mark.proof
def test_a_fallback_is_not_needed(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", {"setup.py": FALLBACK, "demo.py": ""})
    git(folder, "tag", "v7")
    (wheel,) = bakery(folder, "wheel").wheels
    assert wheel.name == "demo-7-py3-none-any.whl"


@pytest.mark.proof
def test_a_password_in_an_ignored_file_is_not_packed(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", {"pyproject.toml": POETRY, "demo/__init__.py": ""})
    (folder / "demo" / "settings.local").write_text("password\n")
    (wheel,) = bakery(folder, "wheel").wheels
    assert files(wheel) == {"demo/__init__.py"}


@pytest.mark.proof
def test_who_does_not_ask_pays_nothing(tmp_path: Path) -> None:
    folder = pure(tmp_path / "project", RECIPE)
    project(folder, {})
    bakery(folder, "wheel")
    commit(folder, at=1_700_000_100)
    git(folder, "tag", "v1")
    assert result(bakery(folder, "wheel", "--if-changed")) == "kept"
    assert repeated(lambda: bakery(folder, "wheel", "--rebuild").ran()) == set()

    def after_a_change() -> list[str]:
        (folder / "more.py").write_text(folder.name + str(len(list(runs_of(folder).iterdir()))))
        return [step for step in bakery(folder, "wheel").ran() if step.split()[0].endswith("-again")]

    # The step with the repository has the same inputs, whatever the source is.
    assert repeated(after_a_change) == set()


def test_metadata_of_a_source_archive_is_sent(tmp_path: Path) -> None:
    text = SCM.replace("[tool.setuptools_scm]\n", "").replace('dynamic = ["version"]', 'version = "1.0"')
    folder = tmp_path / "demo-1.0"
    listed = "pyproject.toml\nsrc/demo/__init__.py\nsrc/demo/table.csv\nsrc/demo.egg-info/SOURCES.txt\n"
    told = {
        "bakery.toml": RECIPE,
        "pyproject.toml": text.replace('"setuptools-scm>=8"', '"setuptools-scm<0"').replace(', "setuptools-scm<0"', ""),
        "src/demo/__init__.py": "",
        "src/demo/table.csv": "1\n",
        "src/demo.egg-info/SOURCES.txt": listed,
    }
    for name, content in told.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (wheel,) = bakery(folder, "wheel").wheels
    assert files(wheel) == {"demo/__init__.py", "demo/table.csv"}

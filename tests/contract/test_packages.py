"""packages with the real pip: what has to be built, what names an address, and whose code runs when.

Every test has an index on loopback. Code of a package leaves a file, ``ran``, where it runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hostile_packages as hostile
import pytest
from repositories import commit, git
from sample import sampled

from bakery.toolchains import programs
from bakery.toolchains.programs.packages import sources
from bakery.toolchains.programs.packages.requirements import BUILT_HERE, requirement


class Bench:
    """The folders that packages reads and writes, an index, and an environment to install into."""

    def __init__(self, folder: Path, url: str, asked: list[str]) -> None:
        self.folder, self.url, self.asked = folder, url, asked
        self.index, self.ran = folder / "index", folder / "ran"
        self.environment = folder / "environment"
        for name in ("lock", "requirements", "sources", "built"):
            (folder / name).mkdir()

    def run(self, *words: str, code: int = 0) -> str:
        """Run packages as a step does; return what it printed."""
        program = self.folder / "packages"
        if not program.exists():
            program.mkdir()
            # The folders are those of a container; only their places differ here.
            for path, text in programs.texts("packages").items():
                moved = re.sub(r'(?<== ")/(?=(?:lock|requirements|sources|built)[/"])', f"{self.folder}/", text)
                (self.folder / path).write_text(moved)
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(program), *words],
            env={**os.environ, **hostile.settings(self.url)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def resolve(self, *words: str, options: tuple[str, ...] = (), code: int = 0) -> str:
        return self.run("resolve", "build", *options, "--", *words, code=code)

    def install(self) -> str:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.environment)], check=True)
        return self.run("install", "build", str(self.environment))

    def python(self, program: str) -> str:
        """Run a program in the environment."""
        python = str(self.environment / "bin/python")
        return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout

    def told(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads((self.folder / "requirements/build.json").read_text())["packages"]
        return found

    def code(self) -> str:
        """Return Python that leaves a file where it runs."""
        return f"open({str(self.ran)!r}, 'a').write('x')\n"


def site() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "index").mkdir()
    with hostile.served(tmp_path / "index") as (url, asked):
        yield Bench(tmp_path, url, asked)


def test_a_source_archive_is_resolved_as_data_then_built_then_installed_by_hash(bench: Bench) -> None:
    hostile.backend(bench.index)
    hostile.wheel(bench.index, "other", files={"other.py": ""})
    more = f"MODULE = 'NUMBER = 7'\nMORE = 'Requires-Dist: other\\n'\n{bench.code()}"
    hostile.sdist(bench.index, "only", setup=more, info="Requires-Dist: other\n")
    bench.resolve("only>=1")
    assert not bench.ran.exists(), "resolving ran code of the archive"
    lines = (bench.folder / "requirements/build.txt").read_text().splitlines()
    assert [line.split(" --hash=sha256:")[0] for line in lines] == ["only==1.0", "other==1.0"]
    assert [line.endswith(BUILT_HERE) for line in lines] == [True, False]
    assert {item["name"]: item["file"] for item in bench.told()}["only"] == "only-1.0.tar.gz"
    assert (bench.folder / "sources/build/0/wheels/ownbackend-1.0-py3-none-any.whl").is_file()
    asked = len(bench.asked)
    bench.run("build", "build")
    assert bench.ran.exists()
    assert len(bench.asked) == asked, "the build needs no index"
    bench.install()
    assert bench.python("import only, other; print(only.NUMBER)") == "7\n"


@pytest.mark.proof
def test_what_a_wheel_requires_may_have_none(bench: Bench) -> None:
    hostile.backend(bench.index)
    hostile.sdist(bench.index, "deep", "1.5", setup=bench.code())
    hostile.sdist(bench.index, "deep", "2.5", setup=bench.code())
    hostile.wheel(bench.index, "top", requires=("deep<2",))
    bench.resolve("top")
    assert {item["name"]: item["version"] for item in bench.told()} == {"top": "1.0", "deep": "1.5"}
    assert not bench.ran.exists()


@pytest.mark.parametrize("words", sampled([(("new", "old"),), (("old", "new"),), (("foo>=1", "foo<2"),)], 3))
def test_two_bounds_of_a_package_without_wheels(bench: Bench, words: tuple[str, ...]) -> None:
    hostile.backend(bench.index)
    for version in ("1.0", "3.0"):
        hostile.sdist(bench.index, "foo", version)
    hostile.wheel(bench.index, "new", requires=("foo>=1",))
    hostile.wheel(bench.index, "old", requires=("foo<2",))
    bench.resolve(*words)
    assert {item["name"]: item["version"] for item in bench.told()}["foo"] == "1.0"


@pytest.mark.parametrize(("asked", "version"), sampled([("foo==1.*", "1.0"), ("foo", "1.0"), ("foo==1.5", "1.5")], 2))
def test_a_release_that_was_withdrawn_and_one_for_no_python(bench: Bench, asked: str, version: str) -> None:
    """As pip: only a pin takes what was withdrawn (PEP 592), and what is no specifier refuses no Python."""
    hostile.backend(bench.index)
    for number, attribute in (("1.0", "data-requires-python='3.6'"), ("1.5", "data-yanked=''")):
        hostile.sdist(bench.index, "foo", number)
        (bench.index / "foo" / f".foo-{number}.tar.gz").write_text(attribute)
    bench.resolve(asked)
    assert [item["version"] for item in bench.told()] == [version]


def test_an_index_that_has_other_hashes(bench: Bench) -> None:
    hostile.wheel(bench.index, "foo")
    (bench.index / "foo" / ".md5").touch()
    bench.resolve("foo")
    bench.install()


def test_a_wheel_is_preferred_to_a_newer_source(bench: Bench) -> None:
    hostile.sdist(bench.index, "both", "2.0", setup=bench.code())
    hostile.wheel(bench.index, "both", "1.0")
    bench.resolve("both")
    assert [item["file"] for item in bench.told()] == ["both-1.0-py3-none-any.whl"]


@pytest.mark.proof
def test_an_old_archive_tells_its_requirements_in_another_file(bench: Bench) -> None:
    """setuptools before 68.3 wrote requires.txt, and nothing of it into PKG-INFO."""
    info = {"old.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: old\n", "old.egg-info/requires.txt": "other>=1\n"}
    hostile.sdist(bench.index, "old", files=info)
    hostile.backend(bench.index)
    hostile.wheel(bench.index, "other")
    bench.resolve("old")
    assert [item["name"] for item in bench.told()] == ["old", "other"]


def test_a_requirement_that_only_the_build_tells_is_told(bench: Bench) -> None:
    hostile.backend(bench.index)
    hostile.sdist(bench.index, "sly", setup="MORE = 'Requires-Dist: other>=3\\n'\n")
    bench.resolve("sly")
    said = bench.run("build", "build", code=1)
    assert "sly was built from its source, and requires other>=3" in said
    assert "name it beside sly" in said


@pytest.mark.proof
def test_a_source_that_builds_another_package_is_refused(bench: Bench) -> None:
    hostile.backend(bench.index)
    hostile.sdist(bench.index, "sly", setup="NAME = 'setuptools'\n")
    bench.resolve("sly")
    assert "the source of sly 1.0 builds setuptools-1.0-py3-none-any.whl" in bench.run("build", "build", code=1)


@pytest.mark.proof
def test_an_archive_whose_version_would_be_an_option_of_pip_is_refused(bench: Bench) -> None:
    hostile.sdist(bench.index, "sly", files={"PKG-INFO": "Name: sly\nVersion: 1.0 --index-url=http://evil\n"})
    said = bench.resolve("sly", code=1)
    assert "says that its version is '1.0 --index-url=http://evil'" in said


def test_what_a_build_requires_must_have_wheels(bench: Bench) -> None:
    hostile.sdist(bench.index, "ownbackend", setup=bench.code())
    hostile.sdist(bench.index, "only")
    said = bench.resolve("only", code=1)
    assert "only has no wheel here, and what its build requires has none, either" in said
    assert not bench.ran.exists()


def address(bench: Bench, name: str = "evil") -> str:
    hostile.backend(bench.index)
    hostile.sdist(bench.index, name, setup=bench.code())
    return f"{name} @ {bench.url}/{name}/{name}-1.0.tar.gz"


def test_a_requirement_by_address_is_refused(bench: Bench) -> None:
    word = address(bench)
    listed = bench.folder / "build-requires.txt"
    listed.write_text(f"{word}\n")
    for words in (("-r", str(listed)), (word,), ("evil @ git+https://host/evil.git",)):
        said = bench.resolve(*words, code=1)
        assert "bakery: evil @ " in said
        assert 'allow it by name: builder.allow-direct = ["evil"]' in said
    assert bench.asked == []
    assert not bench.ran.exists()


@pytest.mark.parametrize(
    ("start", "user"),
    [
        ("evil @ ", "us3r:t0ken"),
        ("", "us3r:t0ken"),
        ("evil @ ", "t0ken"),
        ("evil @ ", "us3r:pa/t0ken"),
        ("", "a:b?t0ken#"),
    ],
)
def test_a_refused_address_is_shown_without_what_may_be_a_secret(bench: Bench, start: str, user: str) -> None:
    said = bench.resolve(f"{start}git+https://{user}@host/evil.git?key=t0ken#subdirectory=a", code=1)
    assert "git+https://host/evil.git#subdirectory=a" in said
    assert not {"us3r", "t0ken"} & set(re.findall(r"\w+", said))


@pytest.mark.parametrize("user", ["us3r:t0ken", "t0ken"])
def test_an_allowed_address_holds_no_user(bench: Bench, user: str) -> None:
    said = bench.resolve(f"evil @ git+https://{user}@host/evil.git", options=("--direct=evil",), code=1)
    assert "the address of evil holds a user or a password" in said
    assert "t0ken" not in said


@pytest.mark.parametrize("line", ["--index-url=http://evil/simple", "-e .", "./evil", "git+https://host/evil.git"])
def test_a_line_of_a_project_that_is_no_requirement_is_refused(bench: Bench, line: str) -> None:
    listed = bench.folder / "build-requires.txt"
    listed.write_text(f"{line}\n")
    assert f"bakery: {line!r} is no requirement" in bench.resolve("-r", str(listed), code=1)


def test_a_dependency_by_address_is_refused_and_never_built(bench: Bench) -> None:
    hostile.wheel(bench.index, "parent", requires=(address(bench),))
    said = bench.resolve("parent", code=1)
    assert f"parent requires evil @ {bench.url}/evil/evil-1.0.tar.gz" in said
    assert not bench.ran.exists()


@pytest.mark.proof
def test_a_dependency_by_the_address_of_a_wheel_is_refused_unless_it_is_allowed(bench: Bench) -> None:
    file = hostile.wheel(bench.index, "evil")
    hostile.wheel(bench.index, "parent", requires=(f"evil @ {bench.url}/evil/{file.name}",))
    assert 'builder.allow-direct = ["evil"]' in bench.resolve("parent", code=1)
    bench.resolve("parent", options=("--direct=Evil",))
    assert {item["name"] for item in bench.told() if "origin" in item} == {"evil"}


@pytest.mark.proof
def test_what_a_source_is_built_with_may_name_no_address_either(bench: Bench) -> None:
    table = f'[build-system]\nrequires = ["{address(bench)}"]\nbuild-backend = "evil"\n'
    hostile.sdist(bench.index, "only", files={"pyproject.toml": table})
    assert "the build of only requires evil @ " in bench.resolve("only", code=1)
    assert not bench.ran.exists()


def test_an_allowed_address_is_built_without_network(bench: Bench) -> None:
    word = address(bench)
    bench.resolve(word, options=("--direct=evil",))
    assert not bench.ran.exists()
    (item,) = bench.told()
    assert item["origin"] == word.partition(" @ ")[2]
    bench.run("build", "build")
    bench.install()
    assert bench.python("import evil") == ""


def serve_repository(bench: Bench, work: Path) -> str:
    """Put a folder into the index as a repository with a tag, and return its commit."""
    git(work, "init", "--quiet")
    commit(work, 1_700_000_000)
    git(work, "tag", "v3")
    git(work, "branch", "develop")
    git(bench.index, "clone", "--quiet", "--bare", str(work), "own.git")
    git(bench.index / "own.git", "update-server-info")
    return git(work, "rev-parse", "HEAD")


@pytest.mark.proof
def test_an_allowed_repository_is_built_at_its_commit(bench: Bench, tmp_path: Path) -> None:
    hostile.backend(bench.index)
    work = tmp_path / "work"
    work.mkdir()
    (work / "pyproject.toml").write_text(f'{hostile.PYPROJECT}[project]\nname = "own"\nversion = "3.0"\n')
    (work / "setup.py").write_text(f"NAME, VERSION = 'own', '3.0'\n{bench.code()}")
    head = serve_repository(bench, work)
    bench.resolve(f"own @ git+{bench.url}/own.git@v3", options=("--direct=own",))
    (item,) = bench.told()
    assert (item["version"], item["file"]) == ("3.0", "")
    assert item["origin"] == f"git+{bench.url}/own.git@{head}"
    assert not bench.ran.exists()
    bench.run("build", "build")
    bench.install()
    assert bench.python("import own") == ""


def test_a_branch_that_is_not_the_default(bench: Bench, tmp_path: Path) -> None:
    hostile.backend(bench.index)
    work = tmp_path / "work"
    work.mkdir()
    (work / "pyproject.toml").write_text(f'{hostile.PYPROJECT}[project]\nname = "own"\nversion = "3.0"\n')
    head = serve_repository(bench, work)
    bench.resolve(f"own @ git+{bench.url}/own.git@develop", options=("--direct=own",))
    assert [item["origin"] for item in bench.told()] == [f"git+{bench.url}/own.git@{head}"]


@pytest.mark.parametrize("word", ["other @ git+https://example.invalid/other.git", 'other>1;python_version>"3"'])
def test_a_requirement_of_an_extra_has_its_marker(word: str) -> None:
    assert 'extra == "dev"' in str(requirement(sources.with_extra(word, "dev")).marker)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("evil-1.0.tar.gz#subdirectory=../../../../../etc", "leads out of the source"),
        ("..%2F..%2F..%2Ftmp%2Fevil-1.0.tar.gz", "is no name of an archive"),
    ],
)
def test_an_allowed_address_leads_to_no_other_folder(bench: Bench, end: str, said: str) -> None:
    """What is copied out of a step with secrets is the source, and no file of that step."""
    word = f"{address(bench).rpartition('/')[0]}/{end}"
    assert said in bench.resolve(word, options=("--direct=evil",), code=1)


@pytest.mark.parametrize("name", ["pyproject.toml", "PKG-INFO", "sub"])
def test_a_link_in_a_repository_leads_to_no_other_folder(bench: Bench, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "PKG-INFO").write_text("Name: own\nVersion: 1\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / name).symlink_to(secret if name == "sub" else secret / "PKG-INFO")
    serve_repository(bench, work)
    more = "#subdirectory=sub" if name == "sub" else ""
    said = bench.resolve(f"own @ git+{bench.url}/own.git{more}", options=("--direct=own",), code=1)
    assert f"{name} leads out of the source" in said


def test_code_of_installed_packages_does_not_run_beside_pip(bench: Bench) -> None:
    """A ``.pth`` file, modules that pip would import if they were there, and another python."""
    hostile.wheel(
        bench.index,
        "evil",
        files={
            "evil.pth": f"import os; {bench.code()}",
            **dict.fromkeys(("sitecustomize.py", "keyring.py", "brotli.py"), bench.code()),
            "pip/__init__.py": bench.code(),
            "evil-1.0.data/scripts/python": f"#!/bin/sh\ntouch {bench.ran}\n",
        },
    )
    wheel = hostile.wheel(bench.index, "late", requires=("evil",))
    bench.resolve("evil")
    bench.install()
    bench.run("wheel", str(bench.environment), str(wheel))
    assert not bench.ran.exists()
    assert (bench.environment / "lib" / site() / "late-1.0.dist-info").is_dir()
    subprocess.run([bench.environment / "bin/python3", "-c", ""], check=False)
    assert bench.ran.exists(), "its code would run as soon as the environment's own Python starts"


def test_a_configuration_of_pip_in_an_environment_is_refused(bench: Bench) -> None:
    """A wheel may put files at the top of an environment."""
    hostile.wheel(bench.index, "evil", files={"evil-1.0.data/data/pip.conf": "[global]\nindex-url = http://evil\n"})
    wheel = hostile.wheel(bench.index, "late", requires=("evil",))
    bench.resolve("evil")
    bench.install()
    assert "an installed package brought" in bench.run("wheel", str(bench.environment), str(wheel), code=1)


def test_a_wheel_that_requires_an_address_is_refused(bench: Bench) -> None:
    file = hostile.wheel(bench.index, "evil")
    word = f"evil @ {bench.url}/evil/{file.name}"
    wheel = hostile.wheel(bench.index, "late", requires=(word,))
    bench.resolve()
    bench.install()
    said = bench.run("wheel", str(bench.environment), str(wheel), code=1)
    assert f"the wheel requires {word}" in said


@pytest.mark.proof
def test_locked_source_archives_are_fetched_and_built(bench: Bench) -> None:
    hostile.backend(bench.index)
    for name in ("one", "two"):
        hostile.sdist(bench.index, name, setup=f"MODULE = 'NAME = \"{name}\"'\n")
    bench.resolve("one", "two")
    told = json.loads((bench.folder / "requirements/build.json").read_text())
    (bench.folder / "lock/locked.json").write_text(json.dumps(told))
    # The index has newer ones by now, and another file under the name of one that is locked.
    hostile.sdist(bench.index, "one", "2.0")
    shutil.rmtree(bench.folder / "sources/build")
    bench.resolve("one", "two")
    bench.run("build", "build")
    bench.install()
    assert bench.python("import one, two; print(one.NAME, two.NAME)") == "one two\n"
    hostile.sdist(bench.index, "two", setup="MODULE = ''\n")
    assert "sdist: two-1.0.tar.gz is locked as sha256 " in bench.resolve("one", "two", code=1)


def test_a_lock_cannot_name_an_address_that_is_not_allowed(bench: Bench) -> None:
    item = {
        "name": "setuptools",
        "version": "80",
        "file": "setuptools-80-py3-none-any.whl",
        "sha256": "0" * 64,
        "origin": f"{bench.url}/evil/setuptools-80-py3-none-any.whl",
    }
    locked = {"requirements": ["setuptools"], "packages": [item], "strict": True}
    (bench.folder / "lock/locked.json").write_text(json.dumps(locked))
    said = bench.resolve("setuptools", code=1)
    assert "bakery.lock requires setuptools @ " in said


def test_the_folder_runs_without_a_warning() -> None:
    folder = Path(programs.__file__).parent / "packages"
    words = [sys.executable, "-W", "error", "-I", "-S", str(folder), "nothing"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Warning" not in done.stderr
    assert "Usage: packages" in done.stderr + done.stdout

"""Every credential of a machine over every way to build: none is in a step that did not name it, and none is left anywhere.

Hostile code runs wherever a recipe or a package can bring some: it says what it sees, and prints it.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import canaries
import hostile_packages as hostile
import pytest
import stores
from canaries import NAMES, Processes, Spellings
from cibuildwheel_image import can_be_made, make_image
from command import ROOT, Done, bakery, shell
from farm import GATE, certificates, free_port
from gpu_tests import make_driver
from noting_docker import write_docker
from projects import SOURCE, extension, pure
from runs import runs_of
from wheels import write_wheel

from bakery.engine.package_index import configured

pytestmark = pytest.mark.engine

PLANTED = ("key.txt", "config", "look.py")
"""Files of the project that hold a value because a test put it there: a secret's file, git's configuration."""

RECIPE = """\
name = "demo"
[matrix]
python = ["3.11"]
[builder]
before-build = "python3 look.py before"
compiler-cache = false
[native]
command = "python3 look.py native && cp look.py /native/"
into = "native"
[wheel]
repair = false
[test]
requirements = ["TESTSPY"]
imports = ["demo"]
command = "python look.py test; cat /var/tmp/told"
files = ["look.py"]
[secrets.of-variable]
env = "MY_TOKEN"
steps = ["compile"]
variable = "TOLD"
[secrets.of-file]
file = "key.txt"
steps = ["requirements", "test"]
[secrets.of-command]
command = COMMAND
steps = ["native"]
"""

ALWAYS = {"docker-proxy"}
"""What docs/security.md says of every step: docker gives it the proxies of its configuration."""

ALLOWED = {"compile": {"env"}, "build-pth": {"env"}, "native": {"command"}, "test": {"file"}, "test-pth": {"file"}}
"""What code sees besides in the steps that name a secret; the network in none."""

BACKEND = """\
import look, os, sys
def get_requires_for_build_wheel(config_settings=None):
    # What it prints is not shown.
    if not look.looks("ask").endswith(b"SAW ask: PROXY."):
        sys.exit("it saw a credential")
    return []
"""


@dataclass
class Machine:
    """A user's machine: a home with every file that holds a credential, and every variable.

    Attributes:
        index: the folder of the packages that its index has.
        looks: `canaries.LOOKS`, which finds the network where its index answers.
        searched: folders that nothing may leave a value in.
        extra: one more variable, which replaces the extra indexes of pip's file.
    """

    folder: Path
    values: Mapping[str, str]
    environment: dict[str, str]
    index: Path
    looks: str
    spellings: Spellings
    searched: list[Path]
    extra: Mapping[str, str]

    def run(self, folder: Path, *words: str, code: int = 0, more: Mapping[str, str] | None = None) -> Done:
        """Run a command of Bakery; nothing that it prints, writes or starts may hold a value."""
        before = victim(self.folder)
        with Processes(self.spellings) as processes:
            done = bakery(folder, *words, code=code, environment={**self.environment, **(more or {})})
        assert not self.spellings.found((done.out + done.err).encode())
        # Docker gives containers its proxies; cibuildwheel repeats them as arguments of `env` (docs/security.md).
        proxy = self.values["docker-proxy"].encode()
        told = {
            line.replace(proxy, b"") if line.startswith(b"env\0CIBUILDWHEEL=1\0") else line for line in processes.found
        }
        assert not [line for line in told if self.spellings.in_data(line)]
        assert "\x1b" not in done.out + done.err
        assert victim(self.folder) == before
        for searched in (folder, *self.searched):
            assert self.spellings.holders(searched, but=PLANTED) == []
        return done

    @staticmethod
    def seen(text: str) -> dict[str, set[str]]:
        """Return place → the credentials that code saw there, by a log."""
        found: dict[str, set[str]] = {}
        for place, codes in re.findall(r"SAW ([\w-]+): ([\d ]*)\.", text):
            found.setdefault(place, set()).update(
                (*NAMES, "network")[min(int(code), len(NAMES))] for code in codes.split()
            )
        return found


def victim(folder: Path) -> dict[str, bytes]:
    """Return the files of the user that nothing may change."""
    paths = [path for name in ("home", "index") for path in (folder / name).rglob("*")]
    # Docker's client keeps its builders there. pip asks rustc for its version, and rustup makes its folder then.
    own = {"buildx", ".rustup"}
    return {str(path): path.read_bytes() for path in paths if path.is_file() and own.isdisjoint(path.parts)}


def home(folder: Path, values: Mapping[str, str]) -> dict[str, str]:
    """Write the files of a user; return the variables that lead to them."""
    # No step uses this proxy.
    docker = {"proxies": {"default": {"ftpProxy": f"http://me:{values['docker-proxy']}@127.0.0.1:9"}}}
    docker |= {"auths": {"registry.invalid": {"auth": base64.b64encode(f"me:{values['docker']}".encode()).decode()}}}
    files = {
        ".netrc": f"machine index.invalid login me password {values['netrc']}\n",
        "other-netrc": f"machine index.invalid login me password {values['netrc-variable']}\n",
        ".docker/config.json": json.dumps(docker),
        ".cargo/config.toml": f'[registries.mine]\nindex = "sparse+https://c.invalid/"\ntoken = "{values["cargo-config"]}"\n',
        ".cargo/credentials.toml": f'[registries.mine]\ntoken = "{values["cargo-credentials"]}"\n',
        ".gitconfig": f'[url "https://me:{values["git-instead"]}@git.invalid/"]\n\tinsteadOf = https://git.invalid/\n'
        "[credential]\n\thelper = store\n",
        ".git-credentials": f"https://me:{values['git-store']}@git.invalid\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    variables = {
        "UV_INDEX_URL": f"https://me:{values['uv-index']}@index.invalid/simple",
        "TWINE_PASSWORD": values["twine"],
        "CARGO_REGISTRIES_MINE_TOKEN": values["cargo-variable"],
        "BAKERY_COMPILER_CACHE_READ_PASSWORD": values["store-read"],
        "AWS_SECRET_ACCESS_KEY": values["aws-key"],
        "AWS_SESSION_TOKEN": values["aws-token"],
        "BAKERY_CACHE_KEY": values["cache-key"],
        "MY_TOKEN": values["env"],
        "ACTIONS_RUNTIME_TOKEN": values["runner"],
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": values["runner-identity"],
        "GITHUB_TOKEN": values["github"],
    }
    places = {"HOME": str(folder), "NETRC": str(folder / "other-netrc"), "CARGO_HOME": str(folder / ".cargo")}
    return {**variables, **places, "BAKERY_ALLOW": "secret.env=MY_TOKEN secret.command=of-command"}


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, engine_environment: Mapping[str, str], debian: str
) -> Iterator[Machine]:
    """Give a machine with a private index and a store of compiled objects, both with a password."""
    assert debian
    folder, values = tmp_path_factory.mktemp("machine"), canaries.made()
    told = json.loads(shell(engine_environment, "docker", "network", "inspect", "bridge"))
    host = told[0]["IPAM"]["Config"][0].get("Gateway") or "172.17.0.1"
    index = folder / "index"
    index.mkdir()
    hostile.backend(index)
    kept = {name: engine_environment[name] for name in ("PATH", "DOCKER_HOST") if name in engine_environment}
    environment = {**kept, **home(folder / "home", values)}
    environment |= {name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR")}
    (folder / "TMPDIR").mkdir()
    environment["XDG_DATA_HOME"] = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    # The plugins of the client, with the passwords of this user.
    own, mine = Path(engine_environment.get("DOCKER_CONFIG") or Path.home() / ".docker"), folder / "home/.docker"
    (mine / "cli-plugins").symlink_to(own / "cli-plugins")
    if (own / "config.json").is_file():
        merged = json.loads((own / "config.json").read_text()) | json.loads((mine / "config.json").read_text())
        (mine / "config.json").write_text(json.dumps(merged))
    # Under another name the private engine is an engine of the user, with the user's configuration of docker.
    if environment.get("DOCKER_HOST", "").startswith("unix://"):
        (folder / "d.sock").symlink_to(environment["DOCKER_HOST"].removeprefix("unix://"))
        environment["DOCKER_HOST"] = f"unix://{folder}/d.sock"
    environment["DOCKER_CONFIG"] = str(mine)
    with hostile.served(index, host) as (url, _):
        # pip takes the first index from the variable, and the others from its file.
        indexes = {name: url.replace("://", f"://me:{values[name]}@") for name in ("index", "extra-index", "pip-conf")}
        environment["PIP_INDEX_URL"] = indexes["index"]
        config = f"[global]\ntrusted-host = {host}\nextra-index-url = {configured().url} {indexes['pip-conf']}\n"
        (folder / "pip.conf").write_text(config)
        environment["PIP_CONFIG_FILE"] = str(folder / "pip.conf")
        extra = {"PIP_EXTRA_INDEX_URL": f"{configured().url} {indexes['extra-index']}"}
        spellings = Spellings(values)
        searched = [folder / name for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR")]
        address = repr((host, int(url.rpartition(":")[2])))
        looks = canaries.LOOKS.replace("ADDRESS", address)
        yield Machine(folder, values, environment, index, looks, spellings, searched, extra)


@pytest.fixture(scope="module")
def project(machine: Machine) -> Path:
    """Give a project in a repository; all of its code, and that of its dependencies, is hostile."""
    own = os.urandom(4).hex()
    looks = machine.looks
    for name, place in ((f"spyb{own}", "build-pth"), (f"spyt{own}", "test-pth")):
        pth = {f"{name}.pth": f"import {name}", f"{name}.py": f"{looks}\nlooks({place!r})\n"}
        hostile.wheel(machine.index, name, files=pth)
    told = "MODULE = 'TOLD = ' + repr(open('/var/tmp/told').read())"
    hostile.sdist(machine.index, f"loot{own}", setup=f"{looks}\nlooks('sdist')\n{told}\n")
    command = json.dumps([sys.executable, "-c", "import os; print(open(os.environ['HELD']).read())"])
    folder = pure(machine.folder / "project", RECIPE.replace("TESTSPY", f"spyt{own}").replace("COMMAND", command))
    (machine.folder / "held").write_text(machine.values["command"])
    machine.environment["HELD"] = str(machine.folder / "held")
    (folder / "key.txt").write_text(machine.values["file"])
    (folder / "look.py").write_text(f"{looks}\nif __name__ == '__main__':\n    looks(__import__('sys').argv[1])\n")
    (folder / "native").mkdir()
    (folder / "native/kept").touch()
    table = (folder / "pyproject.toml").read_text()
    needs = json.dumps(["setuptools>=77", f"spyb{own}", f"loot{own}"])
    (folder / "pyproject.toml").write_text(table.replace('["setuptools>=77"]', needs))
    backend = (folder / "backend.py").read_text()
    # The wheel holds all that was seen, but for the secret that this step names: with it, it is refused.
    dump = (
        '    seen = look.looks("compile").replace(os.environ["TOLD"].encode(), b"").replace(os.environ["FTP_PROXY"].encode(), b"")\n'
        f"    import loot{own}\n"
        f"    print(open('/var/tmp/told').read(), loot{own}.TOLD, flush=True)\n"
    )
    backend = backend.replace("    told = {\n", f"{dump}    told = {{\n")
    backend = backend.replace("dict(os.environ),", '{"seen": seen.decode("latin-1")},')
    proxy = f"{NAMES.index('docker-proxy'):02d}"
    (folder / "backend.py").write_text(BACKEND.replace("PROXY", proxy) + backend)
    (folder / ".gitignore").write_text("dist\nkey.txt\n")
    for words in (("init",), ("add", "--all"), ("-c", "user.name=x", "-c", "user.email=x", "commit", "-m", "x")):
        shell(dict(os.environ), "git", "-C", str(folder), *words)
    remote = f"https://me:{machine.values['git-remote']}@git.invalid/x.git"
    shell(dict(os.environ), "git", "-C", str(folder), "remote", "add", "origin", remote)
    return folder


@pytest.fixture(scope="module")
def baked(machine: Machine, project: Path) -> Done:
    return machine.run(project, "full")


def check(seen: Mapping[str, set[str]], *places: str) -> None:
    """Check that code ran at places, and saw what these name and nothing else."""
    assert seen.keys() >= set(places)
    for place, names in seen.items():
        assert ALWAYS <= names <= ALLOWED.get(place, set()) | ALWAYS, place
    for place in set(places) & {"compile", "native", "test"}:
        assert seen[place] == ALLOWED[place] | ALWAYS


PLACES = ("before", "compile", "build-pth", "native", "sdist", "test", "test-pth")


def test_a_bake(machine: Machine, baked: Done) -> None:
    text = baked.log("wheel-cp311") + baked.log("test-cp311")
    check(machine.seen(text), *PLACES)
    assert "DUMP" in text, "nothing was printed that a mask could hide"


@pytest.mark.proof
def test_no_layer_holds_one(machine: Machine, baked: Done) -> None:
    layers = machine.folder / "layers"
    cache = {"BAKERY_CACHE": "local", "BAKERY_CACHE_DIR": str(layers), "BAKERY_CACHE_READ_ONLY": "false"}
    machine.run(baked.folder, "full", more=cache)
    assert machine.spellings.holders(layers) == []
    assert sum(path.stat().st_size for path in layers.rglob("*")) > 100_000_000


@pytest.mark.proof
def test_objects_of_a_store(machine: Machine, tmp_path: Path) -> None:
    with stores.redis(tmp_path, machine.values["store"]) as store:
        recipe = 'name = "tiny"\n[matrix]\npython = ["3.11"]\n'
        source = f'extern "C" const char fresh[] = "{os.urandom(8).hex()}";\n{SOURCE}'
        told = f"{machine.looks}\nlooks('setup')\n"
        folder = extension(tmp_path / "project", recipe, source, setup=told)
        done = machine.run(folder, "wheel", more=store)
    assert re.search(r"compiler cache: [1-9]\d* objects? .* saved", done.err)
    assert machine.seen(done.log("wheel-cp311")) == {"setup": ALWAYS}


@pytest.mark.proof
def test_reproduce_needs_the_same_grants(machine: Machine, baked: Done) -> None:
    wheel = str(baked.wheels[0])
    refused = machine.run(baked.folder, "reproduce", wheel, code=2, more={"BAKERY_ALLOW": ""})
    assert "--allow secret.env=MY_TOKEN" in refused.err
    assert "--allow secret.command=of-command" in refused.err


@pytest.mark.proof
def test_a_reproduced_wheel(machine: Machine, baked: Done) -> None:
    """Everything is built again, without caches. The wheel is another one: it holds numbers of processes."""
    done = machine.run(baked.folder, "reproduce", str(baked.wheels[0]), code=13, more={"BAKERY_PROGRESS": "rawjson"})
    lines = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    printed = b"".join(base64.b64decode(log["data"]) for line in lines for log in line.get("logs") or ())
    check(machine.seen(printed.decode()), "before", "compile", "build-pth", "native", "sdist")
    assert not machine.spellings.found(printed)


@pytest.mark.proof
def test_a_lock(machine: Machine, baked: Done) -> None:
    copy = shutil.copytree(baked.folder, machine.folder / "locked", symlinks=True)
    machine.run(copy, "lock", more=machine.extra)


TLS = (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))


@pytest.mark.proof
def test_a_node(machine: Machine, baked: Done, tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    """The engine itself, over TCP with TLS."""
    certificates(tmp_path / "tls")
    port, socket = free_port(), engine_environment["DOCKER_HOST"].removeprefix("unix://")
    words = [sys.executable, str(GATE), socket, str(port), str(tmp_path / "tls")]
    tls = ", ".join(f'{key} = "{tmp_path}/tls/{file}"' for key, file in TLS)
    project = shutil.copytree(baked.folder, machine.folder / "far", symlinks=True)
    with (project / "bakery.toml").open("a") as recipe:
        recipe.write(f'[builders.farm]\ndriver = "remote"\ntls = {{ {tls}, server-name = "node.test" }}\n')
        recipe.write(f'[[builders.farm.nodes]]\nname = "one"\nendpoint = "tcp://127.0.0.1:{port}"\n')
    # A new source: all steps that see it run.
    with (project / "look.py").open("a") as source:
        source.write(f"# {os.urandom(8).hex()}\n")
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as gate:
        try:
            assert gate.stdout
            assert gate.stdout.readline() == "listening\n"
            done = machine.run(project, "full", "--builder", "farm", more=machine.extra)
            machine.run(project, "builders", "rm", "farm")
        finally:
            gate.terminate()
    assert {item["node"] for item in done.results().values()} == {"one"}
    check(machine.seen(done.log("wheel-cp311") + done.log("test-cp311")), *PLACES)


@pytest.mark.proof
def test_a_gpu_test(machine: Machine, project: Path, tmp_path: Path) -> None:
    """It runs on the machine itself: its processes have no credential, but may read what their user may."""
    assert project
    name = f"spyg{os.urandom(4).hex()}"
    looks = f"{machine.looks}\nlooks('PLACE', everywhere=False)\n"
    hostile.wheel(
        machine.index, name, files={f"{name}.pth": f"import {name}", f"{name}.py": looks.replace("PLACE", "gpu-pth")}
    )
    (tmp_path / "look.py").write_text(looks.replace("PLACE", "gpu"))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / "bakery.toml").write_text(
        f'name = "demo"\n[matrix]\npython = ["{version}"]\n[test]\ngpu = true\nrequirements = ["{name}"]\n'
        'imports = ["demo"]\nfiles = ["look.py"]\ncommand = "python look.py"\n'
    )
    wheel = write_wheel(tmp_path, "py3-none-any", {})
    driver = {"LD_LIBRARY_PATH": str(make_driver(tmp_path / "driver"))}
    done = machine.run(tmp_path, "gpu-test", str(wheel), more=driver)
    seen = machine.seen(done.out + done.err)
    # It has the network of the machine.
    assert seen == {"gpu": {"network"}, "gpu-pth": {"network"}}


def test_cibuildwheel(machine: Machine, tmp_path: Path) -> None:
    """Up to the container that it would make: no image for it is here. What it may see stands in docs/security.md."""
    calls = write_docker(tmp_path)
    folder = pure(tmp_path / "project", 'name = "demo"\n[matrix]\npython = ["3.11"]\n')
    path = {"PATH": f"{tmp_path}:{machine.environment['PATH']}"}
    refused = machine.run(folder, "wheel", "--backend", "cibuildwheel", code=2, more=path)
    (grant,) = re.findall(r"--allow (index=\S+)", refused.err)
    assert '"create"' not in calls.read_text()
    machine.run(folder, "wheel", "--backend", "cibuildwheel", "--allow", grant, code=7, more=path)
    noted = calls.read_text()
    assert '"create"' in noted
    assert not machine.spellings.found(noted.encode())
    assert not re.search(r'"(BAKERY|ACTIONS)_', noted)


@pytest.mark.proof
def test_a_container_of_cibuildwheel(machine: Machine, tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    """For real, with an image made of this machine's Pythons: the build sees the index's password, as it is documented."""
    if not can_be_made():
        pytest.skip("the stand-in is made of pyenv's Pythons 3.11 and 3.13")
    (tmp_path / "context").mkdir()
    image = make_image(engine_environment, tmp_path / "context")
    try:
        recipe = f'name = "tiny"\n[matrix]\npython = ["3.11"]\n[builder]\nbase = {{ image = "{image}" }}\n'
        folder = extension(tmp_path / "project", recipe, SOURCE, setup=f"{machine.looks}\nlooks('setup')\n")
        words = ("wheel", "--backend", "cibuildwheel", "--allow", f"image={image}")
        refused = machine.run(folder, *words, code=2)
        (grant,) = re.findall(r"--allow (index=\S+)", refused.err)
        machine.run(folder, *words, "--allow", grant)
    finally:
        shell(engine_environment, "docker", "rmi", "--force", image)
    (log,) = runs_of(folder, machine.environment).glob("*/logs/wheel-*.log")
    assert machine.seen(log.read_text()) == {"setup": {"index", "pip-conf", "network", *ALWAYS}}


COMMANDS = (
    *(
        ("check",),
        ("plan",),
        ("plan", "--json"),
        ("generate",),
        ("why", "cp311"),
        ("logs",),
        ("logs", "cp311"),
        ("report",),
        ("profile", "cp311"),
    ),
    *(
        ("doctor",),
        ("engine", "status"),
        ("engine", "env"),
        ("builders", "ls"),
        ("audit", "--json", "dist/demo-1.0-py3-none-any.whl"),
        ("rules",),
    ),
)


def test_commands_that_build_nothing(machine: Machine, project: Path, baked: Done) -> None:
    assert baked
    for words in COMMANDS:
        machine.run(project, *words)


def test_a_compiled_module(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "matmul.mlir").write_bytes((ROOT / "packages/bakery-iree/tests/data/mlir/matmul.mlir").read_bytes())
    machine.run(tmp_path, "compile", "matmul.mlir", "-t", "cpu:generic", "-o", "out")
    assert list((tmp_path / "out").glob("*.vmfb"))


FORMS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
    "wrapped": lambda value: base64.encodebytes(f"{'user' * 10}:{value}".encode()).decode(),
    "hexadecimal": lambda value: value.encode().hex(),
    "HEXADECIMAL": lambda value: value.encode().hex().upper(),
    "percent": lambda value: urllib.parse.quote(f"é/{value}", safe=""),
    "JSON": lambda value: json.dumps(json.dumps(f"é<{value}")),
    "shell": lambda value: shlex.quote(f"it's {value}"),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_that_is_left_is_found(tmp_path: Path, form: str) -> None:
    values = canaries.made()
    spellings = Spellings(values)
    for name, value in values.items():
        text = f"a line\n{FORMS[form](value)}\n"
        assert spellings.found(text.encode()) == {name}
        (tmp_path / name).mkdir()
        (tmp_path / name / "layer").write_bytes(gzip.compress(text.encode()))
        with zipfile.ZipFile(tmp_path / name / "demo.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("demo.py", text)
        with tarfile.open(tmp_path / name / "image.tar", "w") as image:
            image.add(tmp_path / name / "layer", "blobs/sha256/0")
        assert len(spellings.holders(tmp_path / name)) == 3
    assert spellings.holders(tmp_path, but=("layer", "demo.whl", "image.tar")) == []
    with Processes(spellings) as processes:
        subprocess.run(["sh", "-c", "sleep 0.3", FORMS[form](values["store"])], check=True)
    assert len(processes.found) >= 1


def test_hostile_code_finds_what_it_may_see(tmp_path: Path) -> None:
    values = canaries.made()
    *files, last = values
    (tmp_path / ".netrc").write_text(" ".join(values[name] for name in files))
    with hostile.served(tmp_path) as (url, _):
        address = repr(("127.0.0.1", int(url.rpartition(":")[2])))
        code = (
            f"{canaries.LOOKS.replace('ADDRESS', address)}\nlooks('here', {str(tmp_path / 'told')!r}, everywhere=False)"
        )
        told = {"HOME": str(tmp_path), "X": values[last]}
        done = subprocess.run([sys.executable, "-c", code], env=told, cwd=tmp_path, capture_output=True, check=True)
    assert Machine.seen(done.stdout.decode()) == {"here": {*NAMES, "network"}}
    assert Spellings(values).found(done.stdout) == set(NAMES)

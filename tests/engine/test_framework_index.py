"""torch from an index: one of its own for each cell, with a password that only pip's configuration has; one layer for all."""

from __future__ import annotations

import json
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path

import hostile_packages as hostile
import pytest
from command import bakery
from projects import SOURCE, extension, pure
from test_untrusted_packages import bridge

pytestmark = pytest.mark.engine

TORCH = [f"{release}+{variant}" for variant in ("cu128", "cu126") for release in ("2.9.1", "2.10.0", "2.11.0")]

RECIPE = """\
name = "demo"
[variables]
VARIANT = "cu128"
[matrix]
python = ["3.11", "3.13"]
torch = {torch}
[[matrix.overrides]]
where = {{ torch = "*+cu126" }}
variables = {{ VARIANT = "cu126" }}
[builder]
framework = "torch"
framework-index = "{url}/${{VARIANT}}"
[wheel]
repair = false
py3 = true
naming = {{ local = "${{VARIANT}}torch${{TORCH_MINOR}}" }}
[test]
imports = ["demo"]
command = '''python -c "import torch; assert torch.VERSION == '${{TORCH_VERSION}}'; print('has', torch.VERSION)"'''
"""


@pytest.mark.proof
def test_cells_with_torch_from_the_index_of_their_cuda(tmp_path: Path, engine_environment: Mapping[str, str]) -> None:
    index, host, password = tmp_path / "index", bridge(engine_environment), f"canary{secrets.token_hex(12)}"
    for version in TORCH:
        hostile.wheel(index / version.partition("+")[2], "torch", version, {"torch.py": f"VERSION = {version!r}\n"})
    with hostile.served(index, host, password) as (url, _):
        folder = pure(tmp_path / "project", RECIPE.format(torch=json.dumps(TORCH), url=url))
        backend = folder / "backend.py"
        backend.write_text(backend.read_text().replace("import base64", "import torch, base64", 1))
        config = tmp_path / "pip.conf"
        private = url.replace("://", f"://me:{password}@")
        config.write_text(f"[global]\nextra-index-url = {private}/private\ntrusted-host = {host}\n")
        environment = {"PIP_CONFIG_FILE": str(config)}
        # Its packages run in the build, beside a user with a password.
        refused = bakery(folder, "lock", environment=environment, code=2)
        assert f"--allow server={url}" in refused.err
        environment["BAKERY_ALLOW"] = f"server={url}"
        bakery(folder, "lock", environment=environment)
        lock = (folder / "bakery.lock").read_text()
        assert all(f"torch-{version}-py3-none-any.whl" in lock for version in TORCH)
        assert password not in lock
        assert host not in lock
        done = bakery(folder, "full", "--locked", environment=environment)
    assert len(done.wheels) == len(TORCH)
    assert "".join(map(done.log, done.results())).count("has 2.") == 2 * len(TORCH)


SHARED = """\
name = "tiny"
[variables]
TORCH_VERSION = "2.11.0+own"
[matrix]
python = ["3.11"]
[builder]
framework = "torch"
framework-index = "{url}"
{more}
[test]
imports = ["tiny"]
"""


@pytest.mark.proof
def test_builders_and_tests_of_all_projects_share_one_layer_of_torch(
    tmp_path: Path, engine_environment: Mapping[str, str]
) -> None:
    """Their builders differ. Debian's Python compiles with -g, which only the second project wants."""
    index, host = tmp_path / "index", bridge(engine_environment)
    files = {"torch.py": f"VERSION = {secrets.token_hex(8)!r}\n"}
    hostile.wheel(index, "torch", "2.11.0+own", files)
    more = ("", 'system-packages = ["zlib1g-dev"]\nenvironment = { CXXFLAGS = "-g" }')
    installed, debug = [], []
    with hostile.served(index, host) as (url, _):
        config = tmp_path / "pip.conf"
        config.write_text(f"[global]\ntrusted-host = {host}\n")
        environment = {"PIP_CONFIG_FILE": str(config), "BAKERY_ALLOW": f"server={url}"}
        for number, text in enumerate(more):
            folder = extension(tmp_path / f"project{number}", SHARED.format(url=url, more=text), SOURCE)
            done = bakery(folder, "full", environment=environment)
            installed.append(sum("install framework" in step for step in done.ran()))
            with zipfile.ZipFile(done.wheels[0]) as wheel:
                (module,) = (name for name in wheel.namelist() if name.endswith(".so"))
                debug.append(b".debug_info" in wheel.read(module))
    assert installed == [1, 0]
    assert debug == [False, True]

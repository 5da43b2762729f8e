"""What all tests share."""

from __future__ import annotations

import difflib
import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import engine_turns
import pytest
import tables
from hypothesis import HealthCheck, settings

from bakery.core.errors import EngineError
from bakery.engine.discover import find
from wheel_audit.tools import AuditwheelReport, ToolResults

# A busy machine is no defect of an example.
settings.register_profile("proof", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("bakery", settings.get_profile("proof"), max_examples=20)
settings.load_profile("bakery")

pytest_plugins = ["proof_ledger"]

# jsonschema makes a grammar of IRIs when it is imported: two seconds of each process, and no document here has one.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

Golden = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Make python-hcl2's parser once: what two processes write into its cache at the same time can be a broken parser."""
    reader = find_spec("hcl2")
    if reader and reader.origin and not hasattr(config, "workerinput"):
        cache = Path(reader.origin).with_name(".lark_cache.bin")
        if not cache.exists():
            import hcl2

            hcl2.loads("")


def pytest_collection_finish() -> None:
    # Thousands of tests and all modules stay to the end: the garbage collector need not look at them again and again.
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not item.get_closest_marker("engine"):
        return (yield)
    with engine_turns.beside_others():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what runs remember out of the state folder of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("BAKERY_STATE_DIR", raising=False)
        yield


def assert_same(wanted: str, text: str, name: str) -> None:
    lines = (wanted.splitlines(keepends=True), text.splitlines(keepends=True))
    diff = "".join(difflib.unified_diff(*lines, fromfile=name, tofile="now"))
    assert wanted == text, f"{name} is stale (pytest --update-golden rewrites it)\n{diff}"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a whole text with a file, or rewrite the file under --update-golden."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: Path, text: str) -> None:
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        else:
            assert_same(path.read_text(encoding="utf-8") if path.exists() else "", text, str(path))

    return compare


@pytest.fixture
def golden_row(request: pytest.FixtureRequest) -> tables.GoldenRow:
    """Compare a whole text with that of a table's row, or rewrite the row under --update-golden."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: Path, name: str, text: str) -> None:
        if update:
            tables.update(path, name, text)
        else:
            assert_same(tables.rows(path).get(name, {}).get("says", ""), text, f"{path.name}, {name}")

    return compare


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit without auditwheel and the other tools, which are slow."""
    monkeypatch.setattr("wheel_audit.wheel.run_auditwheel", lambda path: AuditwheelReport())
    monkeypatch.setattr("wheel_audit.wheel.run_tools", lambda path, **about: ToolResults())


@pytest.fixture(scope="session")
def engine_environment() -> Mapping[str, str]:
    """Give the environment in which docker reaches an engine that can bake; without one the test fails."""
    try:
        return {**os.environ, **find().environment}
    except EngineError as error:
        pytest.fail(f"{error.message}: {error.hint}\n" + "\n".join(error.details), pytrace=False)

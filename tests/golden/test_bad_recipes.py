"""Every malformed recipe in bad_recipes.toml gets exactly the text beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tables import GoldenRow, rows

from bakery.core.errors import RecipeError
from bakery.recipe import load as loading

TABLE = Path(__file__).with_name("bad_recipes.toml")
ROWS = rows(TABLE)

BYTES = {
    "bytes-empty": b"",
    "bytes-blank": b" \n\n\t\n",
    "bytes-latin-1": 'name = "kernels"\ndescription = "für alle"\n'.encode("latin-1"),
    "bytes-utf-16": 'name = "kernels"\n'.encode("utf-16"),
    "bytes-bom": b'\xef\xbb\xbfname = "kernels"\n',
    "bytes-nul": b'name = "kernels"\ndescription = "a\0b"\n',
    "bytes-binary": bytes(range(128, 256)) * 4,
    "bytes-too-large": b'name = "kernels"\n' + b"# padding\n" * 110_000,
    "bytes-deep-list": b'name = "kernels"\nplatforms = ' + b"[" * 5000 + b"]" * 5000 + b"\n",
    "bytes-deep-table": b'name = "kernels"\nsource = ' + b"{a=" * 5000 + b"1" + b"}" * 5000 + b"\n",
    "bytes-deep-dotted-key": b'name = "kernels"\n' + b"a." * 3000 + b"b = 1\n",
    "bytes-huge-number": b'name = "kernels"\ndescription = ' + b"9" * 5000 + b"\n",
    "bytes-huge-hex": b'name = "kernels"\ndescription = 0x' + b"f" * 5000 + b"\n",
    "bytes-long-key": b'name = "kernels"\n' + b"k" * 500 + b" = 1\n",
    "bytes-long-value": b'name = "' + b"K" * 5000 + b'"\n',
    "bytes-many-problems": b'name = "kernels"\nplatforms = [' + b"1,\n" * 300 + b"]\n",
    "bytes-carriage-returns": b'name = "kernels"\rdescription = "x"\r',
    "bytes-windows-lines": b'name = "kernels"\r\n\r\n[builder]\r\ntoolkit = "cudda"\r\n',
}
"""Inputs that no editor would keep as they are."""

INPUTS = {name: row["recipe"].encode() for name, row in ROWS.items() if "recipe" in row} | BYTES

PYDANTIC = re.compile(
    r"Traceback|pydantic|Input should|Value error|Extra inputs|valid (?:string|tuple|dictionary)|tuple\[|dict\["
    r"|NoneType|ValidationError|https://errors|object at 0x",
    re.IGNORECASE,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace's surroundings: one good recipe, one broken, a folder without, a link that leaves."""
    good = tmp_path / "project" / "good" / "bakery.toml"
    broken = tmp_path / "project" / "broken" / "bakery.toml"
    inner = tmp_path / "project" / "inner" / "bakery.toml"
    outside = tmp_path / "outside" / "bakery.toml"
    for file in (good, broken, inner, outside):
        file.parent.mkdir(parents=True)
    good.write_text('name = "good"\n')
    broken.write_text('name = "broken"\nnetwork = true\n')
    inner.write_text('[workspace]\nrecipes = ["x"]\n')
    outside.write_text('name = "outside"\n')
    root = good.parent.parent
    (root / "nothing").mkdir()
    (root / "link").symlink_to(outside.parent, target_is_directory=True)
    # The list of shipped recipes grows; these texts shall not.
    shipped = tmp_path / "ujson.toml"
    shipped.write_text('name = "ujson"\nsource = "sdist:ujson==5.12.0"\n')
    monkeypatch.setattr(loading, "shipped", lambda: {"ujson": shipped})
    return root


def rendered(error: RecipeError) -> str:
    hint = [f"hint: {error.hint}"] if error.hint else []
    return "\n".join([f"{error.title} (exit {error.exit_code}): {error.message}", *error.details, *hint]) + "\n"


@pytest.mark.parametrize("name", INPUTS)
def test_bad_recipe(name: str, project: Path, golden_row: GoldenRow) -> None:
    file = project / ("pyproject.toml" if name.startswith("pyproject") else "bakery.toml")
    file.write_bytes(INPUTS[name])
    with pytest.raises(RecipeError) as caught:
        loading.load(None, project)
    text = rendered(caught.value)
    assert caught.value.exit_code == 3
    assert not PYDANTIC.search(text)
    assert str(project) not in text or name.startswith("pyproject-without")
    golden_row(TABLE, name, text.replace(str(project), "/project"))


def test_every_row_has_its_input() -> None:
    assert sorted(ROWS) == sorted(INPUTS)

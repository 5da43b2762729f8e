"""Provenance and bill of materials: whole texts of fixed inputs, held against the formats' own definitions."""

from __future__ import annotations

import hashlib
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import plans
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elfs import shared_object
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from provenance import MATERIALS, MOMENT
from wheels import EXTENSION, write_wheel

from bakery import __version__
from bakery.core.addresses import without_credentials
from bakery.core.errors import UnavailableError
from bakery.core.source_manifest import tree_hash
from bakery.plan.model import Plan
from bakery.recipe.models import Recipe
from bakery.runs.journal import RecordedWheel
from bakery.runs.lock.model import LockedFile, Materials, Packages, System
from bakery.runs.records.buildkit import (
    FOLDER,
    PROVENANCE,
    SBOM,
    Machine,
    image_purl,
    merged,
    of_buildkit,
    record_path,
    waiting_path,
)
from bakery.runs.records.provenance import definition, settings, statement
from bakery.runs.records.read import (
    kept_records,
    locked_from_provenance,
    package_materials,
    place_requirements,
    read,
    recorded_images,
)
from bakery.runs.records.sbom import sbom
from bakery.runs.source_files import source_of

RECIPE = {
    "name": "demo",
    "variables": {"LEVEL": "2"},
    "matrix": {"python": ["3.11", "3.13"], "color": ["red", "blue"]},
    "builder": {"toolkit": "none", "environment": {"LEVEL": "${LEVEL}"}},
}


def plan(tmp_path: Path, *sets: str, environ: dict[str, str] | None = None) -> Plan:
    return plans.planned(Recipe.model_validate(RECIPE), tmp_path, *sets, environ=environ)


def told(tmp_path: Path, wheel: Path, sha256: str) -> dict[str, Any]:
    plan_ = plan(tmp_path)
    defined = definition(plan_, plan_.cells[0], MATERIALS)
    return statement(wheel.name, sha256, defined, Machine("28.5.2", "0.29.1", "linux/x86_64"), MOMENT, MOMENT)


def test_provenance_tells_no_credential_of_an_address(tmp_path: Path) -> None:
    secret = "https://ci:hunter2@host/x"
    recipe = {**RECIPE, "builder": {**RECIPE["builder"], "before-build": f"fetch {secret}"}}  # type: ignore[dict-item]
    made = plans.planned(Recipe.model_validate(recipe), tmp_path, f"LEVEL={secret}", f"*.contexts.own={secret}")
    text = json.dumps(definition(made, made.cells[0], MATERIALS))
    assert text.count("https://host/x") == 4
    assert "hunter2" not in text


def test_provenance_is_what_the_specifications_say(tmp_path: Path) -> None:
    found = told(tmp_path, tmp_path / "demo-1.0-py3-none-any.whl", "12" * 32)
    message = json_format.ParseDict(found, StatementMessage())  # refuses fields that the specification has not
    Statement.copy_from_pb(message).validate()
    json_format.ParseDict(found["predicate"], Provenance())
    dockerfile = found["predicate"]["buildDefinition"]["internalParameters"].pop("dockerfile")
    assert len(dockerfile["sha256"]) == 64
    assert found == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "demo-1.0-py3-none-any.whl", "digest": {"sha256": "12" * 32}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "tag:wheel-bakery,2026:wheel/v1",
                "externalParameters": {
                    "recipe": {"name": "demo", "file": "recipe demo"},
                    "cell": "cp311-colorred",
                    "axes": {"python": "3.11", "color": "red", "platform": "linux/amd64"},
                    "settings": ["SOURCE_DATE_EPOCH=315532800"],
                    "arguments": {
                        "LEVEL": "2",
                        "SOURCE_DATE_EPOCH": "315532800",
                        "PYTHON_VERSION": "3.11",
                        "COLOR": "red",
                    },
                },
                "internalParameters": {"bakery": __version__},
                "resolvedDependencies": [
                    {
                        "name": "debian:bookworm-slim",
                        "uri": "pkg:docker/debian@bookworm-slim?platform=linux%2Famd64",
                        "digest": {"sha256": "4f" * 32},
                        "annotations": {"kind": "image"},
                    },
                    {
                        "name": "https://host/owner/project.git",
                        "uri": "https://host/owner/project.git#v1",
                        "digest": {"sha1": "ab" * 20},
                        "annotations": {"kind": "source"},
                    },
                    {"name": "source of demo", "digest": {"dirHash": "cd" * 32}, "annotations": {"kind": "source"}},
                ],
            },
            "runDetails": {
                "builder": {
                    "id": "tag:wheel-bakery,2026:bakery",
                    "version": {"bakery": __version__, "docker-engine": "28.5.2", "buildx": "0.29.1"},
                    "builderDependencies": [
                        {
                            "name": "engine",
                            "uri": "pkg:generic/docker-engine@28.5.2",
                            "annotations": {"platform": "linux/x86_64"},
                        }
                    ],
                },
                "metadata": {"startedOn": "2026-11-21T12:30:05Z", "finishedOn": "2026-11-21T12:30:05Z"},
            },
        },
    }


def test_what_was_set_gives_the_same_plan_again(tmp_path: Path) -> None:
    said = ("LEVEL=4", "PYTHON_VERSION=3.13", "*.platform=linux/arm64", "wheel-cp313.args.LEVEL=9")
    made = plan(tmp_path, *said, "*.tags=x", "*.contexts.base=/home/me", environ={"BAKERY_COLOR": "red"})
    (cell,) = made.cells
    again = settings(made, cell)
    assert again == (
        "*.platform=linux/arm64", "COLOR=red", "LEVEL=4", "PYTHON_VERSION=3.13", "SOURCE_DATE_EPOCH=315532800",
        f"wheel-{cell.id}.args.LEVEL=9",
    )  # fmt: skip
    other = plan(tmp_path, *again)
    assert (other.cells, other.variables, other.stages) == (made.cells, made.variables, made.stages)


MADE = Materials(
    packages={
        "build": Packages(
            ("build", "own @ git+https://host/own.git@c0ffee"),
            {
                "build-1.2-py3-none-any.whl": LockedFile(name="build", version="1.2", sha256="12" * 32),
                "git+https://host/own.git@c0ffee": LockedFile(
                    name="own", version="1!3+cu12", origin="git+https://host/own.git@c0ffee"
                ),
            },
        ),
        "source": Packages(("demo==2",), {"demo-2.tar.gz": LockedFile(name="demo", version="2", sha256="34" * 32)}),
        "tools": Packages(
            ("build",), {"build-1.2-py3-none-any.whl": LockedFile(name="build", version="1.2", sha256="12" * 32)}
        ),
    },
    system={
        "builder": System(
            {"g++-12": "12.2.0-14+deb12u1"},
            {"cc": "cc 12"},
            {"g++-12": "pkg:deb/debian/g%2B%2B-12@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12"},
            {"g++-12": "56" * 32},
        )
    },
)


@pytest.mark.filterwarnings("ignore:The Component this BOM is describing")
def test_packages_are_materials_and_come_back(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    plan_ = plan(tmp_path)
    materials = merged([*MATERIALS, *package_materials(MADE)])
    defined = definition(plan_, plan_.cells[0], materials, place_requirements(MADE))
    rows = {
        (item["name"], item["annotations"]["kind"]): item
        for item in json.loads(json.dumps(defined))["resolvedDependencies"]
    }
    assert rows["build 1.2", "package"] == {
        "name": "build 1.2",
        "uri": "pkg:pypi/build@1.2",
        "digest": {"sha256": "12" * 32},
        "annotations": {
            "kind": "package",
            "version": "1.2",
            "file": "build-1.2-py3-none-any.whl",
            "places": ["build", "tools"],
        },
    }
    assert rows["own 1!3+cu12", "package"]["digest"] == {"gitCommit": "c0ffee"}
    assert rows["demo 2", "source"]["digest"] == {"sha256": "34" * 32}
    assert rows["g++-12 12.2.0-14+deb12u1", "system"]["digest"] == {"dpkgMd5sums": "56" * 32}
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    told = statement(wheel.name, digest, defined, Machine("28.5.2", "0.29.1", "linux/x86_64"), MOMENT, MOMENT)
    path = tmp_path / FOLDER / f"{wheel.name}.provenance.json"
    path.parent.mkdir()
    path.write_text(json.dumps(told))
    found = read(wheel)
    assert locked_from_provenance(found) == Materials(
        sources={"https://host/owner/project.git#v1": "ab" * 20}, packages=MADE.packages
    )
    assert recorded_images(found) == {"debian:bookworm-slim": f"sha256:{'4f' * 32}"}
    text = sbom(wheel, digest, materials, 1_700_000_000)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = {(item["name"], item.get("version"), item.get("purl")) for item in json.loads(text)["components"]}
    assert ("build", "1.2", "pkg:pypi/build@1.2") in listed
    assert ("g++-12", "12.2.0-14+deb12u1", MADE.system["builder"].purls["g++-12"]) in listed


def test_what_a_wheel_is_made_of_is_told_of_the_wheel_as_it_is_built(tmp_path: Path) -> None:
    made_plan = plan(
        tmp_path,
        "PYTHON_VERSION=3.13",
        "COLOR=red",
        "wheel-*.contexts.base=docker-image://x",
        "*.pull=true",
        "wheel-*.tags=x",
    )
    (target,) = made_plan.materials_of(made_plan.select(("full",)))
    assert target.name == "materials-cp313"
    assert made_plan.materials_overrides(target) == (
        "materials-cp313.contexts.base=docker-image://x",
        "materials-cp313.target=ingredients",
    )
    assert made_plan.materials_of(made_plan.select(("test",))) == ()


def test_a_bill_of_materials_is_what_the_specification_says(tmp_path: Path) -> None:
    library = "demo.libs/libgomp-a34b3233.so.1.0.0"
    metadata = (
        "Metadata-Version: 2.4\nName: Demo\nVersion: 1.0\nSummary: A demo\nLicense-Expression: MIT\n"
        'Requires-Dist: numpy>=1.26\nRequires-Dist: rich; extra == "show"\n'
    )
    wheel = write_wheel(tmp_path, files={EXTENSION: shared_object(), library: shared_object()}, metadata=metadata)
    text = sbom(wheel, "12" * 32, MATERIALS, 1_700_000_000)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == sbom(wheel, "12" * 32, MATERIALS, 1_700_000_000)
    found = json.loads(text)
    subject = found["metadata"]["component"]
    assert subject["purl"] == f"pkg:pypi/demo@1.0?file_name={wheel.name}"
    assert subject["hashes"] == [{"alg": "SHA-256", "content": "12" * 32}]
    assert subject["licenses"] == [{"expression": "MIT"}]
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    rows = {
        item["name"]: (item["scope"], {entry["name"]: entry["value"] for entry in item["properties"]})
        for item in found["components"]
    }
    assert rows == {
        "libgomp.so.1.0.0": ("required", {"bakery:role": "bundled", "bakery:path": library}),
        "numpy": ("required", {"bakery:role": "runtime", "bakery:requirement": "numpy>=1.26"}),
        "rich": ("optional", {"bakery:role": "runtime", "bakery:requirement": 'rich; extra == "show"'}),
        "debian:bookworm-slim": ("excluded", {"bakery:role": "build", "bakery:kind": "image"}),
        "https://host/owner/project.git": (
            "excluded",
            {
                "bakery:role": "build",
                "bakery:kind": "source",
                "bakery:sha1": "ab" * 20,
                "bakery:uri": "https://host/owner/project.git#v1",
            },
        ),
        "source of demo": ("excluded", {"bakery:role": "build", "bakery:kind": "source", "bakery:dirHash": "cd" * 32}),
    }
    (needs,) = (item["dependsOn"] for item in found["dependencies"] if item["ref"] == "wheel")
    assert {name.partition(":")[0] for name in needs} == {"bundled", "runtime"}


def test_the_same_source_in_another_order_has_the_same_hash(tmp_path: Path) -> None:
    made = plan(tmp_path)
    for name in ("b.py", "a.py", "__pycache__/a.pyc", "bakery.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = source_of(tmp_path, made).files
    assert list(found) == ["a.py", "b.py"]
    # As golang.org/x/mod/sumdb/dirhash computes it: sha256 of lines "<sha256>  <name>".
    assert tree_hash(found) == tree_hash(dict(reversed(found.items())))
    assert tree_hash({"a": "0" * 64}) == "53d743f33b897204dd8c5442651c6bb773fd59ebb101222fe2fcf900b26e4bef"


def test_records_are_those_that_the_journal_names(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    texts = [b"{}", b"sbom"]
    known = RecordedWheel(wheel.name, "12" * 32, 1, *(sha256(text).hexdigest() for text in texts))
    paths = [record_path(wheel, suffix) for suffix in (PROVENANCE, SBOM)]
    assert kept_records(tmp_path, known) is None
    paths[0].parent.mkdir()
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    assert kept_records(tmp_path, known) == tuple(texts)
    # Truncated, edited, or of a run that recorded nothing.
    for path, text in zip(paths, texts, strict=True):
        for other in (b"", text + b" "):
            path.write_bytes(other)
            assert kept_records(tmp_path, known) is None
        path.write_bytes(text)
    assert kept_records(tmp_path, RecordedWheel(wheel.name, "12" * 32, 1)) is None


def test_the_record_of_an_interrupted_replacement_is_found(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    digest = sha256(wheel.read_bytes()).hexdigest()
    path = waiting_path(wheel, digest, PROVENANCE)
    path.parent.mkdir()
    path.write_text(json.dumps(told(tmp_path, wheel, digest)))
    assert read(wheel).path == path
    # What stands at the usual place is about another wheel.
    record_path(wheel, PROVENANCE).write_text(json.dumps(told(tmp_path, wheel, "34" * 32)))
    assert read(wheel).path == path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, "has no provenance"),
        (lambda found: found | {"subject": [{"name": "x", "digest": {"sha256": "1" * 64}}]}, "about another file"),
        (lambda found: found | {"predicateType": "https://slsa.dev/provenance/v0.2"}, "another kind"),
        (lambda found: found | {"subject": []}, "not a provenance of bakery"),
        (lambda found: found["predicate"], "not a provenance of bakery"),
        (lambda _: "x", "not a provenance of bakery"),
    ],
)
def test_records_that_are_none(tmp_path: Path, change: Any, reason: str) -> None:
    wheel = write_wheel(tmp_path)
    found = told(tmp_path, wheel, sha256(wheel.read_bytes()).hexdigest())
    path = tmp_path / FOLDER / f"{wheel.name}.provenance.json"
    path.parent.mkdir()
    path.write_text(json.dumps(found))
    assert read(wheel).cell == "cp311-colorred"
    assert read(wheel).source == ({"dirHash": "cd" * 32}, {"kind": "source"})
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps(change(found)))
    with pytest.raises(UnavailableError) as caught:
        read(wheel)
    assert reason in caught.value.message


def test_image_that_a_node_was_sent_has_its_own_name() -> None:
    sha256 = "ab" * 32
    said = {
        "materials": [
            {
                "uri": f"pkg:oci/debian@bookworm-slim?digest=sha256:{sha256}&platform=linux%2Famd64",
                "digest": {"sha256": sha256},
            },
            {"uri": "pkg:docker/debian@trixie?platform=linux%2Famd64", "digest": {"sha256": "cd" * 32}},
        ]
    }
    purl = image_purl("debian:bookworm-slim", "linux/amd64")
    assert purl == "pkg:docker/debian@bookworm-slim?platform=linux%2Famd64"
    found = of_buildkit(said, {sha256: purl})
    assert [(item.name, item.kind) for item in found] == [("debian:bookworm-slim", "image"), ("debian:trixie", "image")]
    assert image_purl("host:5000/a/b", "linux/arm64") == "pkg:docker/host:5000/a/b@latest?platform=linux%2Farm64"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:p@ss@host/a@b", "https://host/a@b"),
        ("https://token@host/a", "https://host/a"),
        ("https://host/a.whl?sig=secret&x=1#sha256=aa", "https://host/a.whl#sha256=aa"),
        ("git+https://u:p@host/a.git@v1#subdirectory=b", "git+https://host/a.git@v1#subdirectory=b"),
        ("https://host/a.git?token=x&ref=v1&subdir=b", "https://host/a.git?ref=v1&subdir=b"),
        ("demo @ https://u:p@ss@host/a?t=1 ; x == 'y@z'", "demo @ https://host/a ; x == 'y@z'"),
        ("pkg:docker/debian@12?platform=linux%2Famd64", "pkg:docker/debian@12?platform=linux%2Famd64"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("demo>=1", "demo>=1"),
    ],
)
def test_addresses_lose_what_may_be_a_secret(address: str, shown: str) -> None:
    assert without_credentials(address) == shown

"""What Bakery wrote and reads again, brought by the checkout: states, runs, caches, wheels and their records."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile

from wheels import write_wheel

from bakery.runs.records.provenance import BUILD_TYPE, PREDICATE
from ways import MARK, RUN, Scene, way

WHEEL = "demo-1.0-py3-none-any.whl"


def run(s: Scene, folder: str, report: object) -> None:
    """Write a run with a log and a profile."""
    s.write(f"{folder}/{RUN}/report.json", json.dumps(report))
    for cell in ("wheel-cp311", "wheel-\x1b]0;pwned\x07"):
        s.write(
            f"{folder}/{RUN}/logs/{cell}.log",
            "# [compile 1/1] RUN pwned\n\x1b]52;c;cHduZWQ=\x07\n::set-output name=pwned::1\n",
        )
    s.write(
        f"{folder}/{RUN}/profiles/cp311.json",
        json.dumps({"recipe": "demo", "cell": "cp311", "cores": 1, "steps": [], "commands": []}),
    )


@way("records")
def forged_runs(s: Scene) -> None:
    """Runs in the folders where Bakery kept or keeps them."""
    target = {
        "name": "wheel-cp311",
        "cell": "cp311",
        "result": "failed",
        "log": str(s.key),
        "wheels": [{"path": str(s.key)}],
    }
    report = {
        "recipe": "demo",
        "targets": [target],
        "failures": [{"cell": "cp311", "log": str(s.key)}],
        "seconds": 1,
        "started": 1,
    }
    for folder in (".bakery/state/runs", ".bakery/run", "evil/runs/.bakery/runs"):
        run(s, folder, report)
    s.project("runs")


@way("records")
def broken_runs(s: Scene) -> None:
    """Reports that are no reports."""
    run(s, f"{s.project('runs_broken')}/.bakery/runs", {"recipe": "demo", "targets": [[]], "seconds": "x"})
    run(s, f"{s.project('runs_deep')}/.bakery/runs", json.loads("[" * 900 + "]" * 900))


@way("records")
def forged_journal(s: Scene) -> None:
    """A journal that says that everything is done."""
    digest = hashlib.sha256(b"pwned").hexdigest()
    line = {
        "cell": "cp311",
        "target": "wheel-cp311",
        "result": "done",
        "wheels": [{"name": WHEEL, "sha256": digest, "size": 5}],
    }
    for folder in (".bakery/journal/demo", ".bakery/state/journal/demo", "journal/demo"):
        s.write(f"{folder}/000099.jsonl", json.dumps(line) + "\n")


@way("records")
def state_folder_in_the_project(s: Scene) -> None:
    """The folder of the state, with an owner and keys."""
    s.write(".bakery/state/project", str(s.checkout))
    s.write(".bakery/state/scope", "pwned")
    s.write(".local/state/bakery/scope", "pwned")


@way("records")
def compiler_cache(s: Scene) -> None:
    """Objects for the compiler cache."""
    for folder in (".bakery/ccache", ".ccache", ".cache/ccache"):
        s.write(f"{folder}/0/1/pwnedM", b"cCrS" + bytes(64))
    s.write("ccache.conf", f"prefix_command = {s.touch}\nremote_storage = http://{s.address}\n")
    s.write(".ccache/ccache.conf", f"prefix_command = {s.touch}\nremote_storage = http://{s.address}\n")


@way("records")
def planted_wheel(s: Scene) -> None:
    """A wheel of the release that was not built here."""
    write_wheel(s.folder("dist"), "py3-none-any", {"demo.py": b"PWNED = 1\n"})
    s.write("dist/.provenance/" + WHEEL + ".spdx.json", "{}")


@way("records")
def wheels_that_lead_out(s: Scene) -> None:
    """Members of wheels with names and links that lead out, and metadata with control characters."""
    with zipfile.ZipFile(s.folder("dist") / "evil-1.0-py3-none-any.whl", "w") as archive:
        for name in (
            "../../pwned",
            f"{s.victim}/pwned",
            "evil-1.0.dist-info/../../../pwned",
            "evil.pth",
            "a\x1b]0;pwned\x07",
        ):
            archive.writestr(name, "import os; os.system('pwned')\n")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(s.key))
        archive.writestr(
            "evil-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\nSummary: \x1b]0;pwned\x07\n",
        )
        archive.writestr("evil-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("evil-1.0.dist-info/RECORD", "evil-1.0.dist-info/RECORD,,\n")


@way("records")
def wheel_that_is_a_bomb(s: Scene) -> None:
    """A small wheel that unpacks to gigabytes."""
    with zipfile.ZipFile(s.folder("dist") / "bomb-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb-1.0.dist-info/METADATA", b"x" * (64 << 20))
        archive.writestr("bomb-1.0.dist-info/RECORD", b"," * (64 << 20))


@way("records")
def wheel_that_is_a_link(s: Scene) -> None:
    """A wheel whose file is a private one: it is copied into an index."""
    s.link("dist/key-1.0-py3-none-any.whl", s.key)


@way("records")
def odd_names_of_wheels(s: Scene) -> None:
    """Names that are shown, and become paths of an index."""
    for name in (
        "\x1b]0;pwned\x07-1.0-py3-none-any.whl",
        "..-1.0-py3-none-any.whl",
        "::set-output name=pwned::-1-py3-none-any.whl",
        "-rf-1.0-py3-none-any.whl",
    ):
        s.write(f"dist/{name}", b"PK\x05\x06" + bytes(18))


def provenance(s: Scene, digest: str, settings: list[str]) -> str:
    """Return the record of a wheel, with settings of the build."""
    recipe = {"name": "demo", "file": f"{s.out()}/repository/bakery.toml"}
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {"recipe": recipe, "cell": "cp311", "settings": settings},
        "internalParameters": {
            "bakery": "0",
            "dockerfile": {"sha256": "0" * 64},
            "requirements": {"build": [f"--index-url=http://{s.address}"]},
        },
        "resolvedDependencies": [{"name": "x", "uri": f"git+http://{s.address}/x", "digest": {"gitCommit": "1" * 40}}],
    }
    subject = [{"name": WHEEL, "digest": {"sha256": digest}}]
    predicate = {"buildDefinition": definition, "runDetails": {"builder": {"id": MARK}}}
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subject,
            "predicateType": PREDICATE,
            "predicate": predicate,
        }
    )


@way("records")
def records_that_choose(s: Scene) -> None:
    """A provenance whose settings are contexts, caches and outputs."""
    wheel = write_wheel(s.folder("recorded"), "py3-none-any", {"demo.py": b"PWNED = 1\n"})
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for number, setting in enumerate(
        [f"*.contexts.source={s.victim}", f"*.output=type=local,dest={s.victim}", f"*.cache-to=type=local,dest={s.victim}",
         f"*.args.BUILDKIT_SYNTAX={s.address}/pwned", "CACHE=registry", f"CACHE_REF={s.address}/x", "CACHE_MOUNT_NS=pwned", "FOO=$(touch pwned)"]
    ):  # fmt: skip
        s.write(f"record{number}.json", provenance(s, digest, [setting]))
    s.write(f"recorded/.provenance/{WHEEL}.provenance.json", provenance(s, digest, []))


@way("records")
def records_of_gpu_tests(s: Scene) -> None:
    """A record that says that a wheel passed, with texts."""
    s.write(
        f"dist/.provenance/{WHEEL}.gpu-test.json",
        json.dumps({"wheel": WHEEL, "passed": True, "gpu": "\x1b]0;pwned\x07"}),
    )


@way("records")
def locks_with_other_origins(s: Scene) -> None:
    """Locks that name other servers, packages of other bytes, and texts."""
    entry = {
        "name": "setuptools",
        "version": "80.9.0",
        "url": f"http://{s.address}/x.whl",
        "hashes": ["sha256:" + "0" * 64],
    }
    for name, lock in {
        "origin": {"version": 1, "recipe": "demo", "packages": {"setuptools": [entry]}, "images": {"x": f"{s.address}/pwned@sha256:{'0' * 64}"}},
        "deep": json.loads("[" * 900 + "]" * 900),
        "texts": {"version": 1, "suites": {"\x1b]0;pwned\x07": "::set-output name=pwned::1"}},
    }.items():  # fmt: skip
        s.write(f"{s.project(f'lock_{name}')}/bakery.lock", json.dumps(lock))


@way("records")
def generated_files_of_another(s: Scene) -> None:
    """Generated files with other contents, which are not run."""
    s.write("bake/other.hcl", f'target "x" {{ output = ["type=local,dest={s.victim}"] }}\n')
    s.write("dockerfiles/bin/packages/find-python", f"#!/bin/sh\n{s.touch}\n", 0o755)
    s.write("dockerfiles/other.Dockerfile", f"# syntax={s.address}/pwned\n")
    encoded = base64.b64encode(s.touch.encode()).decode()
    s.write(
        "dockerfiles/bin/compile/slot.py", f"import os, base64\nos.system(base64.b64decode({encoded!r}).decode())\n"
    )


@way("records")
def vmfb_with_a_record(s: Scene) -> None:
    """A compiled module and a record that were not made here."""
    s.write("out/model.cpu-generic.vmfb", b"pwned")
    s.write(
        "out/model.cpu-generic.json",
        json.dumps({"input": {"path": str(s.key)}, "output": {"path": str(s.victim)}, "target": "\x1b]0;pwned\x07"}),
    )
    s.write("speed.json", "[" * 3000 + "]" * 3000)

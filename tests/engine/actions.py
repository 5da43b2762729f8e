"""A workflow for GitHub Actions, run on this machine: ``run:`` steps by bash, actions and artifacts as folders."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""How GitHub runs a step without a shell of its own (`bash` named or not)."""

_NAME = re.compile(r"\b(?:github|inputs|jobs|matrix|needs|runner|secrets|steps)(?:\.[A-Za-z0-9_-]+)+")
_OWN = "OWNER/wheel-bakery"
"""How a project names this repository, which has a workflow and an action for it."""
_ROOT = Path(__file__).resolve().parents[2]
_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass
class Ran:
    """A ``run:`` step that ended."""

    job: str
    step: str
    code: int
    out: str


@dataclass
class Runner:
    """One run of a workflow.

    Attributes:
        project: what a checkout copies, unless there is a `url`.
        url: the git repository that a checkout clones.
        python: what ``python`` and ``wheel-bakery`` of a step run.
        folder: where jobs work and artifacts lie.
        github: values of the ``github`` context.
        site: what configure-pages says.
        secrets: the repository's secrets.
    """

    project: Path
    folder: Path
    environment: Mapping[str, str]
    github: dict[str, Any]
    site: str = ""
    secrets: dict[str, str] = field(default_factory=dict)
    url: str = ""
    python: str = sys.executable
    ran: list[Ran] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    needs: dict[str, Any] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @property
    def artifacts(self) -> Path:
        """Artifact → its folder."""
        return self.folder / "artifacts"

    def run(
        self, workflow: str, inputs: Mapping[str, Any] | None = None, allowed: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Run all jobs in order; a job whose needs failed is left out. Return the outputs of a called workflow.

        ``inputs`` are those of a call, and ``allowed`` are the permissions of the job that calls.
        """
        document = YAML(typ="safe").load(workflow)
        called = (document["on"] if isinstance(document["on"], dict) else {}).get("workflow_call", {})
        context = {
            "github": self.github,
            "inputs": _with_defaults(called, inputs or {}),
            "needs": self.needs,
            "jobs": self.needs,
        }
        for name, job in document["jobs"].items():
            needs = job.get("needs", [])
            # GitHub refuses the whole call, whether the job would run or not.
            assert allowed is None or job["permissions"].items() <= allowed.items(), name
            blocked = self.failed & set([needs] if isinstance(needs, str) else needs)
            if blocked or ("if" in job and not _evaluate(job["if"], context)):
                self.failed |= {name} if blocked else set()
                continue
            if "uses" in job:
                text = (_ROOT / job["uses"].partition("@")[0].removeprefix(f"{_OWN}/")).read_text()
                inner = replace(self, needs={}, failed=set())
                self.needs[name] = {"outputs": inner.run(text, job.get("with"), job["permissions"])}
                self.failed |= {name} if inner.failed else set()
                continue
            matrix = job.get("strategy", {}).get("matrix", {})
            rows = _evaluate(matrix[4:-3], context) if isinstance(matrix, str) else matrix
            included = rows.get("include", [{}])
            for entry in _evaluate(included[4:-3], context) if isinstance(included, str) else included:
                self._job(name, job, entry, document.get("env", {}), context["inputs"])
        return {key: _filled(output["value"], context) for key, output in called.get("outputs", {}).items()}

    def place(self, job: str, entry: str = "") -> Path:
        """Return the folder that a job works in, in this attempt."""
        return self.folder / f"{job}-{entry}-{self.github['run_attempt']}"

    def temp(self, place: Path) -> Path:
        """Return the folder beside a job's checkout that is gone with the job's machine."""
        return place.with_name(f"{place.name}-temp")

    def _job(
        self, name: str, job: dict[str, Any], entry: dict[str, Any], environment: dict[str, str], inputs: dict[str, Any]
    ) -> None:
        place = self.place(name, entry.get("name", entry.get("job", "")))
        place.mkdir(parents=True)
        self.temp(place).mkdir()
        context: dict[str, Any] = {
            "github": {"job": name, "workspace": str(place), "action_path": str(_ROOT), "run_id": 1, **self.github},
            "inputs": inputs,
            "matrix": entry,
            "steps": {},
            "needs": self.needs,
            "runner": {"temp": str(self.temp(place)), "os": "Linux", "arch": "X64"},
            "secrets": self.secrets,
        }
        folder = _filled(job.get("defaults", {}).get("run", {}).get("working-directory", ""), context)
        if self._steps(job["steps"], context, place, environment, folder):
            self.failed.add(name)
        outputs = {key: _filled(value, context) for key, value in job.get("outputs", {}).items()}
        self.needs[name] = {"outputs": outputs}

    def _steps(
        self,
        steps: list[dict[str, Any]],
        context: dict[str, Any],
        place: Path,
        environment: dict[str, str],
        folder: str,
    ) -> bool:
        """Run the steps of a job or of an action; return whether one failed."""
        failed = False
        for step in steps:
            context["failed"] = failed
            condition = step.get("if")
            # Without a word on failures, a condition holds only while there are none.
            asks = condition and re.search(r"\b(?:always|failure|cancelled)\(", condition)
            if (failed and not asks) or (condition and not _evaluate(condition, context)):
                continue
            if "run" in step:
                own = {
                    key: _text(_filled(value, context)) for key, value in {**environment, **step.get("env", {})}.items()
                }
                where = place / _filled(step.get("working-directory", folder), context)
                failed |= not self._step(step, where, context, own, place)
                continue
            fields = {key: _filled(value, context) for key, value in step.get("with", {}).items()}
            if step["uses"].startswith(f"{_OWN}@"):
                action = YAML(typ="safe").load((_ROOT / "action.yml").read_text())
                inner = {**context, "inputs": _with_defaults(action, fields), "steps": {}}
                failed |= self._steps(action["runs"]["steps"], inner, place, environment, "")
                said = {key: _filled(output["value"], inner) for key, output in action["outputs"].items()}
            else:
                said = self._use(step["uses"], fields, place)
            context["steps"][step.get("id", "")] = {"outputs": said}
        return failed

    def _step(
        self, step: dict[str, Any], folder: Path, context: dict[str, Any], environment: dict[str, str], place: Path
    ) -> bool:
        output = self.folder / "output"
        output.write_text("")
        done = subprocess.run(
            [*BASH, "-c", step["run"]],
            cwd=folder,
            env={
                **self.environment,
                "PATH": f"{self._python()}{os.pathsep}{self.environment['PATH']}",
                "GITHUB_ACTIONS": "true",
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
                "RUNNER_TEMP": str(self.temp(place)),
                "GITHUB_RUN_ATTEMPT": str(self.github["run_attempt"]),
                "GITHUB_REF_NAME": str(self.github.get("ref_name", "")),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        self.ran.append(Ran(context["github"]["job"], step["name"], done.returncode, done.stdout + done.stderr))
        said = dict(line.split("=", 1) for line in output.read_text().splitlines())
        context["steps"][step.get("id", "")] = {"outputs": said}
        return done.returncode == 0

    def _python(self) -> Path:
        """Return a folder whose ``python`` is the one that runs the tests."""
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(self.python)} "$@"\n')
            (folder / "python").chmod(0o755)
            (folder / "wheel-bakery").write_text(f'#!/bin/sh\nexec {shlex.quote(self.python)} -P -m bakery "$@"\n')
            (folder / "wheel-bakery").chmod(0o755)
            stand_in = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).with_name('gh.py')))}"
            (folder / "gh").write_text(f'#!/bin/sh\nexec {stand_in} "$GH_FOLDER" "$@"\n')
            (folder / "gh").chmod(0o755)
        return folder

    def _use(self, uses: str, fields: dict[str, Any], place: Path) -> dict[str, str]:
        name, _, commit = uses.partition("@")
        assert re.fullmatch(r"[0-9a-f]{40}", commit), uses
        self.used.append(name)
        match name:
            case "actions/checkout":
                self._check_out(fields, place)
            case "actions/upload-artifact":
                self._upload(fields, place)
            case "actions/upload-artifact/merge":
                self._merge(fields)
            case "actions/download-artifact":
                self._download(fields, place)
            case "actions/configure-pages":
                return {"base_url": self.site}
            case "actions/upload-pages-artifact":
                shutil.copytree(place / fields["path"], self.artifacts / fields["name"])
            case "actions/deploy-pages":
                assert (self.artifacts / fields["artifact_name"]).is_dir()
            case "actions/attest-build-provenance":
                assert all(list(place.glob(line)) for line in fields["subject-path"].splitlines())
            case "pypa/gh-action-pypi-publish":
                # An index takes no file twice; with this input, the action passes over what is there.
                again = fields.get("skip-existing") in {True, "true"}
                index = self.folder / ("published-first" if fields.get("repository-url") else "published")
                shutil.copytree(place / fields.get("packages-dir", "dist"), index, dirs_exist_ok=again)
            case "actions/cache/save" | "actions/cache/restore":
                return {"cache-hit": self._restore(fields) if name.endswith("restore") else self._save(fields)}
            case "actions/setup-python" | "docker/setup-buildx-action" | "crazy-max/ghaction-github-runtime":
                pass
            case _:
                raise AssertionError(f"unknown action {name}")
        return {}

    def _check_out(self, fields: dict[str, Any], place: Path) -> None:
        """Clone the commit of the run as the action does: by default without history, tags, submodules and LFS."""
        if not self.url:
            # As in a fresh checkout: links are links, and there are no results.
            ignored = shutil.ignore_patterns(".bakery", "dist")
            shutil.copytree(self.project, place, dirs_exist_ok=True, symlinks=True, ignore=ignored)
            return

        def git(*words: str) -> None:
            command = ["git", "-c", "advice.detachedHead=false", "-C", str(place), *words]
            subprocess.run(command, env=self.environment, check=True, capture_output=True)

        git("init", "--quiet")
        git("remote", "add", "origin", self.url)
        filtered = [f"--filter={fields['filter']}"] if fields.get("filter") else []
        ref = self.github["ref"]
        if fields.get("fetch-depth", 1) == 0:
            git(
                "fetch",
                "--quiet",
                *filtered,
                "origin",
                "+refs/heads/*:refs/remotes/origin/*",
                "+refs/tags/*:refs/tags/*",
            )
        else:
            git("fetch", "--quiet", "--no-tags", "--depth=1", *filtered, "origin", f"+{ref}:{ref}")
        git("checkout", "--quiet", "--detach", ref)
        if str(fields.get("submodules", "false")) != "false":
            git("submodule", "update", "--quiet", "--init", "--recursive")

    def _save(self, fields: dict[str, Any]) -> str:
        """Keep a file or a folder under a key."""
        path, kept = Path(fields["path"]), self.folder / "cache" / fields["key"]
        assert "," not in fields["key"]
        assert len(fields["key"]) <= 512
        assert not kept.exists(), "a key is written once"
        if path.exists():
            kept.mkdir(parents=True)
            _copy(path, kept / path.name)
        return ""

    def _restore(self, fields: dict[str, Any]) -> str:
        """Fetch what has the key, or the newest whose key begins as asked; return what the action says of it."""
        path = Path(fields["path"])
        newest = sorted((self.folder / "cache").glob("*"), key=lambda kept: kept.stat().st_mtime, reverse=True)
        keys = [fields["key"], *str(fields.get("restore-keys", "")).split()]
        hits = [kept for key in keys for kept in newest if kept.name.startswith(key)]
        if hits:
            _copy(hits[0] / path.name, path)
        return "true" if hits and hits[0].name == fields["key"] else ""

    def _upload(self, fields: dict[str, Any], place: Path) -> None:
        lines = str(fields["path"]).split()
        patterns = [line for line in lines if not line.startswith("!")]
        left_out = [Path(line[1:]) for line in lines if line.startswith("!")]
        if Path(patterns[0]).is_absolute():
            # No glob of Python's takes a pattern that begins at the root.
            place = Path(*takewhile(_is_plain, Path(patterns[0]).parts)).parent
            patterns = [str(Path(pattern).relative_to(place)) for pattern in patterns]
        # The folder that all of them have in common; of one with wildcards, what is before the first.
        root = place if len(patterns) > 1 else place.joinpath(*takewhile(_is_plain, Path(patterns[0]).parts))
        root = root.parent if root.is_file() else root
        found = [file for pattern in patterns for item in place.glob(pattern)
                 for file in ([item] if item.is_file() else item.rglob("*"))
                 if file.is_file() and (fields.get("include-hidden-files") or not _is_hidden(file, root))
                 and not any(file.is_relative_to(folder) for folder in left_out)]  # fmt: skip
        if not found:
            assert fields["if-no-files-found"] != "error", f"nothing to upload: {patterns}"
            return
        target = self.artifacts / fields["name"]
        if target.exists():
            assert fields["overwrite"]
            shutil.rmtree(target)
        for file in found:
            copy = target / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)

    def _merge(self, fields: dict[str, Any]) -> None:
        target = self.artifacts / fields["name"]
        assert not target.exists()
        parts = [path for path in self.artifacts.iterdir() if fnmatchcase(path.name, fields["pattern"])]
        for part in parts:
            hidden = None if fields.get("include-hidden-files") else shutil.ignore_patterns(".*")
            shutil.copytree(part, target, dirs_exist_ok=True, ignore=hidden)
            if fields["delete-merged"]:
                shutil.rmtree(part)

    def _download(self, fields: dict[str, Any], place: Path) -> None:
        if "name" in fields:
            assert (self.artifacts / fields["name"]).is_dir(), fields["name"]
        pattern = fields.get("name", fields.get("pattern"))
        for artifact in sorted(self.artifacts.iterdir()) if self.artifacts.exists() else []:
            if fnmatchcase(artifact.name, pattern):
                shutil.copytree(artifact, place / fields["path"], dirs_exist_ok=True)


def _with_defaults(declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a call; one that is not declared is an error, as on GitHub."""
    inputs = declared.get("inputs", {})
    assert set(given) <= set(inputs), given
    return {name: given.get(name, item["default"]) for name, item in inputs.items()}


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def _is_plain(part: str) -> bool:
    return not set(part) & set("*?[")


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _filled(value: Any, context: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    return _EXPRESSION.sub(lambda match: _text(_evaluate(match[1], context)), value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """Return the value of an expression: names, strings, numbers, ``==``, ``!=``, ``>``, ``!``, ``||``, ``&&`` and five functions."""
    names: dict[str, Any] = {
        "startsWith": str.startswith,
        "failure": lambda: context.get("failed", False),
        "cancelled": lambda: False,
        "always": lambda: True,
        "fromJSON": json.loads,
    }

    def name(match: re.Match[str]) -> str:
        value: Any = context
        for part in match[0].split("."):
            # What is not there is empty, as GitHub has it.
            value = value.get(part, "") if isinstance(value, dict) else ""
        key = f"value{len(names)}"
        names[key] = value
        return key

    text = text.removeprefix("${{").removesuffix("}}")
    return eval(
        re.sub(r"!(?!=)", " not ", _NAME.sub(name, text)).replace("||", " or ").replace("&&", " and "),
        {"__builtins__": {}},
        names,
    )

"""Secrets: what steps are told in confidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from bakery.core import names
from bakery.recipe.models.base import Model
from bakery.recipe.models.text import REFERENCE, EnvironmentName, Line, distinct, unevaluated


def _plain(value: str) -> str:
    if not value:
        raise ValueError("expected text, got none")
    if REFERENCE.search(value):
        raise ValueError("expected no ${NAME}: where a secret comes from depends on no variable")
    return value


PlainLine = Annotated[Line, AfterValidator(_plain)]


class Secret(Model):
    """A value that steps are told in confidence: exactly one of ``env``, ``file`` and ``command`` says where it is.

    It reaches the steps as BuildKit's secret mount, and ends in no image, file, log or cache key. Since its value is
    no cache key, a step whose result is cached is not repeated when only the secret changed.
    """

    env: EnvironmentName | None = Field(default=None, examples=["HF_TOKEN"])
    """A variable of the environment that bakery runs in."""
    file: Annotated[PlainLine, AfterValidator(unevaluated)] | None = Field(
        default=None, examples=["tokens/index.netrc"]
    )
    """A file on this machine, relative to the recipe's folder; one outside of the project needs ``--allow``."""
    command: tuple[PlainLine, ...] | None = Field(default=None, examples=[["pass", "show", "index/token"]])
    """A program and its arguments, run on this machine without a shell; what it prints is the secret, without the
    last line's end. Needs ``--allow``."""
    steps: Annotated[tuple[names.Phase, ...], AfterValidator(distinct)] = Field(examples=[["requirements"], ["test"]])
    """Who is told: ``fetch`` (the source archive), ``requirements`` (every step that installs Python packages),
    ``native`` and ``test`` (their commands), ``compile`` (what builds the wheel)."""
    variable: EnvironmentName | None = Field(default=None, examples=["HF_TOKEN"])
    """The environment variable that holds it in these steps; without one, the file /run/secrets/NAME does."""

    @field_validator("command")
    @classmethod
    def _has_a_program(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise ValueError("expected a program and its arguments, such as ['pass', 'show', 'token']")
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        given = [name for name in ("env", "file", "command") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected exactly one of env, file and command, got {' and '.join(given) or 'none'}")
        return self

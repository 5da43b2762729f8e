"""Secrets of build steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from bakery.core import names
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import REFERENCE, EnvironmentName, Line, distinct, unevaluated


def _plain(value: str) -> str:
    if not value:
        raise invalid("expected text", got="none")
    if REFERENCE.search(value):
        raise invalid(
            "expected no ${NAME}: the source of a secret depends on no variable",
            "write it out; a program that needs a value can read its environment",
        )
    return value


PlainLine = Annotated[Line, AfterValidator(_plain)]


class Secret(Model):
    """A secret for some steps. Exactly one of ``env``, ``file`` and ``command`` is its source.

    Steps receive it as a BuildKit secret mount. Its value is in no image, file, log or cache key. A cached step
    therefore does not run again if only the secret changed.
    """

    env: EnvironmentName | None = Field(default=None, examples=["HF_TOKEN"])
    """An environment variable of the machine that runs Bakery."""
    file: Annotated[PlainLine, AfterValidator(unevaluated)] | None = Field(
        default=None, examples=["tokens/index.netrc"]
    )
    """A file on this machine, relative to the folder of the recipe. A file outside the project needs ``--allow``."""
    command: tuple[PlainLine, ...] | None = Field(default=None, examples=[["pass", "show", "index/token"]])
    """A program and its arguments, run on this machine without a shell. Its output, without the final line break, is
    the secret. Needs ``--allow``."""
    steps: Annotated[tuple[names.Phase, ...], AfterValidator(distinct)] = Field(examples=[["requirements"], ["test"]])
    """The steps that receive the secret: ``fetch`` (downloads the source), ``requirements`` (all steps that install
    Python packages), ``native`` (``native.command``), ``compile`` (builds the wheel), ``test`` (``test.command``)."""
    variable: EnvironmentName | None = Field(default=None, examples=["HF_TOKEN"])
    """The environment variable that holds the secret in these steps. By default, it is in the file
    ``/run/secrets/NAME``."""

    @field_validator("command")
    @classmethod
    def _has_a_program(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise invalid(
                "expected a program and its arguments, such as ['pass', 'show', 'token']",
                "write each argument as an entry of its own: no shell splits them",
            )
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        given = [name for name in ("env", "file", "command") if getattr(self, name) is not None]
        if len(given) != 1:
            raise invalid(
                "expected exactly one of env, file and command",
                'write env = "NAME", file = "PATH" or command = ["PROGRAM", "ARGUMENT"]',
                got=" and ".join(given) or "none",
            )
        return self

"""A cell whose base images and releases are not decided yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CellDraft:
    """A cell whose base images and releases are not decided yet.

    Attributes:
        id: the cell's id.
        axes: axis → value.
        args: the build arguments that the cell adds or changes.
        built_by: the id of the cell that builds its wheel.
        wheel_python: the Python that builds its wheel.
        abi3: its wheel must be a stable-ABI wheel.
    """

    id: str
    axes: Mapping[str, str]
    args: Mapping[str, str] = field(default_factory=dict)
    built_by: str = ""
    wheel_python: str = ""
    abi3: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "built_by", self.built_by or self.id)
        object.__setattr__(self, "wheel_python", self.wheel_python or self.python)

    @property
    def python(self) -> str:
        """The Python version that the cell is for."""
        return self.axes["python"]

    @property
    def platform(self) -> str:
        """The platform in Docker's spelling."""
        return self.axes["platform"]

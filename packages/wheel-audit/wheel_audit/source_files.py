"""What is known of the source that a wheel was built from: the names and digests of its files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files that the build was sent, by their paths in the build context, as git sees them.

    Attributes:
        tracked: path → sha256 of each file that git tracks.
        ignored: the same of files that git ignores, without those that a build made and those that the recipe accepts.
        links: path and target of each link whose target was not sent, though the checkout has it, and the sha256 of
            that; empty for a folder.
    """

    tracked: tuple[tuple[str, str], ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str, str], ...] = ()

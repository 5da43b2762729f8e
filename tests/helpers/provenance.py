"""What BuildKit reports of a build, and the materials that bakery records from it."""

from __future__ import annotations

from datetime import UTC, datetime

from bakery.runs.records.buildkit import Material, merged, of_buildkit

BUILDKIT_RECORD = {
    "materials": [
        {"uri": "pkg:docker/debian@bookworm-slim?platform=linux%2Famd64", "digest": {"sha256": "4f" * 32}},
        {"uri": "https://me:token@host/owner/project.git#v1", "digest": {"sha1": "ab" * 20}},
        {"uri": 5},
        "nothing",
    ]
}

MATERIALS = merged([Material("source of demo", "source", digest={"dirHash": "cd" * 32}), *of_buildkit(BUILDKIT_RECORD)])

MOMENT = datetime(2026, 11, 21, 12, 30, 5, 999, tzinfo=UTC)

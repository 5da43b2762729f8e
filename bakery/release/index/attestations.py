"""The attestations of a wheel, as an index serves them: a provenance object of PEP 740.

They lie beside the wheel, from whatever made them: PEP 740 attestations (``WHEEL.publish.attestation``), Sigstore bundles
(``WHEEL.sigstore.json``, or ``sha256:DIGEST.jsonl`` of ``gh attestation download``), or what another index serves
(``WHEEL.provenance``). Signatures are not verified here: who installs does that, against a publisher that they expect.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bakery.release.index.files import File, NotAWheel
from wheel_audit.plain_files import read_plain
from wheel_audit.readers import json_of

SUFFIX = ".provenance"
LARGEST = 4 << 20
"""Limit of a file with attestations, in bytes."""

_BUILD_CONFIG = bytes.fromhex("060a2b0601040183bf300112")
"""1.3.6.1.4.1.57264.1.18, the field of Sigstore's certificates that names the workflow which ran, in DER."""
_WORKFLOW = re.compile(
    rb"https://(?P<host>github|gitlab)\.com/(?P<repository>[\w./-]+?)/(?:/|\.github/workflows/)(?P<file>[\w./-]+)@"
)
_KINDS = {b"github": ("GitHub", "workflow"), b"gitlab": ("GitLab", "workflow_filepath")}


def provenance(wheel: Path, file: File) -> str:
    """Return the provenance object of a wheel from the files beside it; empty if there are none.

    Raises NotAWheel if one of them is damaged, or about another file, and OSError.
    """
    bundles: dict[str, tuple[dict[str, str], list[object]]] = {}
    paths = [wheel.with_name(wheel.name + tail) for tail in (SUFFIX, ".publish.attestation", ".sigstore.json")]
    for path in (*paths, wheel.with_name(f"sha256:{file.sha256}.jsonl")):
        if not path.is_file():
            continue
        try:
            for item in _attestations(path):
                _check(item, file)
                publisher = _publisher(item)
                attestations = bundles.setdefault(json.dumps(publisher), (publisher, []))[1]
                attestations += [item] if item not in attestations else []
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise NotAWheel(f"{path.name} is no attestation of it: {error}") from None
    rows = [{"publisher": publisher, "attestations": items} for publisher, items in bundles.values()]
    return json.dumps({"version": 1, "attestation_bundles": rows}, indent=1) + "\n" if rows else ""


def _attestations(path: Path) -> Iterator[dict[str, Any]]:
    text = read_plain(path, LARGEST)
    if path.suffix == SUFFIX:
        for bundle in json_of(text)["attestation_bundles"]:
            yield from bundle["attestations"]
    elif path.suffix == ".attestation":
        yield json_of(text)
    else:
        yield from map(_of_bundle, map(json_of, text.splitlines() if path.suffix == ".jsonl" else [text]))


def _of_bundle(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return a Sigstore bundle in the form of PEP 740."""
    material, envelope = bundle["verificationMaterial"], bundle["dsseEnvelope"]
    chain = material.get("x509CertificateChain", {}).get("certificates", ())
    certificate = material["certificate"] if "certificate" in material else chain[0]
    return {
        "version": 1,
        "verification_material": {
            "certificate": certificate["rawBytes"],
            "transparency_entries": material["tlogEntries"],
        },
        "envelope": {"statement": envelope["payload"], "signature": envelope["signatures"][0]["sig"]},
    }


def _check(item: dict[str, Any], file: File) -> None:
    subjects = json_of(_decoded(item["envelope"]["statement"]))["subject"]
    if not any(subject["digest"].get("sha256") == file.sha256 for subject in subjects):
        raise ValueError(f"its subject is not the file with sha256 {file.sha256}")


def _publisher(item: dict[str, Any]) -> dict[str, str]:
    """Return the workflow of the certificate that signed."""
    certificate = _decoded(item["verification_material"]["certificate"])
    # The tag and the length of the text come before it: two octet strings in each other.
    found = _WORKFLOW.search(certificate.partition(_BUILD_CONFIG)[2][:512])
    if not found:
        raise ValueError("its certificate names no workflow of GitHub or GitLab")
    kind, key = _KINDS[found["host"]]
    return {"kind": kind, "repository": found["repository"].decode(), key: found["file"].decode()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"base64 is expected: {error}") from None

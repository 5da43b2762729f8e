"""What is advised for what failing steps print."""

from __future__ import annotations

import re

import pytest

from bakery.runs.buildx.failures import hint, messages

COMPILE = "[compile 3/5] RUN python -m build"
PRINTED = [
    ("", "ERROR: No matching distribution found for nanobind==99", "no such release"),
    ("", "  × No solution found when resolving dependencies:", "no such release"),
    ("", "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "--ca-bundle"),
    ("", "curl: (60) SSL certificate problem: unable to get local issuer certificate", "--ca-bundle"),
    ("", "OSError: [Errno 28] No space left on device", "docker buildx prune"),
    ("", "g++: fatal error: Killed signal terminated program cc1plus", "MAX_JOBS"),
    ("", "Killed", "MAX_JOBS"),
    ("", 'process "/bin/sh -c make" did not complete successfully: exit code: 137', "MAX_JOBS"),
    ("", "no match for platform in manifest: not found", "no variant for this platform"),
    ("", "exec /bin/sh: exec format error", "emulation"),
    (
        "[internal] load metadata for x/y:1",
        'Head "https://x/v2/y": dial tcp: lookup x: no such host',
        "BAKERY_BASE_REGISTRY",
    ),
    ("", "debian:x: failed to resolve source metadata for docker.io/library/debian:x: no such host", "registry"),
    (COMPILE, "NewConnectionError: [Errno -3] Temporary failure in name resolution", "builder.requirements"),
    ("[native-cu12 1/1] RUN make", "fatal: Could not resolve host: github.com", "native.network"),
    ("[native-requirements 1/1] RUN pip", "Could not resolve host: pypi.org", "DNS and proxy"),
    ("[backend-requires-again 1/1] RUN x", "fatal: Could not resolve host: github.com", "never has network"),
    ("[requirements 1/2] RUN pip install x", "Could not resolve host: pypi.org", "DNS and proxy"),
    (COMPILE, "ModuleNotFoundError: No module named 'scikit_build_core'", "builder.requirements"),
    (COMPILE, "host_config.h:151:2: error: #error -- unsupported GNU version! gcc later than 13", "compiler"),
    (COMPILE, "nvcc fatal   : Unsupported gpu architecture 'compute_121'", "architecture"),
    (COMPILE, "/bin/sh: 1: cmake: not found", "the program cmake not found"),
    (COMPILE, "ext.cu:1:10: fatal error: cuda_runtime.h: No such file or directory", "CUDA not found"),
    ("", "auditwheel: error: cannot repair x.whl to manylinux_2_17 ABI because of too-recent", "newer glibc"),
    ("", "[output clipped, log limit 200KiB/s reached]", "BUILDKIT_STEP_LOG_MAX_SIZE"),
    ("", "failed to find target wheel-cp399", "wheel-bakery generate"),
    (COMPILE, "/bin/sh: 1: ./scripts/prepare.sh: not found", "Windows line ends"),
    (COMPILE, "/usr/bin/env: \u2018python3\\r\u2019: No such file or directory", "Windows line ends"),
    (COMPILE, "bash: ./x.sh: /bin/bash^M: bad interpreter: No such file or directory", "Windows line ends"),
    (COMPILE, "x.sh: line 2: $'\\r': command not found", "Windows line ends"),
]


@pytest.mark.parametrize(("title", "line", "said"), PRINTED)
def test_known_causes(title: str, line: str, said: str) -> None:
    assert said in hint(["something before", line, "something after"], title)


def test_every_cause_is_tested() -> None:
    found = {hint([line], title) for title, line, _ in PRINTED}
    missing = [known.hint for known in (*messages().hints, *messages().otherwise) if known.hint not in found]
    assert missing == ["the engine does not answer: run `wheel-bakery doctor`"]
    assert hint(["Cannot connect to the Docker daemon at unix:///x.sock."]) == missing[0]


@pytest.mark.parametrize("line", ["all is well", "skilled", "killed mutants: 5", "exit code: 1", ""])
def test_unknown_causes(line: str) -> None:
    assert hint([line], COMPILE) == ""


def test_patterns_are_lines_of_data() -> None:
    for known in messages().hints:
        assert all(map(re.compile, known.patterns))
        assert not known.hint.endswith(".")

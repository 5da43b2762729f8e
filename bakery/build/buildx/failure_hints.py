"""Known causes of failed steps, and what to do about each; tried in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailureHint:
    """A known cause of a failure.

    Attributes:
        pattern: found in one line of the step's output or of BuildKit's error, ignoring case.
        hint: what to do.
        stage: found in the step's title; empty for any step.
    """

    pattern: str
    hint: str
    stage: str = ""


TABLE: tuple[FailureHint, ...] = (
    FailureHint(
        r"no space left on device|disk quota exceeded",
        "the engine's disk is full: free space with `docker buildx prune` or move the engine's data",
    ),
    FailureHint(
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|self[- ]signed certificate|"
        r"x509: certificate signed by unknown authority|unable to get local issuer certificate|"
        r"invalid peer certificate",
        "TLS is intercepted by a proxy whose authority the step does not know: hand it in with --ca-bundle FILE",
    ),
    FailureHint(
        r"\b(?:cicc|cc1plus|ptxas|nvcc|ld|collect2)\b.*\bkilled\b|^killed\W*$|signal: killed|exit code: 137|"
        r"fatal error: killed signal terminated|virtual memory exhausted|cannot allocate memory|out of memory",
        "memory ran out: lower the number of compile jobs (MAX_JOBS) or bake fewer targets at once",
    ),
    FailureHint(
        r"exec format error",
        "the step's programs are for another machine: set up emulation (`wheel-bakery doctor` says how), bake on a builder "
        "of that platform, compile on this one (builder.cross), or check that the base image is of the platform asked for",
    ),
    FailureHint(
        r"no match for platform in manifest|does not (?:provide|match) the (?:requested|specified) platform|"
        r"no matching manifest for",
        "the base image has no variant for this platform: choose another base or take the platform out of the matrix",
    ),
    FailureHint(
        r"temporary failure in name resolution|could not resolve host|name or service not known|"
        r"failed to resolve host|network is unreachable|dns error: failed to lookup",
        "compile steps have no network: put what they fetch into builder.requirements or builder.system-packages",
        stage=r"\bcompile\b",
    ),
    FailureHint(
        r"failed to resolve source metadata for|pull access denied|failed to authorize|"
        r"lookup registry-1\.docker\.io|toomanyrequests",
        "the base image cannot be had from its registry: check its name and `docker login`, or use a base that is "
        "made here (base = { debian = … })",
    ),
    FailureHint(
        r"unsupported GNU version|unsupported clang version|host_config\.h.*#error",
        "this CUDA release does not take the base's compiler: choose an older base, a newer CUDA_VERSION, or another "
        "toolkit",
    ),
    FailureHint(
        r"unsupported gpu architecture|Value 'sm_\d+\w*' is not defined for option 'gpu-name'",
        "this CUDA release does not know a GPU architecture that the project asks for: change the architectures or "
        "CUDA_VERSION",
    ),
    FailureHint(
        r"No matching distribution found for|Could not find a version that satisfies|"
        r"No solution found when resolving dependencies",
        "the package index has no such release for this Python and platform: check name, version and Python, or "
        "hand in the index that has it with a pip.conf",
    ),
    FailureHint(
        r"temporary failure in name resolution|could not resolve host|name or service not known|"
        r"connection (?:refused|timed out|reset by peer)|read timed out|TLS handshake timeout|"
        r"network is unreachable|failed to fetch|502 bad gateway|503 service unavailable",
        "the network failed: check DNS and proxy (`wheel-bakery doctor`), then bake again; finished steps are cached",
    ),
    FailureHint(
        r"ModuleNotFoundError: No module named|BackendUnavailable|Cannot import 'setuptools|"
        r"Missing dependencies:|ERROR Missing dependencies",
        "a build dependency is missing: add it to builder.requirements",
    ),
    FailureHint(
        r"(?:gcc|g\+\+|cc|c\+\+|cmake|ninja|make|nvcc|git|pkg-config): (?:command )?not found|"
        r"No CMAKE_\w+_COMPILER could be found|CMake must be installed",
        "a build tool is missing: add it to builder.system-packages (system) or builder.requirements (Python)",
    ),
    FailureHint(
        r"fatal error: .*\.h(?:pp|xx)?: No such file or directory|fatal error: '.*' file not found",
        "a header is missing: add the package that has it to builder.system-packages or builder.requirements",
    ),
    FailureHint(
        r"cannot repair .* to .* ABI|too-recent versioned symbols",
        "the wheel needs a newer glibc than its platform tag allows: choose an older base or a newer policy",
    ),
    FailureHint(
        r"permission denied.*docker\.sock|cannot connect to the docker daemon",
        "the engine does not answer: run `wheel-bakery doctor`",
    ),
    FailureHint(
        r"output clipped, log limit",
        "the engine cut the step's output: give dockerd the environment BUILDKIT_STEP_LOG_MAX_SIZE=-1 and "
        "BUILDKIT_STEP_LOG_MAX_SPEED=-1 to see all of it",
    ),
    FailureHint(r"failed to find target", "the bake file is out of date: run `wheel-bakery generate`"),
)


def hint(lines: Iterable[str], title: str = "") -> str:
    """Return what to do about a failed step; empty if the cause is not known.

    Args:
        lines: the step's output, and BuildKit's error.
        title: the step as displays show it: ``[compile 3/5] RUN …``.
    """
    texts = tuple(lines)
    for entry in TABLE:
        if entry.stage and not re.search(entry.stage, title.partition("]")[0]):
            continue
        pattern = re.compile(entry.pattern, re.IGNORECASE)
        if any(pattern.search(line) for line in texts):
            return entry.hint
    return ""

"""Transient failures: the network, a registry, an engine that went away.

A failed compile or test step is never transient, whatever it prints: it has no network, and would fail again after hours
of work. The patterns come from real messages (tests/unit/build/test_transient.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bakery.build.buildx.outcome import LATE, Failure

OWN_WORK = re.compile(r"\[(?:\S+ )?(?:native|compile|repair|\S+-test|\S+-built)(?: \d+/\d+)?\] (?:RUN|COPY|WORKDIR)\b")
"""Titles of steps that run the project's own code."""

_STEP_ENDED = "did not complete successfully: "
"""In BuildKit's error if a step's command failed; other errors are those of the engine."""

ENGINE: tuple[str, ...] = (
    r"cannot connect to the docker daemon",
    r"error during connect",
    r"failed to (?:dial|connect to) .*(?:docker|buildkit)",
    r"dial unix \S+: connect: (?:connection refused|no such file or directory)",
    r"code = Unavailable",
    r"(?:error reading from server|transport is closing|connection error: desc)",
    r"rpc error: .*(?:EOF|connection reset by peer|broken pipe)",
    # Once all is built, the client waits only a moment for the rest of a long log.
    r"failed to receive status: .*(?:EOF|closed|reset|context canceled)",
    r"closing transport due to: ",
    r"graceful_stop|server is shutting down|grpc: the client connection is closing",
    r"no active session for \S+: context deadline exceeded",
    r"failed to list workers",
    r"docker buildx bake was ended by SIG",
    r"containerd: .*(?:connection refused|not running)",
)
"""Messages of BuildKit, buildx and docker when the engine went away or the connection to it broke."""

NETWORK: tuple[str, ...] = (
    r"temporary failure in name resolution|temporary failure resolving",
    r"could not resolve host|name or service not known|failed to resolve host|no such host|server misbehaving",
    r"dns error: failed to lookup",
    r"connection (?:refused|timed out|reset by peer|aborted|closed)|connection was reset|broken pipe",
    r"connect(?:ion)? timeout|read(?:ing)? timed out|operation (?:too slow|timed out)|i/o timeout",
    r"tls handshake timeout|handshake (?:timed out|operation timed out)|unexpected eof|eof occurred in violation",
    r"net/http: request canceled|client\.timeout exceeded|http2: (?:client connection lost|server sent goaway)",
    r"network is unreachable|no route to host|host is unreachable",
    r"download failed after \d+ attempts? because not enough bytes were received",
    r"remote end closed connection|incompleteread|incomplete message|connection broken|early eof",
    r"the remote end hung up unexpectedly|rpc failed; (?:curl|http)|unexpected disconnect",
    r"hash sum mismatch|file has unexpected size|mirror sync in progress",
    r"\b(?:500 +internal server error|502 +bad gateway|503 +service (?:temporarily )?unavailable|504 +gateway time-?out)",
    r"(?:http|status|error|returned|code)[^a-z0-9]{1,4}(?:429|5(?:00|02|03|04))\b",
    r"\b(?:429|5(?:00|02|03|04)) (?:server|client) error",
    r"unexpected status(?: code)?(?: from \S+ request to \S+| \S+)?:? (?:429|5\d\d)\b|too ?many ?requests",
    r"server returned error status code: 5\d\d|max retries exceeded with url",
)
"""Messages of package managers, pip, uv, git and curl when the network or the server failed."""

_LOST = re.compile(r"snapshot \S+ does not exist|/snapshots/\d+/fs: no such file or directory")
"""Messages of containerd or the kernel about a missing layer."""


def is_transient(failure: Failure) -> bool:
    """Return whether another try may pass."""
    error, _, ended = failure.error.partition(_STEP_ENDED)
    if not ended:
        return _matches((*ENGINE, *NETWORK), (error, *(() if failure.step else failure.tail)))
    if OWN_WORK.match(failure.step):
        return False
    return _matches(NETWORK, failure.tail)


def may_be_the_cache(failure: Failure) -> bool:
    """Return whether layers of an imported cache may be missing: no command failed, and it was not the time limit.

    BuildKit trusts the index of a cache, and fetches a layer only when a step needs it.
    """
    return _STEP_ENDED not in failure.error and not failure.error.startswith(LATE)


def lost_a_layer(failure: Failure) -> bool:
    """Return whether the engine's build cache names a layer that the engine does not have; retries do not help.

    A client that is killed can cause this (https://github.com/moby/buildkit/pull/6808). A build without the cache
    replaces the lost layer.
    """
    return _STEP_ENDED not in failure.error and bool(_LOST.search(failure.error))


def went_away(failure: Failure) -> bool:
    """Return whether the engine or the connection to it failed, not a command."""
    return _STEP_ENDED not in failure.error and is_transient(failure)


def _matches(patterns: Sequence[str], lines: Sequence[str]) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns for line in lines)

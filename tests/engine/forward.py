"""Listens at an address and hands connections on: what this machine's loopback has, for a network namespace.

    forward.py ADDRESS PORT HOST TARGET_PORT

HOST may be the path of a unix socket; TARGET_PORT is not used then.
"""

from __future__ import annotations

import asyncio
import sys

from gate import splice


async def main(address: str, port: int, host: str, target: int) -> None:
    """Listen until this process is ended."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, out = await (
                asyncio.open_unix_connection(host) if host.startswith("/") else asyncio.open_connection(host, target)
            )
        except OSError:
            writer.close()
            return
        await asyncio.gather(splice(reader, out), splice(inner, writer))

    server = await asyncio.start_server(serve, address, port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))

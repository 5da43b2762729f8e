"""Makes an engine's BuildKit a node that is reached over TCP with TLS, as a buildkitd of its own would be.

    gate.py SOCKET PORT FOLDER

dockerd has BuildKit inside, and hands a connection over to it where ``POST /grpc`` asks for an upgrade to h2c (moby
api/server/router/grpc). Whoever connects must show a certificate that ca.pem of FOLDER signed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys

UPGRADE = b"POST /grpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


async def splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes until the end of it."""
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def main(socket: str, port: int, folder: str) -> None:
    """Listen until this process is ended."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=f"{folder}/ca.pem")
    context.load_cert_chain(f"{folder}/node.pem", f"{folder}/node.key")
    context.verify_mode = ssl.CERT_REQUIRED
    # gRPC refuses a server that does not choose HTTP/2.
    context.set_alpn_protocols(["h2"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, out = await asyncio.open_unix_connection(socket)
            out.write(UPGRADE)
            await inner.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return
        await asyncio.gather(splice(reader, out), splice(inner, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

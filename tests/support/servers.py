"""Real servers on loopback: git's own http-backend behind a web server, and ssh."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

WAIT_SECONDS = 20.0


@contextmanager
def http(folder: Path, *, password: str = "") -> Iterator[str]:
    """Serve the repositories below ``folder`` over smart HTTP and yield the URL of the folder.

    Args:
        password: Password of the user ``me``. Without one, anyone has access.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.receivepack",
        "GIT_CONFIG_VALUE_0": "true",
        "REMOTE_USER": "me",
    }

    class Handler(BaseHTTPRequestHandler):
        """A request handler that runs ``git http-backend`` as a CGI program."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            import base64

            expected = "Basic " + base64.b64encode(f"me:{password}".encode()).decode()
            if password and self.headers.get("Authorization") != expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="sessions"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            asked = {
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(
                ["git", "http-backend"],
                input=self.body(),
                env={**environment, **asked},
                capture_output=True,
                check=False,
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def ssh(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve repositories over ssh. Yield the prefix of their URLs and the ssh command with its keys.

    The server is OpenSSH's own if it is installed, otherwise one in Python. If neither is available, the test is
    skipped.
    """
    if not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        pytest.skip("there is no ssh here")
    keys = folder / "keys"
    keys.mkdir()
    for name in ("host", "me"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
    port = _free_port()
    server = _sshd(keys, port) or _python_sshd(keys, port)
    if server is None:
        pytest.skip("there is no ssh server here: neither OpenSSH's nor the package asyncssh")
    try:
        _wait_for(port, server)
        options = f"-F {os.devnull} -i {keys / 'me'} -p {port} -o IdentitiesOnly=yes -o BatchMode=yes"
        known = f"-o UserKnownHostsFile={keys / 'known'} -o StrictHostKeyChecking=accept-new"
        yield "ssh://127.0.0.1", f"ssh {options} {known}"
    finally:
        server.kill()
        server.wait()


def _sshd(keys: Path, port: int) -> subprocess.Popen[bytes] | None:
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if program is None:
        return None
    (keys / "authorized").write_bytes((keys / "me.pub").read_bytes())
    (keys / "config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {keys / 'host'}\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {keys / 'authorized'}\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    return subprocess.Popen([program, "-D", "-e", "-f", str(keys / "config")], stderr=subprocess.DEVNULL)


_SERVER = """
import asyncio, os, sys, asyncssh

async def serve(process):
    child = await asyncio.create_subprocess_shell(
        process.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, **{k: v for k, v in process.env.items()}})
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    code = await child.wait()
    await process.stdout.drain()
    process.exit(code)

async def main():
    await asyncssh.listen("127.0.0.1", int(sys.argv[2]), server_host_keys=[sys.argv[1] + "/host"],
        authorized_client_keys=sys.argv[1] + "/me.pub", process_factory=serve, encoding=None)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def _python_sshd(keys: Path, port: int) -> subprocess.Popen[bytes] | None:
    if subprocess.run([sys.executable, "-c", "import asyncssh"], capture_output=True, check=False).returncode:
        return None
    return subprocess.Popen([sys.executable, "-c", _SERVER, str(keys), str(port)], stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.skip("the ssh server does not come up here")

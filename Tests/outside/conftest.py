"""The built binary, started as a user starts it, for programs that other people wrote to judge."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import http.server
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest
import requests

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ADMIN_KEY = "outside-checks-0123456789abcdef0123456789abcdef"
WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="


_given: set[int] = set()


def free_port() -> int:
    """One that the kernel gives to nobody by itself (ip_local_port_range), each once."""
    first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(12_000, 65_536) if not first <= port <= last] or range(12_000, 65_536)
    while True:
        port = random.choice(ports)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def eventually(seconds: float, condition, what: str):
    """The first true value of `condition`, looked at every 20 ms."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return value


def missing(what: str):
    """Ends a check that cannot be made: as a failure where make test should have installed what it needs."""
    if shutil.which("apt-get"):
        pytest.fail(f"{what} is missing, and this is a Debian: make install-test-deps, scripts/outside-checks",
                    pytrace=False)
    pytest.skip(f"{what} is missing")


@dataclasses.dataclass
class Ferry:
    """A running `ferry serve`."""
    url: str
    key: str
    data: pathlib.Path
    process: subprocess.Popen

    def call(self, method: str, path: str, **options) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        return requests.request(method, self.url + path, headers=headers, timeout=90, **options)

    def log(self) -> str:
        return (self.data / "log").read_text(errors="replace")


def binary() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("FERRY_BINARY") or REPOSITORY / ".build/debug/ferry").resolve()
    if not path.exists():
        pytest.fail(f"{path} is not built: swift build", pytrace=False)
    return path


def refusing(calls: dict[int, int], third: int | None = None):
    """For a child before it begins: a kernel, or a container's profile, that refuses these calls with these errors
    (seccomp(2); the numbers are those of x86-64). `third`: only those whose third argument is that."""
    number, argument = 0, 32
    instructions = []
    for call, error in calls.items():
        instructions += [(0x20, 0, 0, number), (0x15, 0, 1 if third is None else 3, call)]
        if third is not None:
            instructions += [(0x20, 0, 0, argument), (0x15, 0, 1, third)]
        instructions.append((0x06, 0, 0, 0x00050000 | error))
    instructions.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
    keep = [code, program]

    def refuse():
        set_no_new_privs, set_seccomp, filtered = 38, 22, 2
        assert prctl(set_no_new_privs, 1, 0, 0, 0) == 0
        assert prctl(set_seccomp, filtered, ctypes.addressof(keep[1]), 0, 0) == 0

    return refuse


@contextlib.contextmanager
def running(open_files: int | None = None, refuse=None, **settings: str):
    """A service of its own with these settings beside the usual ones; ended with SIGTERM, which must give 0.

    `open_files`: the most that it and its database may have open. `refuse`: what `refusing` made."""
    # Not pytest's own folder: that is closed, and the private PostgreSQL runs as another user when we are root.
    data = pathlib.Path(tempfile.mkdtemp(prefix="ferry-outside-"))
    data.chmod(0o755)
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FERRY_")}
    environment |= {
        "FERRY_LISTEN": f"127.0.0.1:{port}", "FERRY_DATA_DIR": str(data), "FERRY_ADMIN_KEY": ADMIN_KEY,
        "FERRY_EGRESS_ALLOW": "127.0.0.0/8", "FERRY_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "FERRY_LOG_LEVEL": "warning", "FERRY_LOG_FORMAT": "json", "FERRY_DRAIN_SECONDS": "2",
    } | settings
    limited = ["prlimit", f"--nofile={open_files}:{open_files}"] if open_files else []
    with open(data / "log", "wb") as log:
        process = subprocess.Popen([*limited, binary(), "serve"], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True,
                                   preexec_fn=refuse)
    service = Ferry(f"http://127.0.0.1:{port}", ADMIN_KEY, data, process)

    def is_ready():
        assert process.poll() is None, f"ferry ended with {process.returncode}:\n{service.log()}"
        try:
            return service.call("GET", "/readyz").status_code == 200
        except requests.ConnectionError:
            return False

    try:
        eventually(60, is_ready, "ready")
        yield service
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, f"SIGTERM must end it with 0:\n{service.log()}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture(scope="module")
def ferry():
    """One for each file: what a fuzzer leaves behind, ten thousands of jobs for hosts that do not exist, is its own."""
    with running() as service:
        yield service


@dataclasses.dataclass
class Message:
    """One request as the receiver got it."""
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver(http.server.ThreadingHTTPServer):
    """Serves small files on GET, and takes webhooks on POST with the statuses that a test asks for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.files: dict[str, bytes] = {}
        self.statuses: dict[str, list[int]] = {}
        self.messages: list[Message] = []
        self.lock = threading.Lock()

    def received(self, path: str) -> list[Message]:
        with self.lock:
            return [message for message in self.messages if message.path == path]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.server.files.get(self.path)
        self.answer(404 if body is None else 200, body or b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.messages.append(Message(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            statuses = self.server.statuses.get(self.path, [])
            status = statuses.pop(0) if statuses else 204
        self.answer(status, b"")

    def answer(self, status: int, body: bytes):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture()
def receiver():
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()

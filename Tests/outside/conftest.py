"""The release build, started as a user starts it, for programs that other people wrote to judge."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import http.server
import os
import pathlib
import random
import select
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


_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report):
    """Adds the time of each check to the file that FERRY_TEST_TIMES names, as the tests in Swift do (OwnThread.swift)."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration
    path = os.environ.get("FERRY_TEST_TIMES")
    if path and report.when == "teardown":
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{_seconds[report.nodeid]}\t{report.nodeid}\n")


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
    """The program that users run: the release build, unless FERRY_BINARY names another one."""
    path = pathlib.Path(os.environ.get("FERRY_BINARY") or REPOSITORY / ".build/release/ferry").resolve()
    if not path.exists():
        pytest.fail(f"{path} is not built: make release", pytrace=False)
    return path


def refusing(calls: dict[int, int], third: int | None = None):
    """For a child before it begins: a kernel, or a container's profile, that refuses these calls with these errors
    (seccomp(2); the numbers are those of x86-64). `third`: only those whose third argument is that."""
    install = _filter({call: 0x00050000 | error for call, error in calls.items()}, third)

    def refuse():
        install(0)

    return refuse


def _filter(calls: dict[int, int], third: int | None = None):
    """For a child before it begins: what becomes of these calls; the others are allowed. Gives what seccomp(2) gives
    with the flags that it is called with."""
    number, argument = 0, 32
    instructions = []
    for call, action in calls.items():
        instructions += [(0x20, 0, 0, number), (0x15, 0, 1 if third is None else 3, call)]
        if third is not None:
            instructions += [(0x20, 0, 0, argument), (0x15, 0, 1, third)]
        instructions.append((0x06, 0, 0, action))
    instructions.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
    library.syscall.argtypes = 4 * [ctypes.c_long]
    keep = [code, program]

    def install(flags: int) -> int:
        set_no_new_privs, seccomp, set_mode_filter = 38, 317, 1
        assert library.prctl(set_no_new_privs, 1, 0, 0, 0) == 0
        result = library.syscall(seccomp, set_mode_filter, flags, ctypes.addressof(keep[1]))
        assert result >= 0, os.strerror(ctypes.get_errno())
        return result

    return install


class Stalls:
    """A disk that hangs: these calls of a child, but not of its own children, wait while `stalled` is set, and then go
    on as if nothing had happened (seccomp_unotify(2)). `install` is for `running`."""

    def __init__(self, *calls: int):
        self.stalled = threading.Event()
        self.waiting = 0
        self._ours, self._theirs = socket.socketpair()
        self._filter = _filter({call: 0x7FC00000 for call in calls})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def install(self):
        new_listener = 8
        listener = self._filter(new_listener)
        socket.send_fds(self._theirs, [os.getpid().to_bytes(4, "little")], [listener])
        os.close(listener)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stalled.clear()
        self._ending.set()
        # Nobody may ever have been started.
        self._ours.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._ours.close()
        self._theirs.close()

    def _answer(self):
        message, listeners, _, _ = socket.recv_fds(self._ours, 4, 1)
        if not listeners:
            return
        listener, child = listeners[0], int.from_bytes(message, "little")
        held: list[int] = []
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while not self._ending.is_set() or held:
            self.waiting = len(held)
            events = poll.poll(20)
            if any(event & select.POLLHUP for _, event in events):
                break
            if events:
                receive, request = 0xC0502100, bytearray(80)
                with contextlib.suppress(OSError):
                    fcntl.ioctl(listener, receive, request)
                    call, task = struct.unpack_from("QI", request)
                    held.append(call)
                    if self.stalled.is_set() and os.path.exists(f"/proc/{child}/task/{task}"):
                        continue
                    self._let_go(listener, held.pop())
            if not self.stalled.is_set():
                while held:
                    self._let_go(listener, held.pop())
        os.close(listener)

    @staticmethod
    def _let_go(listener: int, call: int):
        send, go_on = 0xC0182101, 1
        # The task may have ended meanwhile.
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, send, bytearray(struct.pack("QqiI", call, 0, 0, go_on)))


def made_folder() -> pathlib.Path:
    """Not pytest's own: that is closed, and the private PostgreSQL runs as another user when we are root. By exactly
    this form the tests in Swift know what a killed run has left (TemporaryDirectory)."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=f"ferry-outside-{os.getpid()}-"))
    path.chmod(0o755)
    return path


@pytest.fixture()
def folder():
    path = made_folder()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def running(open_files: int | None = None, refuse=None, status: int = 0, **settings: str):
    """A service of its own with these settings beside the usual ones; ended with SIGTERM, which must give this status.

    `open_files`: the most that it and its database may have open. `refuse`: what `refusing` made, or `Stalls.install`."""
    data = made_folder()
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
        eventually(120, is_ready, "ready")
        yield service
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == status, f"SIGTERM must end it with {status}:\n{service.log()}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(data, ignore_errors=True)


def killed_and_started(service: Ferry) -> subprocess.Popen:
    """Ends a service of `running(status=-9)` with SIGKILL and starts it again, with the same data and settings."""
    given = pathlib.Path(f"/proc/{service.process.pid}/environ").read_text().split("\0")[:-1]
    environment = dict(one.split("=", 1) for one in given)
    program = os.readlink(f"/proc/{service.process.pid}/exe")
    service.process.kill()
    service.process.wait()
    with open(service.data / "log", "ab") as log:
        second = subprocess.Popen([program, "serve"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  start_new_session=True)

    def is_ready():
        with contextlib.suppress(requests.ConnectionError):
            return service.call("GET", "/readyz").status_code == 200

    eventually(120, is_ready, "ready again")
    return second


@pytest.fixture(scope="session")
def judge():
    """A store that judges signatures: moto."""
    from stores import moto
    with moto() as store:
        yield store


@pytest.fixture(scope="session")
def weed():
    """A store that verifies checksums: SeaweedFS."""
    from stores import seaweedfs
    folder = made_folder()
    with seaweedfs(folder) as store:
        yield store
    shutil.rmtree(folder, ignore_errors=True)


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

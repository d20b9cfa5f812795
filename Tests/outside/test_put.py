"""Local files that `ferry put` sends: sizes, interruptions of either side, and the bytes that they cost."""
from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import signal
import socket
import subprocess
import threading

import pytest

from conftest import binary, eventually, made_folder, running

MIB = 1 << 20
SIZE = 50 * MIB
# Field lines, the bytes between two durable offsets, and what the sockets hold.
SLACK = 10 * MIB


class _Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left > 0 and (data := self.rfile.read(min(left, MIB))):
            digest.update(data)
            left -= len(data)
        self.server.received.append((self.path, digest.hexdigest()))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture()
def origin():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    server.received = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class Relay:
    """Passes connections to the service, and counts the bytes of requests. After `limit` of them in all, passes no
    more until `released`; with `cuts`, closes the connection instead, once."""

    def __init__(self, ferry, limit: int | None = None, cuts: bool = False):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.limit, self.cuts, self.count, self.lock = limit, cuts, 0, threading.Lock()
        self.held, self.released = threading.Event(), threading.Event()
        self.follow(ferry)
        threading.Thread(target=self._accept, daemon=True).start()

    def follow(self, ferry):
        self.port = int(ferry.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket):
        try:
            service = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            return client.close()

        def down():
            with contextlib.suppress(OSError):
                while data := service.recv(65536):
                    client.sendall(data)
            end()

        def end():
            # Not only a shutdown: a sender whose bytes are not read must get a reset.
            for side in (client, service):
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
                side.close()

        threading.Thread(target=down, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                with self.lock:
                    self.count += len(data)
                    is_over = self.limit is not None and self.count > self.limit
                service.sendall(data)
                if is_over and self.cuts:
                    self.limit = None
                    break
                if is_over:
                    self.held.set()
                    self.released.wait()
        end()


def environment(url: str, key: str) -> dict:
    return os.environ | {"FERRY_URL": url, "FERRY_KEY": key}


def put(ferry, url: str, *arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), "put", *arguments], env=environment(url, ferry.key), capture_output=True,
                          text=True, timeout=300, **options)


def made(path, size: int = SIZE) -> str:
    """Writes random bytes, and returns their digest."""
    data = os.urandom(size)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def uploads(ferry) -> list:
    return ferry.call("GET", "/v1/uploads?limit=100").json()["data"]


def test_files_of_any_size_are_sent_in_parallel_and_leave_no_upload(ferry, origin, tmp_path):
    digests = {f"/in/{name.replace(' ', '%20')}": made(tmp_path / name, size)
               for name, size in [("first", SIZE), ("the second", SIZE), ("small", 100), ("empty", 0)]}
    run = put(ferry, ferry.url, "first", "the second", "small", "empty", f"{origin.url}/in/", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert dict(origin.received) == digests and len(origin.received) == 4
    assert len(run.stderr.splitlines()) == 4 and "first: 50.0 MiB sent, answered with 201" in run.stderr
    assert uploads(ferry) == []


def test_the_same_command_after_a_success_sends_the_file_again(ferry, origin, tmp_path):
    digest = made(tmp_path / "f", MIB)
    for _ in range(2):
        run = put(ferry, ferry.url, str(tmp_path / "f"), f"{origin.url}/f")
        assert run.returncode == 0, run.stderr
    assert origin.received == 2 * [("/f", digest)]


@pytest.mark.parametrize("size", [0, 1000, 5 * MIB, SIZE])
def test_standard_input_is_sent_with_bounded_memory(ferry, origin, size):
    data = os.urandom(size)
    process = subprocess.Popen([binary(), "put", "-", f"{origin.url}/in"], env=environment(ferry.url, ferry.key),
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(data)
    process.stdin.flush()
    high = [int(line.split()[1]) for line in open(f"/proc/{process.pid}/status") if line.startswith("VmHWM")][0]
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert origin.received == [("/in", hashlib.sha256(data).hexdigest())]
    assert high < 64 << 10, f"{high} KiB"
    assert uploads(ferry) == []


def test_standard_input_survives_a_broken_connection(ferry, origin):
    data = os.urandom(20 * MIB)
    with Relay(ferry, limit=6 * MIB, cuts=True) as relay:
        run = subprocess.run([binary(), "put", "-", f"{origin.url}/in"], input=data, capture_output=True, timeout=300,
                             env=environment(relay.url, ferry.key))
        assert relay.limit is None
    assert run.returncode == 0, run.stderr
    assert origin.received == [("/in", hashlib.sha256(data).hexdigest())]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_same_command_continues_after_its_end_and_sends_only_the_rest(ferry, origin, tmp_path, number):
    digest = made(tmp_path / "f")
    with Relay(ferry, limit=30 * MIB) as relay:
        first = subprocess.Popen([binary(), "put", "f", f"{origin.url}/f"], cwd=tmp_path, stderr=subprocess.PIPE,
                                 env=environment(relay.url, ferry.key), text=True)
        assert relay.held.wait(120)
        first.send_signal(number)
        _, said = first.communicate(timeout=60)
    if number == signal.SIGINT:
        assert first.returncode == 128 + signal.SIGINT and "run the same command again" in said, said
    with Relay(ferry) as relay:
        run = put(ferry, relay.url, "f", f"{origin.url}/f", cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert SIZE - 30 * MIB - SLACK < relay.count < SIZE - 30 * MIB + SLACK
    assert origin.received == [("/f", digest)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_ends_while_it_waits_does_not_send_twice(ferry, origin, tmp_path, number):
    digests = {f"/{name}": made(tmp_path / name, 5 * MIB) for name in ["first", "second"]}
    answer = threading.Event()

    class Slow(_Origin):
        def do_PUT(self):
            if self.path == "/second":
                answer.wait()
            super().do_PUT()

    origin.RequestHandlerClass = Slow
    arguments = ["first", "second", f"{origin.url}/"]
    before = subprocess.Popen([binary(), "put", *arguments], cwd=tmp_path, text=True, stderr=subprocess.PIPE,
                              env=environment(ferry.url, ferry.key))

    def jobs() -> dict:
        urls = {f"{origin.url}{path}": path for path in digests}
        return {urls[job["request"]["url"]]: job for job in ferry.call("GET", "/v1/jobs?limit=100").json()["data"]
                if job["request"]["url"] in urls}

    assert "/first: 5.0 MiB sent" in f"/{before.stderr.readline()}"
    eventually(60, lambda: jobs().get("/second", {}).get("state") == "running", "the second job")
    before.send_signal(number)
    _, said = before.communicate(timeout=60)
    if number == signal.SIGINT:
        assert f"ferry watch {jobs()['/second']['id']}" in said, said
    answer.set()
    with Relay(ferry) as relay:
        run = put(ferry, relay.url, *arguments, cwd=tmp_path)
        assert run.returncode == 0 and relay.count < MIB, run.stderr
    assert dict(origin.received) == digests and len(origin.received) == 2
    assert uploads(ferry) == []


@pytest.mark.parametrize("crashes", [False, True])
def test_a_restart_of_the_service_is_waited_for(origin, tmp_path, crashes):
    digest, data = made(tmp_path / "f"), made_folder()
    try:
        with contextlib.ExitStack() as stack:
            with running(FERRY_DATA_DIR=str(data), status=-signal.SIGKILL if crashes else 0) as before:
                relay = stack.enter_context(Relay(before, limit=30 * MIB))
                process = subprocess.Popen([binary(), "put", "f", f"{origin.url}/f"], cwd=tmp_path, text=True,
                                           stderr=subprocess.PIPE, env=environment(relay.url, before.key))
                assert relay.held.wait(120)
                if crashes:
                    before.process.kill()
            with running(FERRY_DATA_DIR=str(data)) as after:
                relay.follow(after)
                relay.limit = None
                relay.released.set()
                _, said = process.communicate(timeout=120)
                assert process.returncode == 0, said
                assert origin.received == [("/f", digest)]
                # A crash loses what is not durable, and what the sockets of the relay hold.
                assert relay.count < SIZE + 2 * SLACK
    finally:
        subprocess.run(["rm", "-rf", str(data)], check=True)


def test_a_changed_file_begins_anew(ferry, origin, tmp_path):
    made(tmp_path / "f")
    with Relay(ferry, limit=30 * MIB) as relay:
        first = subprocess.Popen([binary(), "put", "f", f"{origin.url}/f"], cwd=tmp_path, stderr=subprocess.DEVNULL,
                                 env=environment(relay.url, ferry.key))
        assert relay.held.wait(120)
        first.kill()
        first.wait()
    digest = made(tmp_path / "f")
    with Relay(ferry) as relay:
        run = put(ferry, relay.url, "f", f"{origin.url}/f", cwd=tmp_path)
        assert run.returncode == 0 and relay.count > SIZE, run.stderr
    assert origin.received == [("/f", digest)]
    for upload in uploads(ferry):
        assert ferry.call("DELETE", f"/v1/uploads/{upload['id']}").status_code == 204


def test_errors_of_one_file_do_not_stop_the_others(origin, tmp_path):
    digest = made(tmp_path / "good", 2 * MIB)
    made(tmp_path / "huge", 4 * MIB)
    (tmp_path / "folder").mkdir()
    with running(FERRY_UPLOAD_MAX_BYTES=str(3 * MIB)) as ferry:
        run = put(ferry, ferry.url, "huge", "none", "folder", "good", f"{origin.url}/", cwd=tmp_path)
    assert run.returncode == 2
    assert "huge (4.0 MiB) is refused: An upload has at most 3145728 bytes." in run.stderr
    assert "none: No such file or directory" in run.stderr and "folder: Is a directory" in run.stderr
    assert origin.received == [("/good", digest)]

"""The files that `ferry get` and `ferry content` save: signals, names, closed output and cut connections."""
from __future__ import annotations

import contextlib
import errno
import http.server
import os
import signal
import socket
import subprocess
import threading

import pytest

from conftest import binary, eventually, refusing

DATA = bytes(range(256)) * 8192
RENAMEAT2 = 316


class _Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(DATA)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def origin():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/data.bin"
    server.shutdown()


class Relay:
    """Passes connections to the service. After `limit` bytes of a response, cuts the first `cuts` of them; with
    `held`, stops reading instead until the relay closes."""

    def __init__(self, port: int, cuts: int = 0, held: bool = False, limit: int = 300_000):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target, self.cuts, self.held, self.limit = port, cuts, held, limit
        self.closed = threading.Event()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed.set()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket):
        service = socket.create_connection(("127.0.0.1", self.target))

        def up():
            with contextlib.suppress(OSError):
                while data := client.recv(65536):
                    service.sendall(data)
                service.shutdown(socket.SHUT_WR)

        threading.Thread(target=up, daemon=True).start()
        total = 0
        with contextlib.suppress(OSError):
            while data := service.recv(4096):
                total += len(data)
                if total > self.limit and self.held:
                    self.closed.wait()
                if total > self.limit and self.cuts > 0:
                    self.cuts -= 1
                    break
                client.sendall(data)
        for end in (client, service):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def environment(ferry, url: str | None = None) -> dict:
    return os.environ | {"FERRY_URL": url or ferry.url, "FERRY_KEY": ferry.key}


def port(ferry) -> int:
    return int(ferry.url.rsplit(":", 1)[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_saving_leaves_no_file_and_names_the_job(ferry, origin, tmp_path, number):
    with Relay(port(ferry), held=True) as relay:
        get = subprocess.Popen([binary(), "get", origin, "-o", "x.bin"], cwd=tmp_path, stderr=subprocess.PIPE,
                               env=environment(ferry, relay.url), text=True)
        eventually(60, lambda: os.listdir(tmp_path), "the temporary file")
        get.send_signal(number)
        _, said = get.communicate(timeout=60)
    assert get.returncode == 128 + number
    assert os.listdir(tmp_path) == []
    job = said.split("ferry content ")[1].split()[0]
    fetched = subprocess.run([binary(), "content", job, "-o", "y.bin"], cwd=tmp_path, env=environment(ferry),
                             capture_output=True, text=True, timeout=120)
    assert fetched.returncode == 0, fetched.stderr
    assert (tmp_path / "y.bin").read_bytes() == DATA


@pytest.mark.parametrize("cuts", [1, 2])
@pytest.mark.parametrize("output", [["-o", "x.bin"], ["-o", "-"]])
def test_a_cut_while_saving_continues(ferry, origin, tmp_path, cuts, output):
    with Relay(port(ferry), cuts=cuts) as relay:
        run = subprocess.run([binary(), "get", origin, *output], cwd=tmp_path, capture_output=True, timeout=120,
                             env=environment(ferry, relay.url))
        assert relay.cuts == 0
    assert run.returncode == 0, run.stderr
    assert (run.stdout if output[1] == "-" else (tmp_path / "x.bin").read_bytes()) == DATA


@pytest.mark.parametrize("name", [b"caf\xe9.bin", b"\xff\xfe", b"a\xc3", b"\xed\xa0\x80x"])
def test_a_name_that_is_not_utf8_is_used_as_given(ferry, origin, tmp_path, name):
    run = subprocess.run([os.fsencode(binary()), b"get", origin.encode(), b"-o", name], cwd=tmp_path,
                         env=environment(ferry), capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert os.listdir(os.fsencode(tmp_path)) == [name]


def test_closed_standard_output_is_status_1_before_a_job_is_submitted(ferry, origin):
    before = len(ferry.call("GET", "/v1/jobs?limit=100").json()["data"])
    line = f'"{binary()}" get {origin} -o - >&-'
    run = subprocess.run(["sh", "-c", line], env=environment(ferry), stderr=subprocess.PIPE, timeout=120)
    assert run.returncode == 1, run.stderr
    assert len(ferry.call("GET", "/v1/jobs?limit=100").json()["data"]) == before


def test_closed_standard_descriptors_are_not_used_for_files_or_sockets(ferry, origin, tmp_path):
    # Messages of the program must not end up in the file or in the request.
    line = f'"{binary()}" get {origin} -o x.bin <&- 2>&-'
    run = subprocess.run(["sh", "-c", line], env=environment(ferry), cwd=tmp_path, stdout=subprocess.PIPE, timeout=120)
    assert run.returncode == 0 and (tmp_path / "x.bin").read_bytes() == DATA
    line = f'exec "{binary()}" content none -o y.bin <&- >&- 2>&-'
    run = subprocess.run(["sh", "-c", line], env=environment(ferry), cwd=tmp_path, timeout=120)
    assert run.returncode == 1 and os.listdir(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_renaming_that_replaces_nothing_keeps_both_files(ferry, origin, tmp_path, error):
    def get():
        return subprocess.run([binary(), "get", origin], cwd=tmp_path, env=environment(ferry), capture_output=True,
                              text=True, preexec_fn=refusing({RENAMEAT2: error}), timeout=120)

    first = get()
    assert first.returncode == 0, first.stderr
    assert (tmp_path / "data.bin").read_bytes() == DATA
    (tmp_path / "data.bin").write_bytes(b"mine")
    second = get()
    assert second.returncode == 1 and "data.bin" in second.stderr, second.stderr
    assert os.listdir(tmp_path) == ["data.bin"] and (tmp_path / "data.bin").read_bytes() == b"mine"


def test_get_suspended_waits_until_the_job_is_resumed(ferry, origin, tmp_path):
    get = subprocess.Popen([binary(), "get", "--suspended", "--description", tmp_path.name, origin, "-o", "x.bin"],
                           cwd=tmp_path, stderr=subprocess.PIPE, env=environment(ferry), text=True)

    def mine():
        jobs = ferry.call("GET", "/v1/jobs?state=suspended&limit=100").json()["data"]
        return [job["id"] for job in jobs if job["description"] == tmp_path.name]

    job, = eventually(60, mine, "the suspended job")
    assert get.poll() is None and os.listdir(tmp_path) == []
    assert ferry.call("POST", f"/v1/jobs/{job}/resume").status_code == 200
    _, said = get.communicate(timeout=120)
    assert get.returncode == 0, said
    assert (tmp_path / "x.bin").read_bytes() == DATA


def test_ctrl_c_names_all_jobs_that_go_on(ferry, origin):
    jobs = [ferry.call("POST", "/v1/jobs", json={"kind": "data", "request": {"url": origin}, "suspended": True})
            .json()["id"] for _ in range(3)]
    assert ferry.call("POST", f"/v1/jobs/{jobs[0]}/resume").status_code == 200
    watch = subprocess.Popen([binary(), "watch", *jobs], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment(ferry), text=True)
    assert jobs[0] in watch.stdout.readline()
    # The first has ended, and the second has a stream.
    eventually(60, lambda: "\nferry_event_streams 1\n" in ferry.call("GET", "/metrics").text, "its event stream")
    watch.send_signal(signal.SIGINT)
    _, said = watch.communicate(timeout=60)
    assert watch.returncode == 128 + signal.SIGINT
    assert f"ferry watch {jobs[1]} {jobs[2]}" in said and jobs[0] not in said, said

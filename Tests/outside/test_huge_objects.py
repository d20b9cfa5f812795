"""A huge object, whose upload needs no more memory than a smaller one: 10 GiB with FERRY_TEST_LONG."""
from __future__ import annotations

import contextlib
import http.server
import os
import pathlib
import re
import threading

import pytest

from conftest import eventually, running
from object_jobs import submit

SIZE = 10 << 30 if os.environ.get("FERRY_TEST_LONG") else 512 << 20
GROWTH_MAX = 10 << 20
NAME = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Server(http.server.ThreadingHTTPServer):
    """A store that drops what it gets, and a server of zeros."""
    daemon_threads = True
    sizes: dict[int, int] = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    ZEROS = bytes(1 << 20)

    def answer(self, body: bytes = b"", **fields: str):
        self.send_response(200)
        # Entity tags of such parts are no digests: nothing is compared that the store has not kept.
        for name, value in ({"x-amz-server-side-encryption": "aws:kms", "ETag": '"tag"'} | fields).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(200)
        self.send_header("ETag", '"zeros"')
        self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(SIZE // len(self.ZEROS)):
                self.wfile.write(self.ZEROS)

    def body(self) -> int:
        left = size = int(self.headers["Content-Length"])
        while left > 0 and (read := self.rfile.read1(min(left, 1 << 20))):
            left -= len(read)
        return size - left

    def do_PUT(self):
        part = int(re.search(r"partNumber=(\d+)", self.path)[1])
        self.server.sizes[part] = self.body()
        self.answer()

    def do_POST(self):
        self.body()
        if "uploads" in self.path:
            text = "<InitiateMultipartUploadResult xmlns='{}'><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        else:
            text = "<CompleteMultipartUploadResult xmlns='{}'><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>"
        self.answer(text.format(NAME[1:-1]).encode())

    def log_message(self, *_):
        pass


@pytest.fixture()
def server():
    one = Server(("127.0.0.1", 0), Handler)
    one.sizes = {}
    thread = threading.Thread(target=one.serve_forever, daemon=True)
    thread.start()
    yield one
    one.shutdown()
    thread.join()
    one.server_close()


def resident(process) -> int:
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10


@pytest.mark.parametrize("kind", ["file", "copy"])
def test_memory_stays_flat(server, kind):
    url = f"http://127.0.0.1:{server.server_port}"
    place = {"bucket": "bucket", "key": "k", "endpoint": url,
             "credential": {"access_key_id": "AKIAHUGE", "secret_access_key": "secret"}}
    with running() as ferry:
        if kind == "file":
            (ferry.data / "files").mkdir(exist_ok=True)
            with open(ferry.data / "files/huge", "wb") as file:
                file.truncate(SIZE)
            job = {"kind": "upload", "source": {"path": "huge"}, "destination": {"s3": place}}
        else:
            job = {"kind": "download", "request": {"url": url + "/zeros"}, "destination": {"s3": place}}
        job = submit(ferry, job)
        eventually(60, lambda: len(server.sizes) >= 8, "parts have come")
        first = most = resident(ferry.process)

        def ended():
            nonlocal most
            most = max(most, resident(ferry.process))
            shown = ferry.call("GET", f"/v1/jobs/{job['id']}", headers={"Prefer": "wait=1"}).json()
            return shown if shown["state"] in ("succeeded", "failed") else None

        shown = eventually(600, ended, "the job ends")
        assert shown["state"] == "succeeded" and shown["result"]["size"] == SIZE, shown["error"]
        assert sum(server.sizes.values()) == SIZE and most - first < GROWTH_MAX

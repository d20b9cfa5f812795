"""Servers between which jobs copy: a source whose responses a check decides, and a target that keeps what it gets."""
from __future__ import annotations

import contextlib
import dataclasses
import http.server
import re
import threading


@dataclasses.dataclass
class Got:
    """A request as a server got it. `body`: as far as it came; `is_whole`: whether its end came too."""
    method: str
    path: str
    headers: dict[str, str]
    body: bytearray = dataclasses.field(default_factory=bytearray)
    is_whole: bool = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        # The file of each path.
        self.files: dict[str, bytes] = {}
        self.tag: str | None = '"one"'
        self.fields: dict[str, str] = {}
        # What each path answers instead, one after the other: a status and fields.
        self.statuses: dict[str, list[tuple[int, dict[str, str]]]] = {}
        # Bytes of the body after which each response ends, one after the other.
        self.cuts: list[int] = []
        # Whether responses tell no length.
        self.is_chunked = False
        # Whether a request needs a length: before its body is read, or after that.
        self.demands_length: str | None = None
        # Waits before the body of a response, and before that of a request is read.
        self.gate: threading.Event | None = None
        self.got: list[Got] = []
        # Requests that are under way, and the most that were.
        self.now = self.most = 0
        self.lock = threading.Lock()

    def of(self, method: str) -> list[Got]:
        with self.lock:
            return [one for one in self.got if one.method == method]

    def handle_error(self, *_):
        pass


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def handle_one_request(self):
        try:
            super().handle_one_request()
        finally:
            if self.__dict__.pop("is_counted", False):
                with self.server.lock:
                    self.server.now -= 1

    def note(self) -> Got:
        got = Got(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        with self.server.lock:
            self.server.got.append(got)
            self.is_counted = True
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        return got

    def answer(self, status: int, fields: dict[str, str], body: bytes = b""):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def told(self) -> bool:
        """Answers as the check has told; False if it has told nothing."""
        with self.server.lock:
            statuses = self.server.statuses.get(self.path.split("?")[0])
            status = statuses.pop(0) if statuses else None
        if status:
            self.answer(*status, b"told\n" if status[0] >= 400 else b"")
        return status is not None

    def do_GET(self):
        got, server = self.note(), self.server
        is_chunked = server.is_chunked
        if self.told():
            return
        body = server.files.get(self.path)
        if body is None:
            return self.answer(404, {"Content-Type": "text/plain"}, b"no such file\n")
        if (match := got.headers.get("if-match")) and match != server.tag:
            return self.answer(412, {})
        fields, status, whole = dict(server.fields), 200, len(body)
        if server.tag:
            fields["ETag"] = server.tag
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", got.headers.get("range", ""))
        if asked and server.tag and got.headers.get("if-range", server.tag) == server.tag:
            first, last = int(asked[1]), min(int(asked[2] or whole), whole - 1)
            status, body = 206, body[first:last + 1]
            fields["Content-Range"] = f"bytes {first}-{last}/{whole}"
        with server.lock:
            cut = server.cuts.pop(0) if server.cuts else None
        self.send_response(status)
        fields |= {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": str(len(body))}
        for name, value in ({"Content-Type": "image/png", "Accept-Ranges": "bytes"} | fields).items():
            self.send_header(name, value)
        self.end_headers()
        if server.gate:
            server.gate.wait(60)
        sent = body if cut is None else body[:cut]
        with contextlib.suppress(OSError):
            if is_chunked:
                for start in range(0, len(sent), 50_000):
                    piece = sent[start:start + 50_000]
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                if cut is None:
                    self.wfile.write(b"0\r\n\r\n")
            else:
                self.wfile.write(sent)
        self.close_connection = self.close_connection or cut is not None

    def do_PUT(self):
        got, server = self.note(), self.server
        if server.gate:
            server.gate.wait(60)
        refuses = server.demands_length and "content-length" not in got.headers
        if refuses and server.demands_length == "before":
            got.is_whole, self.close_connection = False, True
            return self.answer(411, {"Connection": "close"})
        if not self.read_body(got):
            self.close_connection = True
            return
        if refuses:
            return self.answer(411, {})
        if self.told():
            return
        if got.headers.get("if-none-match") == "*" and self.path in server.files:
            return self.answer(412, {})
        server.files[self.path] = bytes(got.body)
        self.answer(201, {"ETag": '"kept"'}, b"kept\n")

    do_POST = do_PUT

    def read_body(self, got: Got) -> bool:
        got.is_whole = False
        if "content-length" in got.headers:
            left = int(got.headers["content-length"])
            while left > 0 and (piece := self.rfile.read1(min(left, 65_536))):
                got.body += piece
                left -= len(piece)
            got.is_whole = left == 0
            return got.is_whole
        while line := self.rfile.readline():
            size = int(line, 16)
            piece = self.rfile.read(size)
            got.body += piece
            if len(piece) < size or not self.rfile.readline():
                return False
            if size == 0:
                got.is_whole = True
                return True
        return False

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        if server.gate:
            server.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()

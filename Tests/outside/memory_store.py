"""An S3-compatible store in memory, which verifies signatures, and whose answers a test scripts."""
from __future__ import annotations

import base64
import calendar
import contextlib
import dataclasses
import email.utils
import hashlib
import http.server
import re
import sys
import threading
import time

from awscrt import checksums
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from stores import REGION, Store


@dataclasses.dataclass
class Received:
    """A request as the store in memory got it. `path`: as it was sent, with its query."""
    method: str
    path: str
    fields: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str | None:
        """The values of a field, or None."""
        values = [value for one, value in self.fields if one.lower() == name]
        return ", ".join(values) if values else None

    @property
    def authorization(self) -> re.Match | None:
        form = r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([a-z0-9;_-]+), ?Signature=([0-9a-f]{64})"
        return re.fullmatch(form, self["authorization"] or "")

    @property
    def region(self) -> str:
        return self.authorization[3]


@dataclasses.dataclass
class Answer:
    """A response. `code`: a store's, with its XML. `sent`: bytes of the body after which the connection is cut. Status 0:
    the connection is closed without a response."""
    status: int
    code: str | None = None
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    sent: int | None = None


def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def checksum(algorithm: str, data: bytes) -> str:
    """The value of `x-amz-checksum-…`, computed by hashlib or Amazon's library."""
    if algorithm == "sha256":
        digest = hashlib.sha256(data).digest()
    else:
        value = {"crc32c": checksums.crc32c, "crc64nvme": checksums.crc64nvme}[algorithm](data)
        digest = value.to_bytes(4 if algorithm == "crc32c" else 8, "big")
    return base64.b64encode(digest).decode()


class MemoryStore(http.server.ThreadingHTTPServer):
    """A store that verifies signatures and checksums, and first gives the answers of `script`.

    `faults` has what was wrong with requests: each is refused, and a test looks at them at its end."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = Store(f"http://127.0.0.1:{self.server_port}")
        self.region, self.is_public, self.seconds_ahead = REGION, False, 0
        self.objects: dict[str, bytes] = {}
        # Checksums of all objects, for requests that ask for them.
        self.announced: dict[str, str] = {}
        # Answers, or functions of a request that give one, or None for the usual answer; by path, then for any path.
        self.script: dict[str | None, list] = {}
        self.received: list[Received] = []
        self.faults: list[str] = []
        self.lock = threading.Lock()

    def server_close(self):
        """Forgets all bytes: threads of kept connections have the server for longer."""
        super().server_close()
        self.received, self.objects, self.script = [], {}, {}

    def requests(self, method: str | None = None) -> list[Received]:
        with self.lock:
            return [one for one in self.received if method in (None, one.method)]

    def handle_error(self, *_):
        """Keeps what failed here; a client may reset its connections."""
        if not isinstance(error := sys.exc_info()[1], ConnectionError):
            self.faults.append(repr(error))

    def now(self) -> float:
        return time.time() + self.seconds_ahead

    def answer(self, request: Received) -> Answer:
        with self.lock:
            self.received.append(request)
        if refused := self.refusal(request):
            return refused
        with self.lock:
            script = self.script.get(request.path) or self.script.get(None) or []
            scripted = script.pop(0) if script else None
        if callable(scripted):
            scripted = scripted(request)
        return scripted or self.usual(request)

    def usual(self, request: Received) -> Answer:
        """The answer of a store without faults."""
        return self.put(request) if request.method == "PUT" else self.get(request)

    def refusal(self, request: Received) -> Answer | None:
        """The answer to a request whose signature is wrong; None for a right one."""
        if self.is_public:
            return None
        if not request.authorization:
            return self.fault(Answer(403, "AccessDenied"), f"no signature: {request['authorization']}")
        identifier, day, region, signed, signature = request.authorization.groups()
        if identifier != self.store.access_key_id:
            return self.fault(Answer(403, "InvalidAccessKeyId"), f"the key {identifier}")
        at = request["x-amz-date"] or ""
        if not re.fullmatch(r"\d{8}T\d{6}Z", at) or not at.startswith(day):
            return self.fault(Answer(403, "AccessDenied"), f"x-amz-date {at}, scope {day}")
        if abs(calendar.timegm(time.strptime(at, "%Y%m%dT%H%M%SZ")) - self.now()) > 900:
            return Answer(403, "RequestTimeTooSkewed")
        names = signed.split(";")
        demanded = {"host"} | {name.lower() for name, _ in request.fields if name.lower().startswith("x-amz-")}
        if names != sorted(names) or not demanded <= set(names):
            return self.fault(Answer(403, "AccessDenied"), f"SignedHeaders={signed}, but there is {sorted(demanded)}")
        if request["x-amz-security-token"] != self.store.session_token:
            return self.fault(Answer(400, "InvalidToken"), f"the session token {request['x-amz-security-token']}")
        judge = S3SigV4Auth(Credentials(self.store.access_key_id, self.store.secret_access_key), "s3", region)
        judged = AWSRequest(request.method, f"http://{request['host']}{request.path}", data=request.body)
        for name, value in request.fields:
            if name.lower() in names:
                judged.headers.add_header(name, value)
        judged.context["timestamp"] = at
        text = judge.canonical_request(judged)
        if judge.signature(judge.string_to_sign(judged, text), judged) != signature:
            return self.fault(Answer(403, "SignatureDoesNotMatch"), f"the canonical request is\n{text}")
        if request["x-amz-content-sha256"] != hashlib.sha256(request.body).hexdigest():
            return self.fault(Answer(400, "XAmzContentSHA256Mismatch"), f"{request['x-amz-content-sha256']}")
        if region != self.region:
            return Answer(400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": self.region})
        return None

    def fault(self, answer: Answer, words: str) -> Answer:
        with self.lock:
            self.faults.append(words)
        return answer

    def put(self, request: Received) -> Answer:
        for algorithm in ("sha256", "crc32c", "crc64nvme"):
            if (value := request[f"x-amz-checksum-{algorithm}"]) and value != checksum(algorithm, request.body):
                return self.fault(Answer(400, "BadDigest"), f"{algorithm} {value}")
        with self.lock:
            if request["if-none-match"] == "*" and request.path in self.objects:
                return Answer(412, "PreconditionFailed")
            self.objects[request.path] = request.body
        return Answer(200, fields={"ETag": etag(request.body)})

    def get(self, request: Received) -> Answer:
        data = self.objects.get(request.path)
        if data is None:
            return Answer(404, "NoSuchKey")
        if request["if-match"] not in (None, etag(data)):
            return Answer(412, "PreconditionFailed")
        fields = {"ETag": etag(data), "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request["range"] or "")
        if not wanted or request["if-range"] not in (None, etag(data)):
            return Answer(200, fields=fields | (self.announced if request["x-amz-checksum-mode"] == "ENABLED" else {}), body=data)
        first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return Answer(416, "InvalidRange", {"Content-Range": f"bytes */{len(data)}"})
        fields["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return Answer(206, fields=fields, body=data[first:last + 1])


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MemoryStore

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # The client has ended the request.
            self.close_connection = True
            return
        # `self.path` has no second slash at its beginning.
        target = self.raw_requestline.decode("latin-1").split(" ")[1]
        # A client names the origin to a proxy.
        target = re.sub(r"^http://[^/]+", "", target)
        answer = self.server.answer(Received(self.command, target, list(self.headers.items()), body))
        if answer.status == 0:
            self.close_connection = True
            return
        data = answer.body
        if answer.code:
            data = f"<?xml version='1.0'?><Error><Code>{answer.code}</Code><Message>Scripted.</Message></Error>".encode()
        self.send_response_only(answer.status)
        self.send_header("Date", email.utils.formatdate(self.server.now(), usegmt=True))
        self.send_header("Content-Length", str(len(data)))
        if answer.code:
            self.send_header("Content-Type", "application/xml")
        for name, value in answer.fields.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            if self.command != "HEAD":
                self.wfile.write(data[:answer.sent])
        self.close_connection = answer.sent is not None

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(server: MemoryStore):
    """The store, while it runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def memory_store():
    return serving(MemoryStore())

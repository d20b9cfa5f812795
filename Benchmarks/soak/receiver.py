"""A receiver of webhooks that checks every signature, fails when a seed says so, and can go away."""
from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import hashlib
import hmac
import http.server
import json
import random
import threading
import time


@dataclasses.dataclass
class Delivery:
    """One try as it arrived."""
    path: str
    identifier: str
    digest: str
    type: str
    job: str | None
    session: str
    sequence: int
    status: int
    when: float


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """Senders that are killed are no news."""


class Receiver:
    """`/job/…` takes the webhooks of jobs, `/endpoint/NAME` those of endpoints."""

    def __init__(self, seed: int, secret: str):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.deliveries: list[Delivery] = []
        self.wrong: list[str] = []
        self.secrets = {"job": secret}
        # First tries that are answered with 500, as a part of all.
        self.failing = 0.0
        self.seen: dict[str, str] = {}
        self.server = None
        self.port = 0
        self.open()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self):
        self.server = Server(("127.0.0.1", self.port), type("Handler", (_Handler,), {"receiver": self}))
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def take(self, path: str, fields: dict[str, str], body: bytes) -> int:
        identifier, stamp = fields.get("webhook-id", ""), fields.get("webhook-timestamp", "")
        with self.lock:
            secret = self.secrets.get(path.strip("/").split("/")[-1], self.secrets["job"])
            signed = hmac.new(base64.b64decode(secret.removeprefix("whsec_")),
                              f"{identifier}.{stamp}.".encode() + body, hashlib.sha256).digest()
            if "v1," + base64.b64encode(signed).decode() not in fields.get("webhook-signature", "").split(" "):
                self.wrong.append(f"{path} {identifier}: the signature is wrong")
            event = json.loads(body)
            digest = hashlib.sha256(body).hexdigest()
            key = path + " " + identifier
            is_first = key not in self.seen
            if self.seen.setdefault(key, digest) != digest:
                self.wrong.append(f"{path} {identifier}: another body under the same identifier")
            status = 500 if is_first and self.random.random() < self.failing else 204
            data = event["data"]
            self.deliveries.append(Delivery(path, identifier, digest, event["type"],
                                            (data.get("job") or {}).get("id"), data["session"], data["sequence"],
                                            status, time.monotonic()))
            return status

    def accepted(self) -> dict[str, dict[str, list[Delivery]]]:
        """By path and identifier, in the order of their arrival."""
        found: dict = collections.defaultdict(lambda: collections.defaultdict(list))
        with self.lock:
            for delivery in self.deliveries:
                if delivery.status < 300:
                    found[delivery.path][delivery.identifier].append(delivery)
        return found


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if len(body) != int(self.headers.get("Content-Length") or 0):
            return
        status = self.receiver.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        with contextlib.suppress(OSError):
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_):
        pass

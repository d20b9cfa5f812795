#!/usr/bin/env python3
"""A file to fetch and a webhook to receive: receiver.py PORT. Checks Standard Webhooks signatures with
nothing but the standard library; SECRET is the `webhook.secret` of the job."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

SECRET = os.environ.get("SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=")


def signature_is_right(headers, body):
    """HMAC-SHA256 over id.timestamp.body; any of the listed signatures may be the one (rotation)."""
    if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        return False
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f'{headers["webhook-id"]}.{headers["webhook-timestamp"]}.'.encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return any(hmac.compare_digest(expected, given) for given in headers["webhook-signature"].split())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello from the receiver\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_right = signature_is_right(self.headers, body)
        self.send_response(204 if is_right else 401)
        self.end_headers()
        event = json.loads(body)
        job = event["data"]["job"]
        print(f'{event["type"]}: {job["id"]} {job["state"]}, the signature is {"right" if is_right else "WRONG"}',
              flush=True)

    def log_message(self, *_):
        pass


port = int(sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print(f"listens on http://127.0.0.1:{port}", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass

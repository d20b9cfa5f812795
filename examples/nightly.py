#!/usr/bin/env python3
"""A night of jobs: nightly.py RECEIVER-PORT URL… downloads the files in one group, waits for the signed webhook of
its end, retries what has failed, and waits again. FERRY_URL and FERRY_KEY name the service and the key; SECRET signs
the webhook. Needs nothing but the standard library."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

SERVICE = os.environ.get("FERRY_URL", "http://127.0.0.1:8080")
KEY = os.environ["FERRY_KEY"]
SECRET = os.environ.get("SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=")
ROUNDS = 3


def call(method, path, body=None, idempotency_key=None):
    """Sends a request to Ferry. Repeats it if the response is lost or says "later": with an idempotency key, a
    repeated POST gets the first response and creates nothing twice."""
    fields = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if idempotency_key:
        fields["Idempotency-Key"] = idempotency_key
    data = None if body is None else json.dumps(body).encode()
    for pause in (1, 2, 4, 8, None):
        request = urllib.request.Request(SERVICE + path, data, fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            problem = error.read().decode()
            if error.code not in (429, 503) or pause is None:
                sys.exit(f"{method} {path}: {error.code} {problem}")
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if pause is None:
                sys.exit(f"{method} {path}: {error}")
        time.sleep(pause)


def all_of(path, **filters):
    """Reads all pages of a list."""
    cursor = None
    while True:
        page = filters | ({"cursor": cursor} if cursor else {})
        answer = call("GET", f"{path}?{urllib.parse.urlencode(page)}")
        yield from answer["data"]
        cursor = answer["next_cursor"]
        if not cursor:
            return


def is_signed(headers, body):
    """Standard Webhooks: HMAC-SHA256 over id.timestamp.body, not older than five minutes. During a rotation there are
    several signatures; one must be right."""
    try:
        if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
            return False
        signed = f'{headers["webhook-id"]}.{headers["webhook-timestamp"]}.'.encode() + body
        given = headers["webhook-signature"].split()
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    code = hmac.digest(base64.b64decode(SECRET.removeprefix("whsec_")), signed, hashlib.sha256)
    expected = "v1," + base64.b64encode(code).decode()
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes deliveries. They come at least once: an event that is known is accepted and ignored."""
    ends = queue.Queue()
    seen = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not is_signed(self.headers, body):
            self.send_error(401)
            return
        # A real receiver stores the event before it answers: after the 204 it does not come again.
        event = json.loads(body)
        if event["type"] == "group.finished" and self.headers["webhook-id"] not in self.seen:
            self.seen.add(self.headers["webhook-id"])
            self.ends.put(event["data"]["group"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def end_of(group, round_):
    """Returns the group once its round has ended. Asks Ferry too: the webhook may be late."""
    while True:
        try:
            ended = Receiver.ends.get(timeout=30)
        except queue.Empty:
            ended = call("GET", f"/v1/job_groups/{group}")
        if ended["name"] == group and ended["state"] == "finished" and ended["round"] >= round_:
            return ended


def main():
    port, urls = int(sys.argv[1]), sys.argv[2:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    # 1. One name for the night. The same name after a restart of this program repeats nothing.
    group = os.environ.get("NIGHT", time.strftime("night-%Y-%m-%d"))
    call("POST", "/v1/job_groups", {
        "name": group, "webhook": {"url": f"http://127.0.0.1:{port}/ferry", "secret": SECRET},
    }, idempotency_key=f"{group}-group")

    # 2. All jobs and the close of the group in one transaction.
    jobs = [{
        "kind": "download", "request": {"url": url},
        "destination": {"path": f"{group}/{number:05}", "if_exists": "replace"},
        "retry": {"max_attempts": 2, "initial_delay": 0.1},
    } for number, url in enumerate(urls)]
    call("POST", "/v1/jobs/batch", {"group": group, "close_group": True, "jobs": jobs},
         idempotency_key=f"{group}-jobs")

    for round_ in range(1, ROUNDS + 1):
        # 3. The end of the round, with exact counts.
        ended = end_of(group, round_)
        print(f'round {ended["round"]}: {ended["counts"]["succeeded"]} succeeded, '
              f'{ended["open_failures"]} open failures', flush=True)
        if ended["open_failures"] == 0:
            return 0

        # 4. What has failed and was not retried.
        failures = {"group": group, "state": "failed", "retried": "false"}
        for job in all_of("/v1/jobs", limit=500, fields="id,request.url,error.code", **failures):
            print(f'  {job["id"]} {job["error"]["code"]} {job["request"]["url"]}', flush=True)
        if round_ == ROUNDS:
            break

        # 5. Retry them: one operation, which survives crashes. The retries are the next round.
        operation = call("POST", f"/v1/job_groups/{group}/retry", {}, idempotency_key=f"{group}-retry-{round_}")
        while operation["state"] == "running":
            time.sleep(0.2)
            operation = call("GET", f'/v1/operations/{operation["id"]}')
        if operation["changed"] == 0:
            break
    print(f"open failures are left: ferry failures --group {group}", flush=True)
    return 1


sys.exit(main())

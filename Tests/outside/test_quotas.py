"""The limits of a tenant, as its clients meet them."""
from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import http.server
import threading
import time

import pytest

from conftest import Ferry, eventually

BODY = bytes(100_000)


class _Origin(http.server.BaseHTTPRequestHandler):
    """Answers at once with 100,000 bytes."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(BODY)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def origin():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/file"
    server.shutdown()
    thread.join()


def tenant(ferry: Ferry, name: str) -> Ferry:
    """The service as a client of a tenant."""
    made = ferry.call("POST", "/v1/admin/keys", json={"name": name, "role": "client", "tenant": name})
    assert made.status_code == 201, made.text
    return dataclasses.replace(ferry, key=made.json()["key"])


def limit(ferry: Ferry, name: str, **limits: int):
    put = ferry.call("PUT", f"/v1/admin/tenants/{name}/limits", json=limits)
    assert put.status_code == 200, put.text
    assert {key: value for key, value in put.json().items() if value is not None} == limits


def later(url: str) -> dict:
    return {"kind": "data", "request": {"url": url}, "schedule": {"earliest_begin_at": "2099-01-01T00:00:00Z"}}


def ended(client: Ferry, job: str) -> dict:
    def look():
        shown = client.call("GET", f"/v1/jobs/{job}").json()
        return shown if shown["state"] in ("succeeded", "failed", "cancelled") else None

    return eventually(120, look, "the end of the job")


def refused(response, status: int, code: str):
    assert response.status_code == status and response.json()["code"] == code, response.text
    if status == 429:
        assert int(response.headers["Retry-After"]) >= 1
        assert ";r=0;t=" in response.headers["RateLimit"] and ";q=" in response.headers["RateLimit-Policy"]


def test_unfinished_jobs_are_limited_exactly(ferry, origin):
    client = tenant(ferry, "jobs")
    limit(ferry, "jobs", unfinished_jobs=5)
    job = later(origin)
    calls = [("/v1/jobs", job)] * 12 + [("/v1/jobs/batch", {"jobs": [job, job]})] * 6
    with concurrent.futures.ThreadPoolExecutor(18) as pool:
        responses = list(pool.map(lambda call: client.call("POST", call[0], json=call[1]), calls))
    responses += [client.call("POST", "/v1/jobs", json=job) for _ in range(6)]
    for response in responses:
        if response.status_code != 201:
            refused(response, 429, "quota_exceeded")
    jobs = client.call("GET", "/v1/jobs?limit=100").json()["data"]
    assert len(jobs) == 5
    assert client.call("POST", f"/v1/jobs/{jobs[0]['id']}/cancel").status_code == 200
    eventually(120, lambda: client.call("POST", "/v1/jobs", json=job).status_code == 201, "room for a job")
    refused(client.call("POST", "/v1/jobs", json=job), 429, "quota_exceeded")


def test_bytes_of_a_day_are_limited(ferry, origin):
    # The day (UTC) must not end while the check runs.
    eventually(400, lambda: time.time() % 86_400 < 86_100, "the next day")
    client = tenant(ferry, "bytes")
    limit(ferry, "bytes", bytes_per_day=150_000)
    job = {"kind": "data", "request": {"url": origin}}
    for _ in range(2):
        made = client.call("POST", "/v1/jobs", json=job)
        assert made.status_code == 201, made.text
        assert ended(client, made.json()["id"])["state"] == "succeeded"
    refused(client.call("POST", "/v1/jobs", json=job), 429, "quota_exceeded")
    # A job that is accepted waits while the limit is used up.
    limit(ferry, "bytes", bytes_per_day=1_000_000)
    suspended = client.call("POST", "/v1/jobs", json=job | {"suspended": True}).json()["id"]
    limit(ferry, "bytes", bytes_per_day=150_000)
    assert client.call("POST", f"/v1/jobs/{suspended}/resume").status_code == 200
    waiting = client.call("GET", f"/v1/jobs/{suspended}").json()
    assert waiting["state"] == "queued" and waiting["waiting_reason"]["code"] == "tenant_quota", waiting
    assert waiting["waiting_reason"]["next_check_at"].endswith("T00:00:00Z") or waiting["waiting_reason"][
        "next_check_at"].split("T")[1].startswith("00:00:00")
    limit(ferry, "bytes")
    assert ended(client, suspended)["state"] == "succeeded"


def test_stored_bytes_are_limited(ferry, origin):
    client = tenant(ferry, "stored")
    limit(ferry, "stored", storage_bytes=150_000)
    job = {"kind": "download", "request": {"url": origin}}
    first = client.call("POST", "/v1/jobs", json=job).json()["id"]
    assert ended(client, first)["state"] == "succeeded"
    second = client.call("POST", "/v1/jobs", json=job).json()["id"]
    error = ended(client, second)["error"]
    assert error["code"] == "storage_quota_exceeded" and error["retryable"] is False, error
    named = client.call("POST", "/v1/jobs", json=job | {"destination": {"path": "a"}}).json()["id"]
    assert ended(client, named)["state"] == "succeeded"
    limit(ferry, "stored", storage_bytes=100_000)
    refused(client.call("POST", "/v1/jobs", json=job), 413, "storage_quota_exceeded")
    assert client.call("DELETE", f"/v1/jobs/{first}").status_code == 204
    again = eventually(120, lambda: (r := client.call("POST", "/v1/jobs", json=job)).status_code == 201 and r, "room")
    assert ended(client, again.json()["id"])["state"] == "succeeded"


def test_requests_are_limited_for_all_keys_of_the_tenant(ferry):
    clients = [tenant(ferry, "requests") for _ in range(2)]
    other = tenant(ferry, "others")
    limit(ferry, "requests", requests_per_second=3)
    responses = [clients[n % 2].call("GET", "/v1/jobs") for n in range(200)]
    late = [response for response in responses if response.status_code != 200]
    assert late
    for response in late:
        refused(response, 429, "quota_exceeded")
    assert other.call("GET", "/v1/jobs").status_code == 200

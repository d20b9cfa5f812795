"""The same binary with a newer libcurl under it: HTTP/2 carries bulk, HTTP/3 is there, and half answers stay failures.

The library is the one that a pycurl wheel brings along. It comes first in the process, with its own OpenSSL.
"""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import threading

import pytest

from conftest import binary, missing, running
from origins import Authority, Script, caddy, nginx

LIBRARIES = pathlib.Path(sysconfig.get_path("platlib")) / "pycurl.libs"


def preload() -> str:
    found = [sorted(LIBRARIES.glob(f"lib{name}-*.so*")) for name in ("crypto", "ssl", "curl")]
    if not all(found):
        missing("a pycurl that brings a libcurl of its own")
    return ":".join(str(paths[0]) for paths in found)


@pytest.fixture(scope="module")
def modern():
    with running(LD_PRELOAD=preload()) as service:
        yield service


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def script():
    server = Script()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server
    server.stop()
    thread.join()


@pytest.fixture(scope="module")
def secure(authority, script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nginx")
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    with nginx(authority, folder, script.port) as port:
        yield folder, port


def run(service, authority, kind: str, url: str, **members) -> dict:
    request = {"url": url, "tls": {"ca": authority.pem}, **members.pop("request", {})}
    answer = service.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": kind, "request": request, "retry": {"max_attempts": 1}, **members})
    assert answer.status_code == 201, answer.text
    return answer.json()


def protocols(service, job: dict) -> list[str]:
    attempts = service.call("GET", f"/v1/jobs/{job['id']}/attempts").json()["data"]
    return [transaction["network_protocol_name"] for attempt in attempts for transaction in attempt["transactions"]]


def answered(service, version: str) -> int:
    metrics = service.call("GET", "/metrics").text
    line = re.search(rf'^ferry_transfer_responses_total{{protocol="{version}"}} (\d+)', metrics, re.MULTILINE)
    return int(line[1])


def test_it_is_the_newer_library(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FERRY_")}
    check = subprocess.run([binary(), "check"], capture_output=True, text=True,
                           env={**environment, "LD_PRELOAD": preload(), "FERRY_DATA_DIR": str(tmp_path)})
    version = re.search(r"libcurl (\d+)\.(\d+)\.", check.stdout)
    assert version and (int(version[1]), int(version[2])) >= (8, 3), check.stdout
    assert "HTTP/2 is safe" in check.stdout


def test_bulk_goes_over_http2_in_both_directions(modern, authority, secure):
    folder, port = secure
    files = {}
    for number in range(8):
        body = os.urandom(1 << 20) * 12
        (folder / f"file-{number}").write_bytes(body)
        files[f"file-{number}"] = hashlib.sha256(body).hexdigest()
    before = answered(modern, "2")
    jobs = [modern.call("POST", "/v1/jobs", json={
        "kind": "download", "destination": {"path": f"h2/{name}"}, "integrity": {"sha256": digest},
        "request": {"url": f"https://127.0.0.1:{port}/{name}", "tls": {"ca": authority.pem}}}).json()
        for name, digest in files.items() for _ in range(2)]
    for job in jobs:
        ended = modern.call("GET", f"/v1/jobs/{job['id']}", headers={"Prefer": "wait=60"}).json()
        assert ended["state"] == "succeeded", ended
        assert protocols(modern, ended) == ["h2"]
    upload = run(modern, authority, "upload", f"https://localhost:{port}/put/back", source={"path": "h2/file-0"})
    assert upload["state"] == "succeeded", upload
    assert hashlib.sha256((folder / "put/back").read_bytes()).hexdigest() == files["file-0"]
    assert protocols(modern, upload) == ["h2"]
    assert answered(modern, "2") == before + len(jobs) + 1


def test_http1_is_spoken_when_it_is_asked_for(modern, authority, secure):
    _, port = secure
    job = run(modern, authority, "data", f"https://127.0.0.1:{port}/nothing", request={"http_version": "1.1"})
    assert protocols(modern, job) == ["http/1.1"], job


@pytest.mark.parametrize("head", ["Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n"])
def test_an_aborted_body_is_no_success(modern, authority, secure, script, head):
    _, port = secure
    script.answers["/upstream/cut"] = f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + (
        b"400\r\n" if "chunked" in head else b"") + b"x" * 1_000
    for version in ("2", "1.1"):
        job = run(modern, authority, "download", f"https://127.0.0.1:{port}/upstream/cut", request={"http_version": version})
        assert job["state"] == "failed", job
        assert job["error"]["code"] in ("incomplete_body", "connection_lost"), job


def test_a_head_that_was_cut_is_no_answer(modern, script):
    script.answers["/cut"] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r"
    answer = modern.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": "download", "request": {"url": f"http://127.0.0.1:{script.port}/cut"}, "retry": {"max_attempts": 1}})
    assert answer.json()["state"] == "failed", answer.text


def test_http3(modern, authority, tmp_path):
    (tmp_path / "file").write_bytes(b"over QUIC" * 100_000)
    with caddy(authority, tmp_path) as port:
        if port is None:
            missing("Caddy")
        before = answered(modern, "3")
        job = run(modern, authority, "download", f"https://127.0.0.1:{port}/file", request={"http_version": "3"})
        assert job["state"] == "succeeded" and job["result"]["size"] == 900_000, job
        assert protocols(modern, job) == ["h3"]
        assert answered(modern, "3") == before + 1
        # Certificates count there as well.
        bad = modern.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
            "kind": "data", "request": {"url": f"https://127.0.0.1:{port}/file", "http_version": "3"}}).json()
        assert bad["error"]["code"] == "certificate_invalid", bad

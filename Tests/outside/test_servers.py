"""Servers that other people wrote: Apache and httpbin, each with what it does differently."""
from __future__ import annotations

import hashlib
import json
import os

import pytest

from conftest import eventually, missing, running
from origins import Authority, apache, httpbin


@pytest.fixture(scope="module")
def ferry():
    """Parts of a file that arrives in milliseconds begin together only if the host is not limited."""
    with running(FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST="none") as service:
        yield service


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority, tmp_path_factory):
    """Apache: its files and its URL."""
    folder = tmp_path_factory.mktemp("apache")
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    with apache(authority, folder) as port:
        if port is None:
            missing("apache2")
        yield folder / "files", f"https://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def bin_url():
    with httpbin() as port:
        yield f"http://127.0.0.1:{port}"


def run(service, kind: str, url: str, **members) -> dict:
    request = {"url": url, **members.pop("request", {})}
    answer = service.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": kind, "request": request, "retry": {"max_attempts": 1}, **members})
    assert answer.status_code == 201, answer.text
    return answer.json()


def put(path, body: bytes) -> None:
    """Writes a file as it would be found: the validator of one that is younger than a second is weak."""
    path.write_bytes(body)
    os.utime(path, (1_700_000_000, 1_700_000_000))


def content(service, job: dict) -> bytes:
    assert job["state"] == "succeeded", job
    answer = service.call("GET", f"/v1/jobs/{job['id']}/content")
    assert answer.status_code == 200, answer.text
    return answer.content


# Apache

def test_apache_serves_parts_that_make_the_file(ferry, authority, server):
    folder, url = server
    body = os.urandom(9 << 20)
    put(folder / "large", body)
    job = run(ferry, "download", f"{url}/large", segments=4, request={"tls": {"ca": authority.pem}},
              integrity={"sha256": hashlib.sha256(body).hexdigest()})
    assert content(ferry, job) == body
    attempts = ferry.call("GET", f"/v1/jobs/{job['id']}/attempts").json()["data"]
    assert len(attempts[0]["transactions"]) >= 4, attempts


def test_a_suspended_download_from_apache_goes_on(ferry, authority, server):
    folder, url = server
    body = os.urandom(4 << 20)
    put(folder / "slow/file", body)
    job = ferry.call("POST", "/v1/jobs", json={
        "kind": "download", "request": {"url": f"{url}/slow/file", "tls": {"ca": authority.pem}}}).json()

    def look() -> dict:
        return ferry.call("GET", f"/v1/jobs/{job['id']}").json()

    eventually(120, lambda: look()["progress"]["bytes_received"] > 100_000, "bytes")
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/suspend").status_code < 300
    eventually(120, lambda: look()["state"] == "suspended", "suspended")
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/resume").status_code < 300
    ended = ferry.call("GET", f"/v1/jobs/{job['id']}", headers={"Prefer": "wait=60"}).json()
    assert content(ferry, ended) == body
    assert ended["progress"]["resumed_at_offset"] > 0, ended


def test_apache_takes_an_upload_and_gives_it_back(ferry, authority, server):
    folder, url = server
    body = os.urandom(3 << 20)
    job = run(ferry, "upload", f"{url}/put/file", request={"tls": {"ca": authority.pem}},
              source=stored(ferry, authority, server, body))
    assert job["state"] == "succeeded" and job["response"]["status"] == 201, job
    assert (folder / "put/file").read_bytes() == body


def stored(ferry, authority, server, body: bytes) -> dict:
    """A source: what another job has fetched."""
    folder, url = server
    put(folder / "stored", body)
    job = run(ferry, "download", f"{url}/stored", request={"tls": {"ca": authority.pem}})
    assert job["state"] == "succeeded", job
    return {"job": job["id"]}


def test_what_apache_compresses_is_decoded_when_asked_for(ferry, authority, server):
    folder, url = server
    body = b"the same line again\n" * 20_000
    put(folder / "coded/text.txt", body)
    job = run(ferry, "download", f"{url}/coded/text.txt",
              request={"tls": {"ca": authority.pem}, "accept_encoding": "gzip"})
    assert content(ferry, job) == body
    plain = run(ferry, "download", f"{url}/coded/text.txt", request={"tls": {"ca": authority.pem}})
    assert content(ferry, plain) == body


def test_what_apache_does_not_have_says_so(ferry, authority, server):
    _, url = server
    job = run(ferry, "download", f"{url}/nothing", request={"tls": {"ca": authority.pem}})
    assert job["error"]["code"] == "unacceptable_status" and job["response"]["status"] == 404, job
    assert "not found" in job["response"]["body_excerpt"].lower(), job


# httpbin

@pytest.mark.parametrize("path, request_members", [
    ("/gzip", {"accept_encoding": "gzip"}), ("/brotli", {"accept_encoding": "br"}),
    ("/deflate", {"accept_encoding": "any"}),
])
def test_codings(ferry, bin_url, path, request_members):
    answer = json.loads(content(ferry, run(ferry, "data", bin_url + path, request=request_members)))
    assert any(answer.get(name) for name in ("gzipped", "brotli", "deflated")), answer


@pytest.mark.parametrize("path, size", [
    ("/bytes/1000?seed=1", 1_000), ("/stream-bytes/5000?seed=1&chunk_size=100", 5_000), ("/bytes/0", 0),
    ("/drip?numbytes=20&duration=0.5&delay=0", 20), ("/range/5000?chunk_size=100", 5_000),
])
def test_bodies_of_every_kind(ferry, bin_url, path, size):
    job = run(ferry, "download", bin_url + path, destination={"path": f"bin/{size}"})
    body = content(ferry, job)
    assert len(body) == size and hashlib.sha256(body).hexdigest() == job["result"]["sha256"], job


@pytest.mark.parametrize("path", ["/redirect/3", "/absolute-redirect/3", "/relative-redirect/3"])
def test_redirects(ferry, bin_url, path):
    assert json.loads(content(ferry, run(ferry, "data", bin_url + path)))["url"] == bin_url + "/get"
    few = run(ferry, "data", bin_url + path, redirects={"max": 2})
    assert few["error"]["code"] == "too_many_redirects", few


@pytest.mark.parametrize("path, auth", [
    ("/basic-auth/me/secret", {"type": "basic", "user": "me", "password": "secret"}),
    ("/digest-auth/auth/me/secret", {"type": "digest", "user": "me", "password": "secret"}),
    ("/digest-auth/auth/me/secret/SHA-256", {"type": "digest", "user": "me", "password": "secret"}),
    ("/bearer", {"type": "bearer", "token": "abcdef"}),
])
def test_credentials(ferry, bin_url, path, auth):
    assert json.loads(content(ferry, run(ferry, "data", bin_url + path, request={"auth": auth})))["authenticated"]
    without = run(ferry, "data", bin_url + path)
    assert without["state"] == "succeeded" and without["response"]["status"] == 401, without


@pytest.mark.parametrize("status, is_retryable", [(418, False), (404, False), (503, True), (429, True), (500, True)])
def test_statuses(ferry, bin_url, status, is_retryable):
    job = run(ferry, "download", f"{bin_url}/status/{status}")
    assert job["error"]["code"] == "unacceptable_status" and job["response"]["status"] == status, job
    assert job["error"]["retryable"] == is_retryable, job


def test_forms_arrive_as_they_were_meant(ferry, bin_url):
    def sent(body: dict) -> dict:
        job = run(ferry, "data", bin_url + "/anything", request={"method": "POST", "body": body})
        return json.loads(content(ferry, job))

    assert sent({"form": {"x": "1 & 2", "ü": "ö"}})["form"] == {"x": "1 & 2", "ü": "ö"}
    assert sent({"json": {"x": [1, None]}})["json"] == {"x": [1, None]}
    whole = sent({"multipart": [
        {"name": "ü", "text": "ö"}, {"name": "photo", "text": "the file", "file_name": "Häfen.txt"}]})
    assert whole["form"] == {"ü": "ö"} and whole["files"] == {"photo": "the file"}, whole


def test_what_is_slow_is_given_up(ferry, bin_url):
    job = run(ferry, "data", bin_url + "/delay/8", request={"timeout_for_request": 1})
    assert job["error"]["code"] == "timed_out", job

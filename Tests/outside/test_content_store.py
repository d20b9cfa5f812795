"""Results in a bucket that all nodes share (FERRY_CONTENT_STORE)."""
from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import pathlib
import subprocess
import threading
import time

import pytest
import requests

from conftest import Ferry, binary, eventually, killed_and_started, running
from copy_servers import serving as origin
from memory_store import Answer, serving
from multipart_store import MultipartStore
from object_jobs import content, ended, failed, submit, succeeded
from stores import REGION, Moto, Store, seaweedfs

PART = 8 << 20


def settings(store: Store, bucket: str, prefix: str = "ferry/results", **others: str) -> dict[str, str]:
    return {"FERRY_CONTENT_STORE": f"s3://{bucket}/{prefix}?endpoint={store.url}&region={REGION}",
            "FERRY_CONTENT_STORE_ACCESS_KEY_ID": store.access_key_id,
            "FERRY_CONTENT_STORE_SECRET_ACCESS_KEY": store.secret_access_key} | others


def keys(store: Store, bucket: str) -> list[str]:
    return [one["Key"] for one in store.client().list_objects_v2(Bucket=bucket).get("Contents", []) if "/jobs/" in one["Key"]]


def managed_files(service: Ferry) -> list[pathlib.Path]:
    return [path for path in (service.data / "results").rglob("*") if path.is_file()]


def get(url: str, **fields) -> dict:
    return {"kind": "download", "request": {"url": url}} | fields


@pytest.fixture(scope="module", params=["judge", "weed"])
def place(request):
    """A service whose results are in a bucket of each store, with that store and bucket."""
    store = request.getfixturevalue(request.param)
    bucket = store.new_bucket()
    with running(**settings(store, bucket)) as service:
        yield service, store, bucket


@pytest.mark.parametrize("size", [0, 1, 70_000, PART, PART + 1, 20_000_000])
def test_a_result_is_one_object(place, receiver, size):
    service, store, bucket = place
    receiver.files["/a.bin"] = whole = os.urandom(size)
    job = succeeded(service, get(f"{receiver.url}/a.bin"))
    assert job["result"]["size"] == size and job["result"]["sha256"] == hashlib.sha256(whole).hexdigest()
    assert job["result"]["path"] is None and job["result"].get("url") is None
    [key] = [one for one in keys(store, bucket) if job["id"] in one]
    assert key.startswith("ferry/results/") and f"/jobs/{job['id']}/1-" in key
    assert store.client().get_object(Bucket=bucket, Key=key)["Body"].read() == whole
    url = f"/v1/jobs/{job['id']}/content"
    whole_answer = service.call("GET", url)
    assert whole_answer.status_code == 200 and whole_answer.content == whole
    assert whole_answer.headers["Content-Length"] == str(size) and 'filename="a.bin"' in whole_answer.headers["Content-Disposition"]
    tag = whole_answer.headers["ETag"]
    assert service.call("GET", url, headers={"If-None-Match": tag}).status_code == 304
    assert service.call("HEAD", url).headers["Content-Length"] == str(size)
    if size > 10:
        part = service.call("GET", url, headers={"Range": f"bytes={size // 2}-{size // 2 + 4}"})
        assert part.status_code == 206 and part.content == whole[size // 2:size // 2 + 5]
        last = service.call("GET", url, headers={"Range": "bytes=-3"})
        assert last.status_code == 206 and last.content == whole[-3:]
    assert service.call("GET", f"{url}?follow=true").content == whole
    assert managed_files(service) == []
    assert service.call("DELETE", f"/v1/jobs/{job['id']}").status_code == 204
    eventually(30, lambda: not [one for one in keys(store, bucket) if job["id"] in one], "the object is removed")


def test_kept_bodies(place, receiver):
    service, store, bucket = place
    receiver.files["/long"], receiver.files["/short"] = os.urandom(400_000), b"short"
    long = succeeded(service, {"kind": "data", "request": {"url": f"{receiver.url}/long"}})
    short = succeeded(service, {"kind": "data", "request": {"url": f"{receiver.url}/short"}})
    assert content(service, long) == receiver.files["/long"] and content(service, short) == b"short"
    assert [long["id"] in "".join(keys(store, bucket)), short["id"] in "".join(keys(store, bucket))] == [True, False]


def test_a_response_that_rejects_an_upload(place):
    service, store, bucket = place
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(422)
            self.send_header("Content-Length", "400000")
            self.end_headers()
            self.wfile.write(b"n" * 400_000)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    job = ended(service, submit(service, {
        "kind": "upload", "source": {"text": "abc"}, "request": {"url": f"http://127.0.0.1:{server.server_port}/", "method": "PUT"}})["id"])
    server.shutdown()
    assert job["state"] == "failed" and job["response"]["content"]["size"] == 400_000, job
    assert content(service, job) == b"n" * 400_000
    assert job["id"] in "".join(keys(store, bucket))


def test_an_address_in_place_of_the_bytes(place, receiver):
    service, store, bucket = place
    receiver.files["/ä b.txt"] = receiver.files["/%C3%A4%20b.txt"] = b"with a name"
    job = succeeded(service, get(f"{receiver.url}/%C3%A4%20b.txt"))
    url = f"/v1/jobs/{job['id']}/content"
    answer = service.call("GET", url, headers={"Prefer": "redirect"}, allow_redirects=False)
    assert answer.status_code == 307 and answer.headers["Preference-Applied"] == "redirect"
    # moto does not judge signatures in a query.
    if not isinstance(store, Moto):
        fetched = requests.get(answer.headers["Location"], timeout=30)
        assert fetched.status_code == 200 and fetched.content == b"with a name", fetched.text
        assert fetched.headers["Content-Disposition"] == service.call("GET", url).headers["Content-Disposition"]
        assert requests.get(answer.headers["Location"].replace("Expires=900", "Expires=901"), timeout=30).status_code == 403
    assert service.call("GET", url).status_code == 200
    assert service.call("GET", url, headers={"Prefer": "redirect", "If-None-Match": f'"{job["result"]["sha256"]}"'}).status_code == 304
    assert service.call("HEAD", url, headers={"Prefer": "redirect"}, allow_redirects=False).status_code == 200
    receiver.files["/short"] = b"short"
    short = succeeded(service, {"kind": "data", "request": {"url": f"{receiver.url}/short"}})
    assert service.call("GET", f"/v1/jobs/{short['id']}/content", headers={"Prefer": "redirect"}).content == b"short"


def test_results_are_sent_on(place, receiver):
    service, store, bucket = place
    receiver.files["/a"] = whole = os.urandom(20_000_000)
    first = succeeded(service, get(f"{receiver.url}/a"))
    source = {"job": first["id"]}
    with running() as target:
        sent = succeeded(service, {"kind": "upload", "source": source, "request": {
            "url": f"{target.url}/v1/uploads", "method": "POST", "auth": {"type": "bearer", "token": target.key}}})
        uploads = target.call("GET", "/v1/uploads").json()["data"]
        assert [one["sha256"] for one in uploads] == [hashlib.sha256(whole).hexdigest()] == [sent["result"]["sha256"]]
    succeeded(service, {"kind": "upload", "source": source, "destination": {"s3": store.object(bucket, "sent/on")}})
    assert store.client().get_object(Bucket=bucket, Key="sent/on")["Body"].read() == whole
    form = {"job": first["id"], "form": {"field": "f"}}
    succeeded(service, {"kind": "upload", "source": form, "request": {"url": f"{receiver.url}/form", "method": "POST"}})
    assert whole in receiver.received("/form")[0].body


def test_the_tenants_bytes_count(place, receiver):
    service, store, bucket = place
    receiver.files["/a"] = bytes(1_000_000)
    made = service.call("POST", "/v1/admin/keys", json={"name": "n", "role": "client", "tenant": "counted"}).json()["key"]
    assert service.call("PUT", "/v1/admin/tenants/counted/limits", json={"storage_bytes": 1_500_000}).status_code == 200
    tenant = Ferry(service.url, made, service.data, service.process)
    succeeded(tenant, get(f"{receiver.url}/a"))
    failed(tenant, get(f"{receiver.url}/a"), "storage_quota_exceeded", "tenant")
    assert len([one for one in keys(store, bucket)]) > 0


def test_what_the_store_has_lost(place, receiver):
    service, store, bucket = place
    receiver.files["/a"] = bytes(100_000)
    job = succeeded(service, get(f"{receiver.url}/a"))
    [key] = [one for one in keys(store, bucket) if job["id"] in one]
    store.client().delete_object(Bucket=bucket, Key=key)
    answer = service.call("GET", f"/v1/jobs/{job['id']}/content")
    assert answer.status_code == 410 and answer.json()["code"] == "content_missing", answer.text
    assert service.call("GET", f"/v1/jobs/{job['id']}").json()["state"] == "succeeded"
    failed(service, {"kind": "upload", "source": {"job": job["id"]}, "request": {"url": receiver.url, "method": "PUT"}},
           "source_not_found", "content store")


@contextlib.contextmanager
def second_node(first: Ferry, **others: str):
    """Another node on the private database of the first one."""
    lines = (first.data / "postgres/postmaster.pid").read_text().split("\n")
    given = dict(one.split("=", 1) for one in pathlib.Path(f"/proc/{first.process.pid}/environ").read_text().split("\0")[:-1])
    shared = {name: value for name, value in given.items() if name.startswith("FERRY_CONTENT_STORE")}
    with running(FERRY_DATABASE_URL=f"postgresql://ferry@/postgres?host={lines[4]}",
                 FERRY_SECRET_KEY=(first.data / "secret.key").read_text().strip(), **shared, **others) as node:
        yield node


def test_any_node_has_the_content(judge, receiver):
    bucket = judge.new_bucket()
    receiver.files["/a"] = whole = os.urandom(3_000_000)
    with running(**settings(judge, bucket)) as first:
        with second_node(first, status=-9) as second:
            order(second, "drain", first)
            jobs = [submit(second, get(f"{receiver.url}/a"))["id"] for _ in range(20)]
            done = [ended(second, job) for job in jobs]
            assert all(one["state"] == "succeeded" for one in done)
            assert {content(node, one) == whole for node in (first, second) for one in done} == {True}
            second.process.kill()
            second.process.wait()
        assert all(content(first, one) == whole for one in done)
        order(first, "resume", first)
        sent = succeeded(first, {"kind": "upload", "source": {"job": done[0]["id"]},
                                 "request": {"url": f"{receiver.url}/on", "method": "POST"}})
        assert sent["result"]["sha256"] == hashlib.sha256(whole).hexdigest()


@pytest.fixture()
def memory():
    with serving(MultipartStore()) as store:
        yield store


def waiting(service: Ferry, job: str) -> dict | None:
    shown = service.call("GET", f"/v1/jobs/{job}").json()
    return shown if shown["state"] == "waiting" and shown["waiting_reason"]["code"] == "storage_unavailable" else None


def test_a_store_that_is_away(memory, receiver):
    """Jobs that need it wait and use up no attempt; others run."""
    receiver.files["/a"], receiver.files["/b"] = os.urandom(20_000_000), os.urandom(1_000)
    with running(**settings(memory.store, "bucket")) as service:
        memory.spoil = lambda kind, number, request: Answer(503, "ServiceUnavailable")
        jobs = [submit(service, get(f"{receiver.url}/{name}", retry={"initial_delay": 0.1, "max_attempts": 2}))["id"]
                for name in "ab" for _ in range(3)]
        for job in jobs:
            eventually(60, lambda: waiting(service, job), "the job waits for the store")
        succeeded(service, get(f"{receiver.url}/a", destination={"path": "a"}))
        memory.spoil = lambda kind, number, request: None
        done = [ended(service, job) for job in jobs]
        assert all(one["state"] == "succeeded" for one in done), done
        assert [content(service, one) for one in done] == [receiver.files["/a"]] * 3 + [receiver.files["/b"]] * 3
        assert "The content store can be used again" in service.log() or "notice" not in service.log()
        assert "The content store cannot be used" in service.log()
    assert memory.faults == [] and memory.uploads == {}


def test_a_store_that_is_killed(folder, receiver):
    """While objects are sent. What it had confirmed is there when it is back, and what it had not is sent again."""
    receiver.files["/a"], receiver.files["/b"] = os.urandom(30_000_000), os.urandom(1_000)
    with seaweedfs(folder) as store:
        with running(**settings(store, store.new_bucket())) as service:
            before = succeeded(service, get(f"{receiver.url}/b"))
            jobs = [submit(service, get(f"{receiver.url}/{name}", retry={"initial_delay": 0.1, "max_attempts": 2}))["id"]
                    for name in "ab" * 6]
            eventually(60, lambda: service.call("GET", f"/v1/jobs/{jobs[1]}").json()["state"] == "succeeded", "one is sent")
            store.kill()
            jobs += [submit(service, get(f"{receiver.url}/b", retry={"initial_delay": 0.1}))["id"]]
            eventually(60, lambda: waiting(service, jobs[-1]), "a job waits for the store")
            assert service.call("GET", f"/v1/jobs/{before['id']}/content").status_code == 503
            store.start()
            done = [ended(service, job) for job in jobs]
            assert all(one["state"] == "succeeded" for one in done), done
            for one in [before, *done]:
                assert hashlib.sha256(content(service, one)).hexdigest() == one["result"]["sha256"]


def test_a_lost_answer_to_the_end_of_an_upload(memory, receiver):
    receiver.files["/a"] = os.urandom(20_000_000)
    lost = []

    def lose(kind, number, request):
        if kind == "complete" and not lost:
            lost.append(number)
            return Answer(0)
        return None

    memory.spoil_after = lose
    with running(**settings(memory.store, "bucket")) as service:
        job = succeeded(service, get(f"{receiver.url}/a"))
        assert content(service, job) == receiver.files["/a"] and lost
    assert memory.faults == [] and memory.uploads == {} and len([key for key in memory.objects if "/jobs/" in key]) == 1


def test_a_node_that_is_killed_while_it_sends(memory, receiver):
    receiver.files["/a"] = whole = os.urandom(40_000_000)
    with running(status=-9, **settings(memory.store, "bucket")) as service:
        memory.spoil = lambda kind, number, request: Answer(0) if kind == "part" and number == 3 else None
        job = submit(service, get(f"{receiver.url}/a"))["id"]
        eventually(60, lambda: 3 in memory.kinds("part"), "the third part is sent")
        second = killed_and_started(service)
        try:
            memory.spoil = lambda kind, number, request: None
            shown = ended(service, job)
            assert shown["state"] == "succeeded", shown
            assert content(service, shown) == whole
        finally:
            second.kill()
            second.wait()
    assert memory.faults == []


@pytest.mark.parametrize("command, state", [("cancel", "cancelled"), ("suspend", "suspended")])
def test_a_job_that_ends_while_it_is_sent(memory, receiver, command, state):
    receiver.files["/a"] = os.urandom(40_000_000)
    with running(**settings(memory.store, "bucket")) as service:
        memory.spoil = lambda kind, number, request: time.sleep(0.5) if kind == "part" else None
        job = submit(service, get(f"{receiver.url}/a"))["id"]
        eventually(60, lambda: memory.kinds("part"), "a part is sent")
        assert service.call("POST", f"/v1/jobs/{job}/{command}").status_code == 200
        eventually(20, lambda: service.call("GET", f"/v1/jobs/{job}").json()["state"] == state, state)
        eventually(20, lambda: not memory.uploads, "the multipart upload is removed")
        assert not [key for key in memory.objects if "/jobs/" in key]
        if state == "suspended":
            memory.spoil = lambda kind, number, request: None
            assert service.call("POST", f"/v1/jobs/{job}/resume").status_code == 200
            shown = ended(service, job)
            assert content(service, shown) == receiver.files["/a"]
    assert memory.faults == []


@pytest.mark.parametrize("text, words", [
    ("http://a/b", "neither file: nor s3://"), ("s3://", "names no bucket"), ("file:relative", "not absolute"),
    ("s3://bucket/a?endpoint=ftp://x", "endpoint"), ("s3://bucket/a?color=red", "unknown parameter color"),
    ("s3://bucket/../x", "prefix")])
def test_wrong_settings(folder, text, words):
    said = subprocess.run([binary(), "check"], capture_output=True, text=True, timeout=60,
                          env={"PATH": os.environ["PATH"], "FERRY_DATA_DIR": str(folder), "FERRY_CONTENT_STORE": text})
    assert said.returncode != 0 and "FERRY_CONTENT_STORE" in said.stdout + said.stderr, said
    assert words in said.stdout + said.stderr, said


def test_a_directory_of_its_own(folder, receiver):
    receiver.files["/a"] = b"abc" * 1_000
    with running(FERRY_CONTENT_STORE=f"file:{folder}/kept") as service:
        job = succeeded(service, get(f"{receiver.url}/a"))
        assert content(service, job) == receiver.files["/a"]
        assert [one.read_bytes() for one in (folder / "kept").rglob("*") if one.is_file()] == [receiver.files["/a"]]


# Unfinished downloads and staged uploads


def pieces(store: Store, bucket: str) -> list[str]:
    return [one for one in keys(store, bucket) if "/pieces/" in one]


def order(service: Ferry, command: str, node: Ferry):
    """Drains a node, or resumes it."""
    identifier = (node.data / "node").read_text().strip()
    assert service.call("POST", f"/v1/admin/nodes/{identifier}/{command}").status_code == 200


@pytest.mark.parametrize("segments", [1, 3])
def test_another_node_continues_a_download_after_a_kill(judge, segments):
    bucket, whole = judge.new_bucket(), os.urandom(100_000_000)
    with origin() as source, running(**settings(judge, bucket)) as first:
        source.files["/a"] = whole
        with second_node(first, status=-9) as second:
            order(second, "drain", first)
            job = submit(second, get(f"{source.url}/a", segments=segments, network={"max_bytes_per_second": 4_000_000}))["id"]
            eventually(60, lambda: len(pieces(judge, bucket)) > 1, "pieces are in the store")
            second.process.kill()
            second.process.wait()
        order(first, "resume", first)
        assert first.call("PATCH", f"/v1/jobs/{job}", json={"network": {"max_bytes_per_second": None}}).status_code == 200
        shown = ended(first, job)
        assert shown["state"] == "succeeded", shown
        assert shown["result"]["resumed_at_offset"] >= 16 << 20, shown
        assert content(first, shown) == whole
        eventually(30, lambda: not pieces(judge, bucket), "the pieces are removed")


def test_another_node_continues_a_suspended_download(judge):
    bucket, whole = judge.new_bucket(), os.urandom(30_000_000)
    with origin() as source, running(**settings(judge, bucket)) as first, second_node(first) as second:
        source.files["/a"] = whole
        order(second, "drain", first)
        job = submit(second, get(f"{source.url}/a", network={"max_bytes_per_second": 2_000_000}))["id"]

        def received() -> int:
            return second.call("GET", f"/v1/jobs/{job}").json()["progress"]["bytes_received"]

        eventually(60, lambda: received() > 4_000_000, "some megabytes have come")
        assert second.call("POST", f"/v1/jobs/{job}/suspend").status_code == 200
        eventually(30, lambda: second.call("GET", f"/v1/jobs/{job}").json()["state"] == "suspended", "suspended")
        assert pieces(judge, bucket)
        left = received()
        order(first, "resume", first)
        order(first, "drain", second)
        assert first.call("PATCH", f"/v1/jobs/{job}", json={"network": {"max_bytes_per_second": None}}).status_code == 200
        assert first.call("POST", f"/v1/jobs/{job}/resume").status_code == 200
        shown = ended(first, job)
        assert shown["state"] == "succeeded" and shown["result"]["resumed_at_offset"] == left > 4_000_000, shown
        assert content(second, shown) == whole
        eventually(30, lambda: not pieces(judge, bucket), "the pieces are removed")


def test_pieces_of_a_file_that_has_changed(judge):
    bucket, whole = judge.new_bucket(), os.urandom(30_000_000)
    with origin() as source, running(**settings(judge, bucket)) as service:
        source.files["/a"] = os.urandom(30_000_000)
        job = submit(service, get(f"{source.url}/a", network={"max_bytes_per_second": 2_000_000}))["id"]
        eventually(60, lambda: service.call("GET", f"/v1/jobs/{job}").json()["progress"]["bytes_received"] > 3_000_000, "some have come")
        assert service.call("POST", f"/v1/jobs/{job}/suspend").status_code == 200
        eventually(30, lambda: pieces(judge, bucket), "a piece is in the store")
        source.files["/a"], source.tag = whole, '"two"'
        service.call("PATCH", f"/v1/jobs/{job}", json={"network": {"max_bytes_per_second": None}})
        assert service.call("POST", f"/v1/jobs/{job}/resume").status_code == 200
        shown = ended(service, job)
        assert shown["state"] == "succeeded" and content(service, shown) == whole
        eventually(30, lambda: not pieces(judge, bucket), "the pieces are removed")


def staged(service: Ferry, data: bytes, name: str) -> str:
    made = service.call("PUT", f"/v1/uploads/{name}", data=data, headers={"Content-Type": "text/x"})
    assert made.status_code == 201, made.text
    return made.json()["id"]


def moved(store: Store, bucket: str, upload: str) -> list[str]:
    listed = store.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    return [one["Key"] for one in listed if f"/uploads/{upload}/" in one["Key"]]


def test_staged_uploads(weed, receiver):
    bucket = weed.new_bucket()
    with running(**settings(weed, bucket)) as first:
        with second_node(first, status=-9) as second:
            data = {name: os.urandom(size) for name, size in [("small", 10), ("large", 20_000_000), ("used", 1_000)]}
            uploads = {name: staged(second, data[name], name) for name in data}
            # A job may be about to read the file while the upload is moved.
            sent = submit(second, {"kind": "upload", "source": {"upload": "used"},
                                   "request": {"url": f"{receiver.url}/used", "method": "POST"}})["id"]
            for name in data:
                eventually(30, lambda: moved(weed, bucket, uploads[name]), f"{name} is moved")
            assert ended(second, sent)["state"] == "succeeded"
            second.process.kill()
            second.process.wait()
        for name in data:
            answer = first.call("GET", f"/v1/uploads/{name}/content")
            assert answer.status_code == 200 and answer.content == data[name] and answer.headers["Content-Type"] == "text/x"
            assert first.call("GET", f"/v1/uploads/{name}").json()["complete"] is True
            assert first.call("HEAD", f"/v1/uploads/{name}", headers={"Tus-Resumable": "1.0.0"}).headers["Upload-Offset"] == str(len(data[name]))
        part = first.call("GET", "/v1/uploads/large/content", headers={"Range": "bytes=9000000-9000009"})
        assert part.status_code == 206 and part.content == data["large"][9_000_000:9_000_010]
        assert first.call("PUT", "/v1/uploads/small", data=data["small"]).status_code in (200, 201)
        assert first.call("PUT", "/v1/uploads/small", data=b"other bytes").status_code == 409
        redirected = first.call("GET", "/v1/uploads/large/content", headers={"Prefer": "redirect"}, allow_redirects=False)
        assert requests.get(redirected.headers["Location"], timeout=30).content == data["large"]
        on = succeeded(first, {"kind": "upload", "source": {"upload": "large"},
                               "request": {"url": f"{receiver.url}/on", "method": "POST"}})
        assert on["result"]["sha256"] == hashlib.sha256(data["large"]).hexdigest()
        assert receiver.received("/on")[0].body == data["large"]
        assert first.call("DELETE", "/v1/uploads/large").status_code == 204
        eventually(30, lambda: not moved(weed, bucket, uploads["large"]), "the object is removed")

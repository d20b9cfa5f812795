"""Staged uploads as curl, tuspy and clients of each version of the IETF's draft send them."""
from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import re
import socket
import subprocess
import time
import zlib

import pytest
import requests
from tusclient import client as tus

from conftest import Ferry, eventually, killed_and_started, running

DATA = os.urandom(3_000_000)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Client:
    """A connection on which a test writes and reads bytes."""

    def __init__(self, ferry: Ferry):
        host, port = ferry.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.key = ferry.key
        self.left = b""

    def request(self, method: str, path: str, fields: dict[str, str], body: bytes = b""):
        lines = [f"{method} {path} HTTP/1.1", "Host: ferry", f"Authorization: Bearer {self.key}"]
        self.socket.sendall("\r\n".join(lines + [f"{n}: {v}" for n, v in fields.items()]).encode() + b"\r\n\r\n" + body)

    def response(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self.left:
            piece = self.socket.recv(65_536)
            assert piece, f"the connection was closed after {self.left!r}"
            self.left += piece
        head, self.left = self.left.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        fields = {n.lower(): v.strip() for n, v in (line.split(":", 1) for line in lines[1:])}
        status, length = int(lines[0].split()[1]), int(fields.get("content-length", 0))
        while len(self.left) < length and status >= 200:
            self.left += self.socket.recv(65_536)
        body, self.left = (self.left[:length], self.left[length:]) if status >= 200 else (b"", self.left)
        return status, fields, body

    def close(self):
        self.socket.close()


def head(ferry: Ferry, path: str, **fields: str) -> requests.Response:
    return ferry.call("HEAD", path, headers=fields)


def files(ferry: Ferry) -> list[pathlib.Path]:
    return [path for path in (ferry.data / "uploads").rglob("upl_*")]


# Plain uploads


@pytest.mark.parametrize("size", [0, 1, 4_096, 300_000, 3_000_000])
def test_post_and_content(ferry, size):
    made = ferry.call("POST", "/v1/uploads", data=DATA[:size], headers={"Content-Type": "text/csv"})
    assert made.status_code == 201, made.text
    upload = made.json()
    assert upload["size"] == upload["offset"] == size and upload["complete"]
    assert upload["sha256"] == sha256(DATA[:size]) and upload["content_type"] == "text/csv"
    assert made.headers["Location"] == f"/v1/uploads/{upload['id']}"
    content = ferry.call("GET", made.headers["Location"] + "/content")
    assert content.content == DATA[:size] and content.headers["ETag"] == f'"{upload["sha256"]}"'
    if size > 10:
        part = ferry.call("GET", made.headers["Location"] + "/content", headers={"Range": "bytes=2-5"})
        assert part.status_code == 206 and part.content == DATA[2:6]
    assert ferry.call("DELETE", made.headers["Location"]).status_code == 204
    assert ferry.call("GET", made.headers["Location"]).status_code == 404
    eventually(10, lambda: not any(upload["id"] in str(path) for path in files(ferry)), "the file is removed")


def test_chunked_with_digests_and_metadata(ferry):
    digest = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
    fields = {"Repr-Digest": f"sha-256=:{digest}:", "Content-Disposition": "inline; filename*=UTF-8''%C3%A4.csv",
              "Upload-Metadata": "a eA=="}
    made = ferry.call("POST", "/v1/uploads", data=iter([DATA[:10], DATA[10:1_000_000], DATA[1_000_000:]]), headers=fields)
    assert made.status_code == 201, made.text
    assert made.json()["sha256"] == sha256(DATA) and made.json()["file_name"] == "ä.csv"
    assert made.json()["metadata"] == {"a": "x"}
    fields["Repr-Digest"] += f", sha-512=:{base64.b64encode(hashlib.sha512(DATA).digest()).decode()}:"
    assert ferry.call("POST", "/v1/uploads", data=DATA, headers=fields).status_code == 201
    before = len(files(ferry))
    for digest in fields["Repr-Digest"].split(", "):
        wrong = ferry.call("POST", "/v1/uploads", data=DATA[1:], headers=fields | {"Repr-Digest": digest})
        assert wrong.status_code == 400 and wrong.json()["code"] == "digest_mismatch"
    eventually(10, lambda: len(files(ferry)) == before, "the file of the wrong upload is removed")


def test_put_is_repeatable(ferry, folder):
    file = folder / "data"
    file.write_bytes(DATA)
    command = ["curl", "-sS", "-T", file, "-H", f"Authorization: Bearer {ferry.key}", "-w", "\n%{http_code}",
               f"{ferry.url}/v1/uploads/by-curl"]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first.endswith("\n201") and second.endswith("\n200"), (first, second)
    assert first.rsplit("\n", 1)[0] == second.rsplit("\n", 1)[0]
    for other in (DATA[1:], DATA[:-1] + bytes([DATA[-1] ^ 1])):
        taken = ferry.call("PUT", "/v1/uploads/by-curl", data=other)
        assert taken.status_code == 409 and taken.json()["code"] == "upload_exists"
    assert ferry.call("GET", "/v1/uploads/by-curl/content").content == DATA
    assert ferry.call("PUT", "/v1/uploads/upl_x", data=b"x").status_code == 400


def test_list_has_pages(ferry):
    made = [ferry.call("PUT", f"/v1/uploads/page-{n}", data=b"x").json()["id"] for n in range(3)]
    first = ferry.call("GET", "/v1/uploads?limit=2").json()
    assert [one["id"] for one in first["data"]] == made[:0:-1]
    rest = ferry.call("GET", f"/v1/uploads?limit=2&cursor={first['next_cursor']}").json()
    assert rest["data"][0]["id"] == made[0]


def test_list_has_filters(ferry):
    done = ferry.call("PUT", "/v1/uploads/filter-1", data=b"x").json()
    ferry.call("PUT", "/v1/uploads/filter-2", headers={"Upload-Complete": "?0"})
    def names(query: str) -> list[str]:
        return [one["name"] for one in ferry.call("GET", f"/v1/uploads?limit=500&{query}").json()["data"]]
    assert names("name=filter-1") == ["filter-1"] and names("name=filter-1&complete=false") == []
    assert "filter-2" in names("complete=false") and "filter-1" not in names("complete=false")
    assert "filter-1" in names("complete=true") and "filter-2" not in names("complete=true")
    after = f"created_after={done['created_at']}"
    assert names(f"{after}&complete=false") == ["filter-2"] and "filter-1" not in names(after)
    assert "filter-1" not in names(f"created_before={done['created_at']}")
    for wrong in ("complete=1", "name=a/b", "created_after=x", "state=complete"):
        assert ferry.call("GET", f"/v1/uploads?{wrong}").status_code == 400, wrong


def test_viewers_only_read(ferry):
    key = ferry.call("POST", "/v1/admin/keys", json={"name": "v", "role": "viewer"}).json()["key"]
    fields = {"Authorization": f"Bearer {key}"}
    assert requests.get(ferry.url + "/v1/uploads", headers=fields, timeout=30).status_code == 200
    assert requests.put(ferry.url + "/v1/uploads/v", data=DATA, headers=fields, timeout=30).status_code == 403


def test_expect_continue_follows_the_checks(ferry):
    ferry.call("PUT", "/v1/uploads/waits", data=b"abc")
    client = Client(ferry)
    client.request("PUT", "/v1/uploads/waits", {"Content-Length": "5", "Expect": "100-continue"})
    assert client.response()[0] == 409, "the length tells that it is another upload"
    client = Client(ferry)
    client.request("PUT", "/v1/uploads/waits", {"Content-Length": "3", "Expect": "100-continue"})
    assert client.response()[0] == 100
    client.socket.sendall(b"abc")
    assert client.response()[0] == 200


def test_limits():
    with running(FERRY_UPLOAD_MAX_BYTES="1000000") as ferry:
        assert ferry.call("POST", "/v1/uploads", data=bytes(1_000_000)).status_code == 201
        client = Client(ferry)
        client.request("POST", "/v1/uploads", {"Content-Length": "1000001", "Expect": "100-continue"})
        assert client.response()[0] == 413, "before the body"
        chunked = ferry.call("POST", "/v1/uploads", data=iter([bytes(600_000), bytes(600_000)]))
        assert chunked.status_code == 413
        assert "max-size=1000000" in ferry.call("OPTIONS", "/v1/uploads").headers["Upload-Limit"]
        made = ferry.call("POST", "/v1/admin/keys", json={"name": "q", "role": "client", "tenant": "q"}).json()
        ferry.call("PUT", "/v1/admin/tenants/q/limits", json={"storage_bytes": 500_000})
        fields = {"Authorization": f"Bearer {made['key']}"}
        def send(size: int) -> int:
            return requests.post(ferry.url + "/v1/uploads", data=bytes(size), headers=fields, timeout=30).status_code
        assert send(500_001) == 413
        assert send(400_000) == 201
        assert send(200_000) == 413
        eventually(60, lambda: send(100_000) in (201, 413), "room for the rest")


# The IETF's draft


def completion(version: int, complete: bool) -> dict[str, str]:
    if version == 3:
        return {"Upload-Incomplete": "?0" if complete else "?1"}
    return {"Upload-Complete": "?1" if complete else "?0"}


def named(version: int) -> dict[str, str]:
    return {"Upload-Draft-Interop-Version": str(version)}


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8])
def test_interruption_and_continuation(ferry, version):
    client = Client(ferry)
    client.request("POST", "/v1/uploads", named(version) | completion(version, True) | {"Content-Length": str(len(DATA))})
    status, fields, _ = client.response()
    assert status == 104 and fields["upload-draft-interop-version"] == str(version)
    assert ("upload-limit" in fields) == (version >= 6)
    if version >= 6:
        assert ("expires=" if version == 6 else "max-age=") in fields["upload-limit"]
    path = fields["location"]
    client.socket.sendall(DATA[:1_000_000])
    client.close()
    # HEAD would end the request before all of its bytes are read.
    eventually(30, lambda: ferry.call("GET", path).json()["offset"] == 1_000_000, "all bytes that were sent are kept")
    state = head(ferry, path, **named(version))
    assert state.headers["Upload-Offset"] == "1000000" and state.status_code == 204 and state.headers["Cache-Control"] == "no-store"
    name, value = next(iter(completion(version, False).items()))
    assert state.headers[name] == value
    append = named(version) | {"Content-Type": "application/partial-upload"}
    stale = ferry.call("PATCH", path, data=b"x", headers=append | completion(version, True) | {"Upload-Offset": "5"})
    assert stale.status_code == 409 and stale.headers["Upload-Offset"] == "1000000"
    assert stale.json()["type"].endswith("#mismatching-upload-offset")
    assert (stale.json()["expected-offset"], stale.json()["provided-offset"]) == (1_000_000, 5)
    middle = ferry.call("PATCH", path, data=DATA[1_000_000:2_000_000],
                        headers=append | completion(version, False) | {"Upload-Offset": "1000000"})
    assert middle.status_code == 204 and middle.headers["Upload-Offset"] == "2000000"
    final = append | completion(version, True) | {"Upload-Offset": "2000000"}
    for _ in range(2):
        last = ferry.call("PATCH", path, data=DATA[2_000_000:], headers=final)
        assert last.status_code == 200 and last.json()["sha256"] == sha256(DATA), last.text
        name, value = next(iter(completion(version, True).items()))
        assert last.headers[name] == value
    assert ferry.call("GET", path + "/content").content == DATA


def test_careful_creation_without_version(ferry):
    made = ferry.call("POST", "/v1/uploads", headers={"Upload-Complete": "?0", "Upload-Length": "6"})
    assert made.status_code == 201 and made.headers["Upload-Complete"] == "?0" and made.headers["Upload-Offset"] == "0"
    path = made.headers["Location"]
    fields = {"Upload-Offset": "0", "Upload-Complete": "?1"}
    assert ferry.call("PATCH", path, data=b"abcdef", headers=fields).status_code == 415
    fields["Content-Type"] = "application/partial-upload"
    short = ferry.call("PATCH", path, data=b"abc", headers=fields)
    assert short.status_code == 400 and short.json()["type"].endswith("#inconsistent-upload-length"), short.text
    offset = head(ferry, path).headers["Upload-Offset"]
    rest = ferry.call("PATCH", path, data=b"abcdef"[int(offset):], headers=fields | {"Upload-Offset": offset})
    assert rest.status_code == 200 and rest.json()["sha256"] == sha256(b"abcdef")
    beyond = ferry.call("PATCH", path, data=b"x", headers=fields | {"Upload-Offset": "6"})
    assert beyond.status_code == 400 and beyond.json()["type"].endswith("#completed-upload")


def test_later_request_ends_the_earlier_one(ferry):
    client = Client(ferry)
    client.request("PUT", "/v1/uploads/two", named(8) | completion(8, True) | {"Content-Length": str(len(DATA))})
    assert client.response()[0] == 104
    client.socket.sendall(DATA[:500_000])
    offset = int(head(ferry, "/v1/uploads/two").headers["Upload-Offset"])
    with contextlib.suppress(OSError):
        client.socket.sendall(DATA[500_000:1_000_000])
    status, _, body = client.response()
    assert status == 409 and b"upload_superseded" in body
    assert int(head(ferry, "/v1/uploads/two").headers["Upload-Offset"]) == offset, "a told offset is final"
    fields = completion(8, True) | {"Upload-Offset": str(offset), "Content-Type": "application/partial-upload"}
    last = ferry.call("PATCH", "/v1/uploads/two", data=DATA[offset:], headers=fields)
    assert last.status_code == 200 and last.json()["sha256"] == sha256(DATA)


def test_killed_in_the_middle():
    """What HEAD says after SIGKILL is there, and the upload continues."""
    with running(status=-9) as ferry:
        client = Client(ferry)
        client.request("PUT", "/v1/uploads/killed", named(8) | completion(8, True) | {"Content-Length": "60000000"})
        assert client.response()[0] == 104
        data = os.urandom(60_000_000)
        client.socket.sendall(data[:40_000_000])
        eventually(30, lambda: ferry.call("GET", "/v1/uploads/killed").json()["offset"] > 0, "an offset is kept")
        second = killed_and_started(ferry)
        offset = int(head(ferry, "/v1/uploads/killed").headers["Upload-Offset"])
        assert 0 < offset <= 40_000_000
        fields = completion(8, True) | {"Upload-Offset": str(offset), "Content-Type": "application/partial-upload"}
        last = ferry.call("PATCH", "/v1/uploads/killed", data=data[offset:], headers=fields)
        assert last.status_code == 200 and last.json()["sha256"] == sha256(data)
        second.terminate()
        assert second.wait(60) == 0


# tus


def test_tuspy(ferry, folder):
    file = folder / "data"
    file.write_bytes(DATA)
    service = tus.TusClient(ferry.url + "/v1/uploads", headers={"Authorization": f"Bearer {ferry.key}"})
    uploader = service.uploader(str(file), chunk_size=700_000, metadata={"filename": "d.bin"}, upload_checksum=True)
    uploader.upload_chunk()
    assert uploader.offset == 700_000
    again = service.uploader(str(file), chunk_size=700_000, url=uploader.url)
    again.upload()
    upload = ferry.call("GET", "/" + uploader.url.split("/", 3)[3]).json()
    assert upload["complete"] and upload["sha256"] == sha256(DATA) and upload["file_name"] == "d.bin"


TUS = {"Tus-Resumable": "1.0.0"}
CHUNK = TUS | {"Content-Type": "application/offset+octet-stream"}


def test_tus_options_and_versions(ferry):
    options = ferry.call("OPTIONS", "/v1/uploads")
    assert options.status_code == 204 and options.headers["Tus-Version"] == "1.0.0"
    assert "concatenation" in options.headers["Tus-Extension"] and "sha1" in options.headers["Tus-Checksum-Algorithm"]
    old = ferry.call("POST", "/v1/uploads", headers={"Tus-Resumable": "0.2.2", "Upload-Length": "3"})
    assert old.status_code == 412 and old.headers["Tus-Version"] == "1.0.0"


def test_tus_checksum_and_method_override(ferry):
    made = ferry.call("POST", "/v1/uploads", headers=TUS | {"Upload-Defer-Length": "1"})
    assert made.status_code == 201 and made.headers["Upload-Expires"].endswith("GMT")
    path = made.headers["Location"]
    def checksum(data: bytes, algorithm: str = "sha1") -> str:
        digest = zlib.crc32(data).to_bytes(4) if algorithm == "crc32" else hashlib.new(algorithm, data).digest()
        return f"{algorithm} {base64.b64encode(digest).decode()}"
    algorithms = ferry.call("OPTIONS", "/v1/uploads").headers["Tus-Checksum-Algorithm"].split(",")
    assert set(algorithms) == {"sha1", "sha256", "sha512", "md5", "crc32", "crc32c"}
    wrong = ferry.call("PATCH", path, data=b"abc", headers=CHUNK | {"Upload-Offset": "0", "Upload-Checksum": checksum(b"x")})
    assert wrong.status_code == 460, wrong.text
    for algorithm in set(algorithms) - {"crc32c"}:
        fields = CHUNK | {"Upload-Offset": "0", "Upload-Checksum": checksum(b"x", algorithm)}
        assert ferry.call("PATCH", path, data=b"abc", headers=fields).status_code == 460, algorithm
    assert head(ferry, path, **TUS).headers["Upload-Offset"] == "0"
    right = ferry.call("POST", path, data=b"abc", headers=CHUNK | {
        "Upload-Offset": "0", "Upload-Checksum": checksum(b"abc", "crc32"), "X-HTTP-Method-Override": "PATCH"})
    assert right.status_code == 204 and right.headers["Upload-Offset"] == "3", right.text
    state = head(ferry, path, **TUS)
    assert state.headers["Upload-Defer-Length"] == "1" and "Upload-Length" not in state.headers
    unknown = ferry.call("PATCH", path, data=b"d", headers=CHUNK | {"Upload-Offset": "3", "Upload-Checksum": "crc AA=="})
    assert unknown.status_code == 400
    last = ferry.call("PATCH", path, data=b"def", headers=CHUNK | {"Upload-Offset": "3", "Upload-Length": "6"})
    assert last.status_code == 204 and last.headers["Upload-Offset"] == "6"
    assert ferry.call("GET", path).json()["sha256"] == sha256(b"abcdef")
    assert ferry.call("DELETE", path, headers=TUS).status_code == 204


def test_tus_concatenation(ferry):
    parts = []
    for piece in (DATA[:1_500_000], DATA[1_500_000:]):
        made = ferry.call("POST", "/v1/uploads", data=piece,
                          headers=CHUNK | {"Upload-Concat": "partial", "Upload-Length": str(len(piece))})
        assert made.status_code == 201 and made.headers["Upload-Offset"] == str(len(piece)), made.text
        parts.append(made.headers["Location"])
    final = ferry.call("POST", "/v1/uploads", headers=TUS | {"Upload-Concat": "final;" + " ".join(parts)})
    assert final.status_code == 201, final.text
    path = final.headers["Location"]
    assert ferry.call("GET", path).json()["sha256"] == sha256(DATA)
    assert head(ferry, path, **TUS).headers["Upload-Concat"] == "final;" + " ".join(parts)
    assert ferry.call("GET", path + "/content").content == DATA


def test_one_protocol_continues_another(ferry):
    made = ferry.call("POST", "/v1/uploads", data=b"abc", headers=CHUNK | {"Upload-Length": "6"})
    fields = {"Upload-Offset": "3", "Upload-Complete": "?1", "Content-Type": "application/partial-upload"}
    last = ferry.call("PATCH", made.headers["Location"], data=b"def", headers=fields)
    assert last.status_code == 200 and last.json()["sha256"] == sha256(b"abcdef")


# Jobs


def job(ferry: Ferry, receiver, upload: str, **fields) -> requests.Response:
    source = {"upload": upload} | fields
    return ferry.call("POST", "/v1/jobs", json={"kind": "upload", "source": source,
                                               "request": {"url": receiver.url + "/put", "method": "POST"}})


def ended(ferry: Ferry, identifier: str) -> dict:
    return eventually(60, lambda: (j := ferry.call("GET", f"/v1/jobs/{identifier}?", headers={"Prefer": "wait=10"}).json())
                      ["state"] in ("succeeded", "failed", "cancelled") and j, "the job ends")


def test_jobs_send_an_upload(ferry, receiver):
    upload = ferry.call("PUT", "/v1/uploads/source", data=DATA, headers={"Content-Type": "a/b"}).json()
    made = [job(ferry, receiver, name) for name in ("source", upload["id"])]
    made.append(job(ferry, receiver, "source", form={"field": "file"}))
    for one in made:
        assert one.status_code == 201, one.text
        assert one.json()["source"]["upload"] == upload["id"]
        assert ended(ferry, one.json()["id"])["state"] == "succeeded"
    bodies = [message.body for message in receiver.received("/put")]
    assert bodies.count(DATA) == 2 and any(DATA in body and body != DATA for body in bodies)
    unknown = job(ferry, receiver, "nothing")
    assert unknown.status_code == 422 and unknown.json()["errors"][0]["pointer"] == "#/source/upload"


def test_parts_send_uploads(ferry, receiver):
    first = ferry.call("PUT", "/v1/uploads/part-1", data=b"one", headers={"Content-Type": "a/b"}).json()
    ferry.call("PUT", "/v1/uploads/part-2", headers={"Upload-Complete": "?0", "Upload-Length": "3"})
    parts = [{"name": "a", "upload": "part-1"}, {"name": "t", "text": "x"},
             {"name": "b", "upload": "part-2", "file_name": "two.bin"}, {"name": "c", "upload": first["id"]}]
    def submit() -> requests.Response:
        return ferry.call("POST", "/v1/jobs", json={"kind": "data", "request": {
            "url": receiver.url + "/parts", "method": "POST", "body": {"multipart": parts}}})
    made = submit()
    assert made.status_code == 201, made.text
    shown = made.json()["request"]["body"]["multipart"]
    second = shown[2]["upload"]
    assert shown[0]["upload"] == shown[3]["upload"] == first["id"] and second.startswith("upl_")
    assert made.json()["waiting_for"] == "dependency"
    assert made.json()["schedule"]["depends_on"] == [{"upload": second}]
    assert ferry.call("DELETE", "/v1/uploads/part-1").json()["code"] == "in_use"
    fields = {"Upload-Offset": "0", "Upload-Complete": "?1", "Content-Type": "application/partial-upload"}
    assert ferry.call("PATCH", "/v1/uploads/part-2", data=b"two", headers=fields).status_code == 200
    assert ended(ferry, made.json()["id"])["state"] == "succeeded"
    body = receiver.received("/parts")[-1].body
    assert body.count(b"one") == 2 and b'name="a"; filename="part-1"' in body and b"Content-Type: a/b" in body
    assert b'name="b"; filename="two.bin"' in body and b"two" in body
    parts[2]["upload"] = "part-3"
    unknown = submit()
    assert unknown.status_code == 422
    assert unknown.json()["errors"][0]["pointer"] == "#/request/body/multipart/2/upload"


def test_schedules_look_up_names_at_each_run(ferry, receiver):
    def schedule(upload: str) -> requests.Response:
        return ferry.call("POST", "/v1/schedules", json={"interval": 86_400, "job": {
            "kind": "upload", "source": {"upload": upload},
            "request": {"url": receiver.url + "/nightly", "method": "POST"}}})
    made = schedule("nightly")
    assert made.status_code == 201 and made.json()["job"]["source"]["upload"] == "nightly", made.text
    run = f"/v1/schedules/{made.json()['id']}/run"
    missing = ferry.call("POST", run)
    assert missing.status_code == 409 and missing.json()["code"] == "upload_missing"
    for data in (b"first", b"second"):
        upload = ferry.call("PUT", "/v1/uploads/nightly", data=data).json()
        job = ferry.call("POST", run)
        assert job.status_code == 201 and job.json()["source"]["upload"] == upload["id"], job.text
        assert ended(ferry, job.json()["id"])["state"] == "succeeded"
        assert receiver.received("/nightly")[-1].body == data
        assert ferry.call("DELETE", "/v1/uploads/nightly").status_code == 204
    unknown = schedule(upload["id"])
    assert unknown.status_code == 422 and unknown.json()["errors"][0]["pointer"] == "#/job/source/upload"


def test_jobs_wait_for_an_incomplete_upload(ferry, receiver):
    ferry.call("PUT", "/v1/uploads/late", headers={"Upload-Complete": "?0", "Upload-Length": "6"})
    made = job(ferry, receiver, "late").json()
    assert made["state"] == "waiting" and made["waiting_for"] == "dependency", made
    assert ferry.call("DELETE", "/v1/uploads/late").json()["code"] == "in_use"
    fields = {"Upload-Offset": "0", "Upload-Complete": "?1", "Content-Type": "application/partial-upload"}
    assert ferry.call("PATCH", "/v1/uploads/late", data=b"abcdef", headers=fields).status_code == 200
    assert ended(ferry, made["id"])["state"] == "succeeded"
    assert receiver.received("/put")[-1].body == b"abcdef"
    assert ferry.call("DELETE", "/v1/uploads/late").status_code == 204


def test_jobs_of_a_deleted_upload_fail(ferry, receiver):
    ferry.call("PUT", "/v1/uploads/gone", headers={"Upload-Complete": "?0"})
    made = job(ferry, receiver, "gone").json()
    assert ferry.call("DELETE", "/v1/uploads/gone?force=true").status_code == 204
    failed = ended(ferry, made["id"])
    assert failed["state"] == "failed" and failed["error"]["code"] == "dependency_failed"
    assert ferry.call("POST", f"/v1/jobs/{made['id']}/retry").status_code == 422


# Memory


def resident(ferry: Ferry) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{ferry.process.pid}/status").read_text())[1]) << 10


def test_memory_of_many_uploads():
    """Sixty uploads at once: at most 1 MiB each."""
    count, size = 60, 8_000_000
    with running() as ferry, concurrent.futures.ThreadPoolExecutor(count) as pool:
        ferry.call("PUT", "/v1/uploads/first", data=bytes(size))
        before = resident(ferry)
        most = before
        futures = [pool.submit(ferry.call, "PUT", f"/v1/uploads/many-{n}", data=bytes(size)) for n in range(count)]
        while not all(one.done() for one in futures):
            most = max(most, resident(ferry))
            time.sleep(0.02)
        assert all(one.result().status_code == 201 for one in futures)
        assert most - before < count << 20, f"{(most - before) >> 20} MiB"

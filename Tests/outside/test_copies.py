"""Copies from one server to another: an upload whose source is a URL, and a download whose destination is one."""
from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import threading
import time

import pytest

from conftest import eventually, killed_and_started, running
from copy_servers import Server, serving
from object_jobs import ended, failed, run, submit, succeeded

DATA = os.urandom(3_000_000)
SOON = {"initial_delay": 0.05, "max_delay": 0.1, "max_attempts": 4}


@pytest.fixture()
def source():
    with serving() as server:
        server.files["/a.png"] = DATA
        yield server


@pytest.fixture()
def target():
    with serving() as server:
        yield server


def up(source: Server, target: Server, *, place: dict | None = None, **fields) -> dict:
    return {"kind": "upload", "source": {"url": f"{source.url}/a.png"} | (place or {}),
            "request": {"url": f"{target.url}/b"}, "retry": SOON} | fields


def down(source: Server, target: Server, *, place: dict | None = None, **fields) -> dict:
    return {"kind": "download", "request": {"url": f"{source.url}/a.png"}, "retry": SOON,
            "destination": {"url": f"{target.url}/b"} | (place or {})} | fields


BOTH = pytest.mark.parametrize("copy", [up, down])


@BOTH
@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_a_copy_has_the_bytes_of_its_source(ferry, source, target, copy, size):
    source.files["/a.png"] = DATA[:size]
    job = succeeded(ferry, copy(source, target))
    assert target.files["/b"] == DATA[:size]
    result = job["result"]
    assert (result["size"], result["sha256"]) == (size, hashlib.sha256(DATA[:size]).hexdigest())
    sent = target.of("PUT")[0]
    assert sent.headers["content-type"] == "image/png" and sent.headers["content-length"] == str(size)
    assert job["progress"]["bytes_sent"] == size
    assert copy is up or job["progress"]["bytes_received"] == size
    assert len(source.got) == len(target.got) == 1


def test_a_download_tells_where_its_copy_is_and_keeps_no_content(ferry, source, target):
    job = succeeded(ferry, down(source, target))
    assert job["result"]["url"] == f"{target.url}/b" and job["result"]["etag"] == '"kept"'
    assert job["result"]["content_url"] is None and job["result"]["path"] is None
    assert ferry.call("GET", f"/v1/jobs/{job['id']}/content").status_code == 404
    assert job["destination"] == {"url": f"{target.url}/b", "method": "PUT", "if_exists": "replace"}


def test_an_upload_keeps_the_response_of_its_target(ferry, source, target):
    job = succeeded(ferry, up(source, target))
    assert job["result"]["body"] == "kept\n" and job["source"] == {"url": f"{source.url}/a.png", "form": None}


@BOTH
def test_a_length_that_the_source_does_not_tell(ferry, source, target, copy):
    source.is_chunked = True
    job = succeeded(ferry, copy(source, target))
    assert target.files["/b"] == DATA and job["result"]["size"] == len(DATA)
    assert target.of("PUT")[0].headers["transfer-encoding"] == "chunked"


@BOTH
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("size", [0, 70_000, 3_000_000, 40_000_000])
def test_a_length_that_the_target_demands(ferry, source, target, copy, when, size):
    """The file is fetched once more, to the disk, and sent from there."""
    source.files["/a.png"] = whole = os.urandom(size)
    source.is_chunked, target.demands_length = True, when
    job = succeeded(ferry, copy(source, target))
    assert target.files["/b"] == whole and job["result"]["sha256"] == hashlib.sha256(whole).hexdigest()
    assert job["result"]["spooled_bytes"] == size == job["result"]["size"] and job["attempt"] == 1
    assert len(source.got) == 2 and target.of("PUT")[-1].headers["content-length"] == str(size)
    assert target.of("PUT")[-1].headers["content-type"] == "image/png"
    left = [path for path in ferry.data.rglob("*") if path.is_file() and path.stat().st_size == size > 1_000]
    assert left == []


@BOTH
def test_a_file_on_the_disk_is_verified_and_sent_again(ferry, source, target, copy):
    """A redirect, and a source that breaks off, while the file is on the disk."""
    source.is_chunked, target.demands_length = True, "after"
    source.cuts = [len(DATA), 1_000_000]
    target.statuses["/b"] = [(307, {"Location": "/c"})]
    job = succeeded(ferry, copy(source, target))
    assert target.files["/c"] == DATA and job["result"]["spooled_bytes"] == len(DATA)
    source.cuts, source.tag = [], '"other"'
    wrong = copy(source, target, integrity={"sha256": "0" * 64}, retry={"max_attempts": 1})
    failed(ferry, wrong, "digest_mismatch", "")


def test_each_end_has_its_own_fields_and_credentials(ferry, source, target):
    secret = {"headers": {"X-Api-Key": "source-key", "X-Plain": "s"}, "auth": {"type": "basic", "user": "u", "password": "pw"}}
    own = {"url": f"{target.url}/b", "headers": {"Authorization": "Bearer target", "X-Own": "t"}}
    job = succeeded(ferry, up(source, target, place=secret, request=own))
    asked, sent = source.got[0].headers, target.got[0].headers
    assert asked["authorization"] == "Basic " + base64.b64encode(b"u:pw").decode()
    assert asked["x-api-key"] == "source-key" and asked["x-plain"] == "s" and "x-own" not in asked
    assert sent["authorization"] == "Bearer target" and sent["x-own"] == "t"
    assert "x-api-key" not in sent and "x-plain" not in sent
    assert job["source"]["headers"] == {"X-Api-Key": {"set": True}, "X-Plain": "s"}
    assert job["source"]["auth"]["password"] == {"set": True} and "source-key" not in str(job) and "pw" not in str(job)

    place = {"method": "POST", "headers": {"X-Auth-Token": "target-key"}, "auth": {"type": "bearer", "token": "tt"}}
    own = {"url": f"{source.url}/a.png", "headers": {"Cookie": "c=1"}}
    job = succeeded(ferry, down(source, target, place=place, request=own))
    asked, sent = source.got[1].headers, target.of("POST")[0].headers
    assert asked["cookie"] == "c=1" and "x-auth-token" not in asked and "authorization" not in asked
    assert sent["authorization"] == "Bearer tt" and sent["x-auth-token"] == "target-key" and "cookie" not in sent
    assert "target-key" not in str(job) and job["destination"]["auth"]["token"] == {"set": True}


@BOTH
def test_redirects_at_both_ends(ferry, source, target, copy):
    source.files["/there"] = source.files["/a.png"]
    source.statuses["/a.png"] = 2 * [(302, {"Location": "/there"})]
    target.statuses["/b"] = [(307, {"Location": "/c"})]
    succeeded(ferry, copy(source, target))
    assert target.files["/c"] == DATA and [one.path for one in target.got] == ["/b", "/c"]
    # The body goes out again: the source is read again, and must be the same.
    again = [one for one in source.got if one.path == "/there"]
    assert len(again) == 2 and again[1].headers["if-match"] == '"one"'


@BOTH
@pytest.mark.parametrize("chunked", [False, True])
def test_a_source_that_breaks_off_continues(ferry, source, target, copy, chunked):
    source.is_chunked = chunked
    source.cuts = [1_000_000, 500_000]
    job = succeeded(ferry, copy(source, target))
    assert target.files["/b"] == DATA and len(target.got) == 1 and job["attempt"] == 1
    # Without a length the last byte is requested again: it might be the file's last.
    asked = ["bytes=999999-", "bytes=1499998-"] if chunked else ["bytes=1000000-", "bytes=1500000-"]
    assert [one.headers.get("range") for one in source.got] == [None, *asked]


@BOTH
def test_a_source_without_entity_tag_is_read_from_the_beginning(ferry, source, target, copy):
    source.tag = None
    source.cuts = [1_000_000]
    succeeded(ferry, copy(source, target))
    assert target.files["/b"] == DATA and all("range" not in one.headers for one in source.got)


def test_a_file_that_changes_is_not_mixed(ferry, source, target):
    source.cuts = [1_000_000]
    source.gate = threading.Event()
    job = submit(ferry, up(source, target))
    eventually(30, lambda: source.got, "the source is asked")
    source.gate.set()
    # Its continuation finds another file.
    source.tag, source.files["/a.png"] = '"two"', DATA[::-1]
    assert ended(ferry, job["id"])["state"] == "succeeded"
    assert target.files["/b"] in (DATA, DATA[::-1])
    assert all(one.body in (DATA, DATA[::-1]) for one in target.got if one.is_whole)


@BOTH
def test_a_source_that_is_not_there(ferry, source, target, copy):
    del source.files["/a.png"]
    job = failed(ferry, copy(source, target), "unacceptable_status", "At the source")
    assert not target.got and job["response"]["status"] == 404
    assert job["response"]["body_excerpt"] == "no such file\n"


@BOTH
def test_a_source_that_is_busy_is_asked_again(ferry, source, target, copy):
    source.statuses["/a.png"] = [(503, {"Retry-After": "1"})]
    job = succeeded(ferry, copy(source, target))
    assert target.files["/b"] == DATA and job["attempt"] == 2 and len(target.got) == 1


@BOTH
def test_a_target_that_is_busy_is_asked_again(ferry, source, target, copy):
    target.statuses["/b"] = [(503, {})]
    succeeded(ferry, copy(source, target))
    assert target.files["/b"] == DATA and len(target.got) == 2


@BOTH
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("announced", [False, True])
def test_wrong_bytes_never_arrive_whole(ferry, source, target, copy, chunked, announced):
    source.is_chunked = chunked
    wrong = hashlib.sha256(b"other").digest()
    fields = {"retry": {"max_attempts": 1}}
    if announced:
        source.fields["Repr-Digest"] = f"sha-256=:{base64.b64encode(wrong).decode()}:"
    else:
        fields["integrity"] = {"sha256": wrong.hex()}
    failed(ferry, copy(source, target, **fields), "digest_mismatch", "")
    assert target.got and not any(one.is_whole for one in target.got) and "/b" not in target.files


@BOTH
def test_the_right_digest_is_a_proof(ferry, source, target, copy):
    job = succeeded(ferry, copy(source, target, integrity={"sha256": hashlib.sha256(DATA).hexdigest(), "size": len(DATA)}))
    assert job["result"]["verified"] == "digest"


def test_a_file_that_exists_is_kept(ferry, source, target):
    target.files["/b"] = b"before"
    failed(ferry, down(source, target, place={"if_exists": "fail"}), "destination_exists", "")
    assert target.files["/b"] == b"before"
    del target.files["/b"]
    succeeded(ferry, down(source, target, place={"if_exists": "fail"}))


def test_a_post_that_may_have_arrived_is_not_sent_again(ferry, source, target):
    target.statuses["/b"] = [(503, {})]
    job = run(ferry, down(source, target, place={"method": "POST"}))
    assert job["state"] == "failed" and len(target.got) == 1
    source.cuts = [1_000_000]
    source.tag = None
    job = run(ferry, down(source, target, place={"method": "POST"}))
    assert job["state"] == "failed" and len(target.got) == 2 and "non_idempotent" not in target.files


@BOTH
def test_a_cancelled_copy_closes_both_ends(ferry, source, target, copy):
    target.gate = threading.Event()
    source.files["/a.png"] = os.urandom(30_000_000)
    job = submit(ferry, copy(source, target))
    eventually(30, lambda: target.got, "the target is asked")
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/cancel").status_code in (200, 202)
    assert ended(ferry, job["id"])["state"] == "cancelled"
    target.gate.set()
    eventually(30, lambda: not target.got[0].is_whole, "the target's connection ends")


def test_an_object_of_a_store_is_copied(ferry, judge, target):
    bucket = judge.new_bucket()
    judge.client().put_object(Bucket=bucket, Key="a b", Body=DATA, ContentType="image/gif")
    job = succeeded(ferry, {"kind": "download", "source": {"s3": judge.object(bucket, "a b")}, "retry": SOON,
                            "destination": {"url": f"{target.url}/b"}})
    sent = target.of("PUT")[0]
    assert target.files["/b"] == DATA and sent.headers["content-type"] == "image/gif"
    assert "authorization" not in sent.headers and not any(name.startswith("x-amz") for name in sent.headers)
    assert job["result"]["sha256"] == hashlib.sha256(DATA).hexdigest()
    lost = run(ferry, {"kind": "download", "source": {"s3": judge.object(bucket, "none")}, "retry": SOON,
                       "destination": {"url": f"{target.url}/c"}})
    assert lost["state"] == "failed" and "key" in lost["error"]["message"], lost["error"]
    assert len(target.got) == 1


@pytest.mark.parametrize("hosts", [1, 2])
def test_copies_go_on_beside_a_queue_of_other_jobs(ferry, hosts):
    """Each needs two connections, of the six that its session has to a host."""
    with serving() as one, serving() as two:
        places = (one, two) if hosts == 2 else (one, one)
        for server in set(places):
            server.files["/a.png"] = DATA[:100_000]
        jobs = []
        for number in range(40):
            source, target = places if number % 4 < 2 else places[::-1]
            copy = up if number % 2 else down
            place = {"url": f"{target.url}/{number}"}
            fields = {"request": place} if copy is up else {"place": place}
            jobs.append(copy(source, target, **fields))
            jobs += [{"kind": "data", "request": {"url": f"{server.url}/a.png"}} for server in places]
        made = ferry.call("POST", "/v1/jobs/batch", json={"jobs": jobs})
        assert made.status_code == 201, made.text
        began = time.monotonic()
        for job in made.json()["data"]:
            assert (shown := ended(ferry, job["id"]))["state"] == "succeeded", shown["error"]
        assert time.monotonic() - began < 60
        assert all(server.most <= 6 for server in places), [server.most for server in places]


def memory(process) -> int:
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


def test_memory_does_not_grow_with_the_file(source, target):
    with running() as own:
        succeeded(own, up(source, target))
        source.files["/a.png"] = os.urandom(200_000_000)
        target.gate = threading.Event()
        before = memory(own.process)
        jobs = [submit(own, up(source, target, request={"url": f"{target.url}/{number}"})) for number in range(4)]
        eventually(60, lambda: len(target.got) == 5, "all targets are asked")
        grown = memory(own.process) - before
        target.gate.set()
        assert all(ended(own, job["id"])["state"] == "succeeded" for job in jobs)
        assert max(grown, memory(own.process) - before) < 4 * 4 << 20
        assert target.files["/3"] == source.files["/a.png"]


def test_a_killed_node_continues_its_upload(source):
    """The target speaks tus: Ferry itself."""
    source.files["/a.png"] = whole = os.urandom(40_000_000)
    with running() as target, running(status=-9) as own:
        request = {"url": f"{target.url}/v1/uploads", "method": "POST", "resumable_upload": "tus",
                   "auth": {"type": "bearer", "token": target.key}}
        job = submit(own, up(source, source, request=request, network={"max_bytes_per_second": 8_000_000}))

        def sent() -> int:
            return own.call("GET", f"/v1/jobs/{job['id']}").json()["progress"]["bytes_sent"]

        eventually(60, lambda: sent() > 10_000_000, "ten megabytes are sent")
        second = killed_and_started(own)
        try:
            own.call("PATCH", f"/v1/jobs/{job['id']}", json={"network": {"max_bytes_per_second": None}})
            shown = ended(own, job["id"])
            assert shown["state"] == "succeeded", shown["error"]
            assert shown["result"]["resumed_at_offset"] > 0
            assert shown["result"]["sha256"] == hashlib.sha256(whole).hexdigest()
            uploads = target.call("GET", "/v1/uploads").json()["data"]
            assert [(one["offset"], one["sha256"]) for one in uploads] == [(len(whole), shown["result"]["sha256"])]
        finally:
            second.kill()
            second.wait()


@pytest.mark.parametrize("job, pointer, code", [
    ({"kind": "upload", "source": {"url": "http://127.0.0.1/a", "path": "b"}}, "#/source", "invalid_combination"),
    ({"kind": "upload", "source": {"url": "ftp://127.0.0.1/a"}}, "#/source/url", "invalid_value"),
    ({"kind": "upload", "source": {"url": "http://10.1.2.3/a"}}, "#/source/url", "blocked_address"),
    ({"kind": "upload", "source": {"url": 7}}, "#/source/url", "wrong_type"),
    ({"kind": "upload", "source": {"path": "a", "headers": {"A": "b"}}}, "#/source/headers", "invalid_combination"),
    ({"kind": "upload", "source": {"path": "a", "auth": {"type": "basic", "user": "u", "password": "p"}}},
     "#/source/auth", "invalid_combination"),
    ({"kind": "upload", "source": {"url": "http://127.0.0.1/a", "headers": {"Range": "bytes=1-"}}},
     "#/source/headers/Range", "invalid_value"),
    ({"kind": "upload", "source": {"url": "http://127.0.0.1/a", "method": "POST"}}, "#/source/method", "unknown_field"),
    ({"kind": "upload", "source": {"url": "http://127.0.0.1/a", "form": {}}}, "#/source/form", "invalid_combination"),
    ({"kind": "upload", "source": {"text": "a"}, "destination": {"url": "http://127.0.0.1/b"}},
     "#/destination/url", "not_supported"),
    ({"kind": "download", "source": {"url": "http://127.0.0.1/a"}}, "#/source/url", "not_supported"),
    ({"kind": "download", "destination": {"url": "http://127.0.0.1/b", "path": "c"}}, "#/destination", "invalid_combination"),
    ({"kind": "download", "destination": {"url": "http://127.0.0.1/b", "method": "GET"}},
     "#/destination/method", "invalid_value"),
    ({"kind": "download", "destination": {"url": "http://127.0.0.1/b", "if_exists": "rename"}},
     "#/destination/if_exists", "not_supported"),
    ({"kind": "download", "destination": {"url": "http://127.0.0.1/b"}, "segments": 2}, "#/segments", "invalid_combination"),
    ({"kind": "download", "destination": {"url": "http://127.0.0.1/b"}, "on_challenge": "ask"},
     "#/on_challenge", "invalid_combination"),
    ({"kind": "data", "destination": {"url": "http://127.0.0.1/b"}}, "#/destination/url", "not_supported"),
])
def test_bad_input_is_refused(ferry, job, pointer, code):
    answer = ferry.call("POST", "/v1/jobs", json={"request": {"url": "http://127.0.0.1:1/"}} | job)
    assert answer.status_code == 422, answer.text
    assert (pointer, code) in [(one["pointer"], one["code"]) for one in answer.json()["errors"]], answer.text


def test_a_destination_of_a_copy_stays(ferry, source, target):
    job = submit(ferry, down(source, target, suspended=True))
    for place in ({"path": "x"}, None):
        answer = ferry.call("PATCH", f"/v1/jobs/{job['id']}", json={"destination": place})
        assert answer.status_code == 422, answer.text


def test_a_retry_respects_the_policy_of_today_at_both_ends():
    with running(FERRY_EGRESS_ALLOW="127.0.0.0/8, 10.1.2.3/32") as first:
        here, there = "http://127.0.0.1:9/", "http://10.1.2.3:9/"
        jobs = [submit(first, job | {"suspended": True}) for job in (
            {"kind": "upload", "source": {"url": there}, "request": {"url": here}},
            {"kind": "download", "destination": {"url": there}, "request": {"url": here}},
            {"kind": "download", "destination": {"s3": {"bucket": "bucket", "key": "k", "endpoint": there}},
             "request": {"url": here}})]
        for job in jobs:
            assert first.call("POST", f"/v1/jobs/{job['id']}/cancel").status_code in (200, 202)
        first.process.terminate()
        assert first.process.wait(60) == 0
        with running(FERRY_DATA_DIR=str(first.data)) as second:
            for job, pointer in zip(jobs, ("#/source", "#/destination", "#/destination")):
                answer = second.call("POST", f"/v1/jobs/{job['id']}/retry")
                assert answer.status_code == 422, answer.text
                error, = answer.json()["errors"]
                assert (error["pointer"], error["code"]) == (pointer, "blocked_address")

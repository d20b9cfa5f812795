"""Copies from and to objects of stores: from a server or another store to a store, and from a store to a server."""
from __future__ import annotations

import hashlib
import os
import threading

import pytest

from conftest import Ferry, eventually, killed_and_started, running
from copy_servers import Server, serving
from memory_store import Answer, checksum
from multipart_store import MultipartStore, begun, error_in_200, etag_of_parts, multipart_store, once, refuse_until, stalled
from object_jobs import ended, failed, run, submit, succeeded

PART = 8 << 20
# 6 parts, more than are in memory at once.
LARGE = os.urandom((40 << 20) + 12_345)
PARTS = [LARGE[start:start + PART] for start in range(0, len(LARGE), PART)]
SMALL = os.urandom(70_000)
# Of unknown length, a copy has larger parts: 3 of them.
OPEN_PARTS = [LARGE[start:start + (16 << 20)] for start in range(0, len(LARGE), 16 << 20)]
SOON = {"initial_delay": 0.05, "max_delay": 0.1, "max_attempts": 4}


@pytest.fixture()
def source():
    with serving() as server:
        server.files["/a.png"] = LARGE
        yield server


@pytest.fixture()
def memory():
    with multipart_store() as server:
        yield server
        assert server.faults == []


def up(source: Server, place: dict, *, if_exists: str | None = None, **fields) -> dict:
    rule = {"if_exists": if_exists} if if_exists else {}
    return {"kind": "upload", "source": {"url": f"{source.url}/a.png"}, "destination": {"s3": place} | rule,
            "retry": SOON} | fields


def down(source: Server, place: dict, *, if_exists: str | None = None, **fields) -> dict:
    rule = {"if_exists": if_exists} if if_exists else {}
    return {"kind": "download", "request": {"url": f"{source.url}/a.png"}, "destination": {"s3": place} | rule,
            "retry": SOON} | fields


BOTH = pytest.mark.parametrize("copy", [up, down])
CHUNKED = pytest.mark.parametrize("chunked", [False, True])


def is_whole(memory: MultipartStore, data: bytes = LARGE) -> bool:
    """The object is there, and no upload is left."""
    return memory.objects.get("/bucket/k") == data and not memory.uploads


# Stores that other people wrote


@BOTH
@pytest.mark.parametrize("name", ["judge", "weed"])
@pytest.mark.parametrize("size", [0, 1, 70_000, PART, PART + 1, len(LARGE)])
def test_a_file_of_a_server_becomes_an_object(ferry, request, source, name, copy, size):
    store = request.getfixturevalue(name)
    bucket = store.new_bucket()
    source.files["/a.png"] = LARGE[:size]
    job = succeeded(ferry, copy(source, store.object(bucket, "a b/k", metadata={"a": "1"})))
    there = store.client().get_object(Bucket=bucket, Key="a b/k")
    assert there["Body"].read() == LARGE[:size] and there["ContentType"] == "image/png"
    assert there["Metadata"] == {"a": "1"} and there["ETag"] == job["result"]["etag"]
    assert (job["result"]["size"], job["result"]["sha256"]) == (size, hashlib.sha256(LARGE[:size]).hexdigest())
    assert job["result"]["url"] == f"{store.url}/{bucket}/a%20b/k" and job["result"]["content_url"] is None
    assert job["progress"]["bytes_sent"] == size
    assert copy is up or job["progress"]["bytes_received"] == size
    assert store.client().list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert len(source.got) == 1


@pytest.mark.parametrize("kind", ["upload", "download"])
@pytest.mark.parametrize("size", [70_000, len(LARGE)])
def test_an_object_goes_from_store_to_store(ferry, judge, weed, kind, size):
    first, second = judge.new_bucket(), weed.new_bucket()
    judge.client().put_object(Bucket=first, Key="a", Body=LARGE[:size], ContentType="text/csv")
    job = succeeded(ferry, {"kind": kind, "source": {"s3": judge.object(first, "a")},
                            "destination": {"s3": weed.object(second, "b")}, "retry": SOON})
    there = weed.client().get_object(Bucket=second, Key="b")
    assert there["Body"].read() == LARGE[:size] and there["ContentType"] == "text/csv"
    assert job["result"]["url"] == f"{weed.url}/{second}/b"
    own = weed.url if kind == "upload" else judge.url
    assert job["request"]["url"].startswith(own + "/")
    assert judge.credential["secret_access_key"] not in str(job) and "secret" not in str(job["request"])
    assert job["source"]["s3"]["credential"]["secret_access_key"] == {"set": True}
    assert job["destination"]["s3"]["credential"]["secret_access_key"] == {"set": True}


@pytest.mark.parametrize("size", [70_000, len(LARGE)])
def test_an_upload_fetches_an_object(ferry, judge, source, size):
    bucket = judge.new_bucket()
    judge.client().put_object(Bucket=bucket, Key="a", Body=LARGE[:size], ContentType="text/csv")
    succeeded(ferry, {"kind": "upload", "source": {"s3": judge.object(bucket, "a")},
                      "request": {"url": f"{source.url}/b"}, "retry": SOON})
    sent, = source.of("PUT")
    assert source.files["/b"] == LARGE[:size] and sent.headers["content-type"] == "text/csv"
    assert not any(name.startswith("x-amz") or name == "authorization" for name in sent.headers)


def test_an_upload_whose_object_is_missing(ferry, judge, source):
    bucket = judge.new_bucket()
    job = failed(ferry, {"kind": "upload", "source": {"s3": judge.object(bucket, "a")},
                         "request": {"url": f"{source.url}/b"}}, "unacceptable_status", "key")
    assert not source.got and job["response"]["status"] == 404


@BOTH
def test_a_wrong_key_of_the_target(ferry, judge, source, copy):
    bucket = judge.new_bucket()
    place = judge.object(bucket, "k") | {"credential": judge.credential | {"secret_access_key": "wrong"}}
    for size in (70_000, len(LARGE)):
        source.files["/a.png"] = LARGE[:size]
        failed(ferry, copy(source, place), "authentication_required", "SignatureDoesNotMatch")
    assert judge.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@BOTH
@pytest.mark.parametrize("size", [70_000, len(LARGE)])
def test_an_object_that_exists_is_kept(ferry, weed, source, copy, size):
    bucket = weed.new_bucket()
    weed.client().put_object(Bucket=bucket, Key="k", Body=b"before")
    source.files["/a.png"] = LARGE[:size]
    failed(ferry, copy(source, weed.object(bucket, "k"), if_exists="fail"), "destination_exists", "")
    assert weed.client().get_object(Bucket=bucket, Key="k")["Body"].read() == b"before"
    assert weed.client().list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    succeeded(ferry, copy(source, weed.object(bucket, "k2"), if_exists="fail"))


# A store in memory, whose requests are verified and spoilt


@BOTH
@CHUNKED
def test_requests(ferry, memory, source, copy, chunked):
    source.is_chunked = chunked
    job = succeeded(ferry, copy(source, memory.store.object("bucket", "k")))
    parts = OPEN_PARTS if chunked else PARTS
    assert is_whole(memory) and memory.kinds() == ["create", "part", "complete"]
    assert sorted(memory.kinds("part")) == [*range(1, len(parts) + 1)]
    assert job["result"]["etag"] == etag_of_parts(parts) and job["result"]["version_id"] == "v1"
    assert memory.requests("POST")[0]["content-type"] == "image/png"


@BOTH
@CHUNKED
@pytest.mark.parametrize("size", [0, 70_000, PART])
def test_small_objects_have_one_request(ferry, memory, source, copy, chunked, size):
    source.is_chunked, source.files["/a.png"] = chunked, LARGE[:size]
    succeeded(ferry, copy(source, memory.store.object("bucket", "k")))
    assert memory.kinds() == ["put"] and is_whole(memory, LARGE[:size])


@pytest.mark.parametrize("size", [70_000, len(LARGE)])
@pytest.mark.parametrize("algorithm", ["sha256", "crc32c", "crc64nvme"])
def test_checksums(ferry, memory, source, algorithm, size):
    source.files["/a.png"] = LARGE[:size]
    succeeded(ferry, down(source, memory.store.object("bucket", "k", checksum=algorithm)))
    assert is_whole(memory, LARGE[:size])
    if size > PART and algorithm != "sha256":
        assert memory.checksums["/bucket/k"][f"x-amz-checksum-{algorithm}"] == checksum(algorithm, LARGE)


def test_no_more_is_fetched_than_memory_holds(ferry, memory, source):
    gate = threading.Event()
    memory.spoil = lambda kind, number, request: gate.wait(60) and None if kind == "part" else None
    job = submit(ferry, down(source, memory.store.object("bucket", "k")))
    eventually(60, lambda: memory.running >= 2, "parts wait")

    def fetched() -> int:
        return ferry.call("GET", f"/v1/jobs/{job['id']}").json()["progress"]["bytes_received"]

    most = eventually(60, lambda: fetched() > 3 * PART and fetched(), "the memory is full")
    assert most <= 4 * PART
    gate.set()
    assert ended(ferry, job["id"])["state"] == "succeeded" and is_whole(memory)


@BOTH
@CHUNKED
def test_a_source_that_breaks_off_continues(ferry, memory, source, copy, chunked):
    source.is_chunked, source.cuts = chunked, [10_000_000, 15_000_000]
    job = succeeded(ferry, copy(source, memory.store.object("bucket", "k")))
    assert is_whole(memory) and job["attempt"] == 1 and len(memory.kinds("create")) == 1
    assert len(source.got) == 3


@BOTH
def test_a_source_that_is_not_there(ferry, memory, source, copy):
    del source.files["/a.png"]
    job = failed(ferry, copy(source, memory.store.object("bucket", "k")), "unacceptable_status", "At the source")
    assert memory.log == [] and job["response"]["status"] == 404


@BOTH
def test_a_source_that_fails_in_the_middle(ferry, memory, source, copy):
    """It has no validator: another attempt begins anew, and the upload of the first is removed."""
    source.tag, source.cuts = None, [10_000_000]
    job = succeeded(ferry, copy(source, memory.store.object("bucket", "k")))
    assert is_whole(memory) and job["attempt"] == 2


@BOTH
@CHUNKED
@pytest.mark.parametrize("size", [70_000, len(LARGE)])
def test_wrong_bytes_never_become_an_object(ferry, memory, source, copy, chunked, size):
    source.is_chunked, source.files["/a.png"] = chunked, LARGE[:size]
    fields = {"integrity": {"sha256": "0" * 64}, "retry": {"max_attempts": 1}}
    failed(ferry, copy(source, memory.store.object("bucket", "k"), **fields), "digest_mismatch", "")
    assert memory.objects == {} and memory.uploads == {} and "complete" not in memory.kinds()


@BOTH
def test_the_right_digest_is_a_proof(ferry, memory, source, copy):
    integrity = {"sha256": hashlib.sha256(LARGE).hexdigest(), "size": len(LARGE)}
    job = succeeded(ferry, copy(source, memory.store.object("bucket", "k"), integrity=integrity))
    assert job["result"]["verified"] == "digest"


@pytest.mark.parametrize("answer", [Answer(0), Answer(503, "SlowDown"), Answer(400, "BadDigest")],
                         ids=["cut", "slow-down", "bad-digest"])
def test_a_failed_part_is_sent_again(ferry, memory, source, answer):
    memory.spoil = once("part", answer, 2, 2)
    job = succeeded(ferry, down(source, memory.store.object("bucket", "k")))
    assert is_whole(memory) and memory.kinds("part").count(2) >= 3 and job["attempt"] == 1
    assert len(source.got) == 1


@BOTH
@pytest.mark.parametrize("kind, number", [("part", 5), ("complete", None)])
def test_a_lost_upload_begins_anew(ferry, memory, source, copy, kind, number):
    """The parts that the store has lost are no longer in memory: the source is fetched again."""
    def lose(_):
        memory.uploads.clear()
        return Answer(404, "NoSuchUpload")

    memory.spoil = once(kind, lose, number)
    succeeded(ferry, copy(source, memory.store.object("bucket", "k")))
    assert is_whole(memory) and len(memory.kinds("create")) == 2 and len(source.got) == 2


@pytest.mark.parametrize("answer", [error_in_200("InternalError"), Answer(503, "SlowDown"), Answer(0)],
                         ids=["200", "503", "cut"])
def test_a_completion_that_fails_is_sent_again(ferry, memory, source, answer):
    memory.spoil = once("complete", answer)
    succeeded(ferry, down(source, memory.store.object("bucket", "k")))
    assert is_whole(memory) and len(memory.kinds("part")) == 6 and len(source.got) == 1


def test_the_next_attempt_finds_the_completed_object(ferry, memory, source):
    memory.spoil_after = once("complete", Answer(503, "SlowDown"))
    # An attempt does not wait so long.
    job = succeeded(ferry, down(source, memory.store.object("bucket", "k"), retry={"initial_delay": 7}))
    assert is_whole(memory) and job["result"]["etag"] == etag_of_parts(PARTS) and job["attempt"] == 2
    assert len(memory.kinds("part")) == 6 and memory.kinds()[-1] == "look"


@CHUNKED
def test_an_object_of_a_lost_response_is_ones_own(ferry, memory, source, chunked):
    """A copy of unknown length begins anew, and finds the object that its first attempt has made."""
    source.is_chunked, memory.spoil_after = chunked, once("complete", Answer(503, "SlowDown"))
    # An attempt does not wait so long.
    copy = down(source, memory.store.object("bucket", "k"), if_exists="fail", retry={"initial_delay": 7})
    job = succeeded(ferry, copy)
    assert is_whole(memory) and job["attempt"] == 2 and memory.kinds("look")


@CHUNKED
def test_the_object_of_another_writer_is_kept(ferry, memory, source, chunked):
    def replace(_):
        memory.uploads.clear()
        memory.objects["/bucket/k"], memory.tags["/bucket/k"] = LARGE[::-1], '"' + "1" * 32 + '-6"'
        return Answer(503, "SlowDown")

    source.is_chunked, memory.spoil = chunked, once("complete", replace)
    copy = down(source, memory.store.object("bucket", "k"), if_exists="fail", retry={"initial_delay": 7})
    failed(ferry, copy, "destination_exists", "")
    assert memory.objects["/bucket/k"] == LARGE[::-1] and not memory.uploads


@BOTH
def test_a_cancelled_copy_leaves_no_upload(ferry, memory, source, copy):
    released = stalled(memory, 2)
    job = submit(ferry, copy(source, memory.store.object("bucket", "k")))
    begun(memory, 2)
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/cancel").status_code in (200, 202)
    released.set()
    shown = ended(ferry, job["id"])
    assert shown["state"] == "cancelled" and memory.uploads == {} and memory.objects == {}


@BOTH
def test_killed_between_parts(memory, source, copy):
    """The next attempt fetches the file again, and sends only the parts that the store lacks."""
    with running(status=-9) as ferry:
        released = stalled(memory, 2)
        job = submit(ferry, copy(source, memory.store.object("bucket", "k")))
        begun(memory, 2)
        there = set(next(iter(memory.uploads.values())).parts)
        refuse_until(memory, "list", released)
        second = killed_and_started(ferry)
        released.set()
        shown = ended(ferry, job["id"])
        assert shown["state"] == "succeeded", shown["error"]
        after = memory.log[memory.log.index(("list", 0)):]
        assert is_whole(memory) and after[-1] == ("complete", 0)
        assert {number for kind, number in after if kind == "part"} == {1, 2, 3, 4, 5, 6} - there
        assert shown["result"]["resumed_at_offset"] == sum(len(PARTS[number - 1]) for number in there)
        assert shown["result"]["sha256"] == hashlib.sha256(LARGE).hexdigest()
        second.terminate()
        assert second.wait(60) == 0


def test_a_killed_copy_of_unknown_length_begins_anew(memory, source):
    """The upload of the first process is removed."""
    source.is_chunked = True
    with running(status=-9) as ferry:
        released = stalled(memory, 1)
        job = submit(ferry, down(source, memory.store.object("bucket", "k")))
        begun(memory, 1)
        refuse_until(memory, "abort", released)
        second = killed_and_started(ferry)
        released.set()
        shown = ended(ferry, job["id"])
        assert shown["state"] == "succeeded", shown["error"]
        assert is_whole(memory) and len(memory.kinds("create")) == 2 and len(memory.kinds("abort")) == 1
        second.terminate()
        assert second.wait(60) == 0


def suspended(ferry: Ferry, memory: MultipartStore, copy: dict) -> dict:
    """A copy that was suspended after two parts; the store takes the others from then on."""
    released = stalled(memory, 2)
    job = submit(ferry, copy)
    begun(memory, 2)
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/suspend").status_code in (200, 202)
    eventually(30, lambda: ferry.call("GET", f"/v1/jobs/{job['id']}").json()["state"] == "suspended", "suspended")
    memory.spoil = lambda kind, number, request: None
    released.set()
    return job


def test_a_suspended_copy_goes_on(ferry, memory, source):
    job = suspended(ferry, memory, down(source, memory.store.object("bucket", "k")))
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/resume").status_code in (200, 202)
    shown = ended(ferry, job["id"])
    assert shown["state"] == "succeeded" and is_whole(memory) and len(memory.kinds("create")) == 1


@BOTH
def test_a_copy_that_is_cancelled_while_it_is_suspended_leaves_no_upload(ferry, memory, source, copy):
    job = suspended(ferry, memory, copy(source, memory.store.object("bucket", "k")))
    assert len(memory.uploads) == 1
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/cancel").status_code in (200, 202)
    eventually(30, lambda: not memory.uploads, "the upload is removed")


def test_many_copies_at_once(ferry, memory, source):
    jobs = [submit(ferry, down(source, memory.store.object("bucket", f"k{number}"))) for number in range(6)]
    assert [ended(ferry, job["id"])["state"] for job in jobs] == ["succeeded"] * 6
    assert all(memory.objects[f"/bucket/k{number}"] == LARGE for number in range(6)) and not memory.uploads


# Input


def test_a_public_bucket_needs_no_key(ferry, source):
    """The request is not signed, so that the bytes pass as they come."""
    source.files["/a.png"] = SMALL
    place = {"bucket": "bucket", "key": "k", "endpoint": source.url}
    succeeded(ferry, down(source, place))
    assert source.files["/bucket/k"] == SMALL


@pytest.mark.parametrize("job, pointer, code", [
    ({"kind": "download", "segments": 2}, "#/segments", "invalid_combination"),
    ({"kind": "download", "mirrors": ["http://127.0.0.1/m"]}, "#/mirrors", "invalid_combination"),
    ({"kind": "download", "on_challenge": "ask"}, "#/on_challenge", "invalid_combination"),
    ({"kind": "data"}, "#/destination/s3", "not_supported"),
])
def test_bad_input_is_refused(ferry, memory, job, pointer, code):
    place = {"s3": memory.store.object("bucket", "k")}
    answer = ferry.call("POST", "/v1/jobs", json={"request": {"url": "http://127.0.0.1:1/"}, "destination": place} | job)
    assert answer.status_code == 422, answer.text
    assert (pointer, code) in [(one["pointer"], one["code"]) for one in answer.json()["errors"]], answer.text


@pytest.mark.parametrize("place, pointer, code", [
    ({"if_exists": "rename"}, "#/destination/if_exists", "not_supported"),
    ({"path": "a"}, "#/destination", "invalid_combination"),
    ({"s3": {"bucket": "bucket", "key": "k", "endpoint": "http://10.1.2.3:9000"}}, "#/destination/s3", "blocked_address"),
    ({"method": "POST"}, "#/destination/method", "invalid_combination"),
])
def test_a_destination_that_is_refused(ferry, memory, place, pointer, code):
    job = {"kind": "download", "request": {"url": "http://127.0.0.1:1/"},
           "destination": {"s3": memory.store.object("bucket", "k")} | place}
    answer = ferry.call("POST", "/v1/jobs", json=job)
    assert answer.status_code == 422, answer.text
    assert (pointer, code) in [(one["pointer"], one["code"]) for one in answer.json()["errors"]], answer.text


def test_a_source_without_request_needs_a_kind_that_sends(ferry, judge):
    """`source.s3` of an upload is not the job's own address."""
    answer = ferry.call("POST", "/v1/jobs", json={"kind": "upload", "source": {"s3": judge.object("bucket", "k")}})
    assert answer.status_code == 422 and "#/request" in answer.text, answer.text


def test_a_schedule_copies_each_day_to_another_object(ferry, memory, source):
    made = ferry.call("POST", "/v1/schedules", json={"cron": "0 0 1 1 *", "job": {
        "kind": "upload", "source": {"url": source.url + "/{scheduled_at:year}"},
        "destination": {"s3": memory.store.object("bucket", "{scheduled_at:year}/k")}}})
    assert made.status_code == 201, made.text
    schedule = made.json()["id"]
    source.files = {f"/{year}": SMALL for year in range(2020, 2080)}
    assert ferry.call("POST", f"/v1/schedules/{schedule}/run").status_code in (200, 201, 202)
    eventually(60, lambda: memory.objects, "the object is there")
    (path, data), = memory.objects.items()
    assert data == SMALL and source.of("GET")[0].path == path.removeprefix("/bucket").removesuffix("/k")
    ferry.call("DELETE", f"/v1/schedules/{schedule}")

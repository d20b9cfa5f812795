"""Large objects, which are sent in parts: to stores that other people wrote, and to a store in memory, which verifies each
signature and whose requests a test spoils."""
from __future__ import annotations

import os
import threading

import pytest

from conftest import Ferry, eventually, killed_and_started, running
from memory_store import Answer, checksum, etag
from multipart_store import MultipartStore, begun, error_in_200, etag_of_parts, multipart_store, once, refuse_until, stalled
from object_jobs import ended, failed, run, submit, succeeded, upload

PART = 16 << 20
# 5 parts.
DATA = os.urandom((64 << 20) + 12_345)
PARTS = [DATA[start:start + PART] for start in range(0, len(DATA), PART)]
QUICK = {"initial_delay": 0}


@pytest.fixture()
def memory():
    with multipart_store() as server:
        yield server
        assert server.faults == []


@pytest.fixture(scope="module")
def source(ferry) -> dict:
    return write(ferry)


def write(ferry: Ferry, data: bytes = DATA, name: str = "large") -> dict:
    (ferry.data / "files").mkdir(exist_ok=True)
    (ferry.data / "files" / name).write_bytes(data)
    return {"path": name}


def is_whole(memory: MultipartStore, data: bytes = DATA) -> bool:
    """The object is there, and no upload is left."""
    return memory.objects.get("/bucket/k") == data and not memory.uploads


# Stores that other people wrote


@pytest.mark.parametrize("name", ["judge", "weed"])
def test_large_objects(ferry, request, source, name):
    store = request.getfixturevalue(name)
    bucket = store.new_bucket()
    headers = {"Content-Type": "text/csv", "Cache-Control": "max-age=60"}
    place = store.object(bucket, "a b/k", metadata={"a": "1"}, storage_class="STANDARD_IA")
    job = succeeded(ferry, upload(place, source, request={"headers": headers}))
    there = store.client().get_object(Bucket=bucket, Key="a b/k")
    assert there["Body"].read() == DATA and there["ETag"] == job["result"]["etag"] == etag_of_parts(PARTS)
    assert there["ContentType"] == "text/csv" and there["CacheControl"] == "max-age=60"
    assert {key.lower(): value for key, value in there["Metadata"].items()} == {"a": "1"}
    assert there["StorageClass"] == "STANDARD_IA"
    assert job["result"]["size"] == len(DATA) and job["result"]["url"] == job["request"]["url"]
    assert store.client().list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


@pytest.mark.parametrize("name", ["judge", "weed"])
def test_large_objects_that_exist(ferry, request, source, name):
    store = request.getfixturevalue(name)
    bucket = store.new_bucket()
    place = store.object(bucket, "k")
    store.client().put_object(Bucket=bucket, Key="k", Body=b"first")
    failed(ferry, upload(place, source, if_exists="fail"), "destination_exists", "")
    assert store.client().get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"
    assert store.client().list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    succeeded(ferry, upload(place, source))
    assert store.client().head_object(Bucket=bucket, Key="k")["ContentLength"] == len(DATA)


@pytest.mark.parametrize("name, algorithm", [("weed", "crc32c"), ("weed", "sha256"), ("judge", "crc64nvme")])
def test_stores_take_checksums_of_parts(ferry, request, source, name, algorithm):
    store = request.getfixturevalue(name)
    bucket = store.new_bucket()
    succeeded(ferry, upload(store.object(bucket, "k", checksum=algorithm), source))
    assert store.client().get_object(Bucket=bucket, Key="k")["Body"].read() == DATA


# One request


@pytest.mark.parametrize("answer", [Answer(0), Answer(503, "SlowDown")], ids=["cut", "503"])
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_object_of_a_lost_response_is_ones_own(ferry, memory, answer, attempts):
    """The second request with `If-None-Match: *` finds the object of the first."""
    memory.spoil_after = once("put", answer)
    retry = QUICK | {"max_attempts": attempts}
    job = run(ferry, upload(memory.store.object("bucket", "k"), {"text": "abc"}, if_exists="fail", retry=retry))
    assert memory.objects["/bucket/k"] == b"abc"
    if job["state"] == "succeeded":
        assert memory.kinds() == ["put", "put", "look"] and job["result"]["etag"] == etag(b"abc")
        assert job["result"]["url"] == f"{memory.store.url}/bucket/k"
    else:
        assert attempts == 1 and memory.kinds() == ["put"]


@pytest.mark.parametrize("other", [b"abd", b"abcd"])
def test_another_object_is_not_ones_own(ferry, memory, other):
    def replace(_):
        memory.objects["/bucket/k"] = other
        return Answer(503, "SlowDown")

    memory.spoil = once("put", replace)
    failed(ferry, upload(memory.store.object("bucket", "k"), {"text": "abc"}, if_exists="fail", retry=QUICK),
           "destination_exists", "exists")
    assert memory.kinds() == ["put", "put", "look"] and memory.objects["/bucket/k"] == other


def test_an_object_that_existed_before_is_not_looked_at(ferry, memory):
    memory.objects["/bucket/k"] = b"abc"
    failed(ferry, upload(memory.store.object("bucket", "k"), {"text": "abc"}, if_exists="fail"), "destination_exists", "")
    assert memory.kinds() == ["put"]


# Requests


def test_requests(ferry, memory, source):
    members = {"metadata": {"a": "1"}, "storage_class": "COLD", "server_side_encryption": "AES256"}
    headers = {"Content-Type": "text/csv", "x-amz-acl": "private", "X-Own": "1", "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}
    job = succeeded(ferry, upload(memory.store.object("bucket", "k", **members), source, if_exists="fail",
                                  request={"headers": headers}))
    assert is_whole(memory) and memory.kinds() == ["create", "part", "complete"]
    assert sorted(memory.kinds("part")) == [1, 2, 3, 4, 5] and 1 < memory.most <= 4
    assert job["result"]["etag"] == etag_of_parts(PARTS) and job["result"]["version_id"] == "v1"
    assert job["progress"]["bytes_sent"] == len(DATA) and job["result"].get("resumed_at_offset") is None
    create, *parts, complete = memory.requests()
    own = ("content-type", "x-amz-meta-a", "x-amz-storage-class", "x-amz-server-side-encryption", "x-amz-acl")
    assert [create[name] for name in own] == ["text/csv", "1", "COLD", "AES256", "private"]
    for one in [*parts, complete]:
        assert [one[name] for name in own] == [None] * 5
    assert all(one["x-own"] == "1" and one["content-md5"] is None for one in memory.requests())
    assert [one["if-none-match"] for one in (create, *parts, complete)] == [None] * 6 + ["*"]


@pytest.mark.parametrize("algorithm", ["sha256", "crc32c", "crc64nvme"])
def test_checksums(ferry, memory, source, algorithm):
    """The store in memory verifies those of parts and of the object."""
    succeeded(ferry, upload(memory.store.object("bucket", "k", checksum=algorithm), source))
    whole = memory.checksums["/bucket/k"][f"x-amz-checksum-{algorithm}"]
    assert is_whole(memory) and (algorithm == "sha256" or whole == checksum(algorithm, DATA))


def test_a_small_object_is_sent_with_one_put(ferry, memory):
    succeeded(ferry, upload(memory.store.object("bucket", "k"), write(ferry, DATA[:64 << 20], "small")))
    assert memory.kinds() == ["put"] and memory.objects["/bucket/k"] == DATA[:64 << 20]


def test_region_and_clock_hold_for_all_requests(ferry, memory, source):
    memory.region, memory.seconds_ahead = "eu-central-1", 7_200
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry={"max_attempts": 1}))
    assert is_whole(memory) and len(memory.requests("POST")) == 4 and len(memory.requests("PUT")) == 5


def test_integrity(ferry, memory, source):
    """Wrong bytes never become an object."""
    wrong = upload(memory.store.object("bucket", "k"), source, integrity={"sha256": "0" * 64})
    failed(ferry, wrong, "digest_mismatch", "")
    assert memory.objects == {} and memory.uploads == {} and "complete" not in memory.kinds()


def test_speed_limit(ferry, memory, source):
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), source, network={"max_bytes_per_second": 32 << 20}))
    assert is_whole(memory)
    attempt, = ferry.call("GET", f"/v1/jobs/{job['id']}/attempts").json()["data"]
    assert len(attempt["transactions"]) == 7


# Faults


@pytest.mark.parametrize("answer", [
    Answer(0), Answer(503, "SlowDown"), Answer(500, "InternalError"), Answer(200, fields={"ETag": '"' + "0" * 32 + '"'}),
    Answer(200), Answer(400, "BadDigest")], ids=["cut", "slow-down", "error", "other-tag", "no-tag", "bad-digest"])
def test_a_failed_part_is_sent_again(ferry, memory, source, answer):
    memory.spoil = once("part", answer, 2, 2 if answer.status else 3)
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}))
    assert is_whole(memory) and memory.kinds("part").count(2) >= 3 and len(memory.kinds("create")) == 1


def test_a_wrong_tag_fails_the_attempt(ferry, memory, source):
    memory.spoil = once("part", Answer(200, fields={"ETag": '"' + "0" * 32 + '"'}), 2, 1_000)
    failed(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}), "digest_mismatch", "part 2")
    assert memory.uploads == {} and memory.objects == {} and len(memory.kinds("abort")) == 1


def test_tags_of_encrypted_parts_are_no_digests(ferry, memory, source):
    memory.encryption = "aws:kms"
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source))
    assert is_whole(memory)


def test_the_next_attempt_sends_what_is_missing(ferry, memory, source):
    """The first one fails at part 3 although the store takes others; its listing has pages."""
    memory.page, memory.spoil = 2, once("part", Answer(500, "InternalError"), 3, 3)
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 2}))
    assert is_whole(memory) and memory.kinds("list")[0] == 0 and len(memory.kinds("create")) == 1
    assert job["attempt"] == 2 and job["result"]["resumed_at_offset"] >= PART
    there = memory.kinds("list")
    assert len(there) >= 1 and memory.kinds("part").count(1) == 1


@pytest.mark.parametrize("status, code", [(403, "AccessDenied"), (400, "InvalidArgument")])
def test_a_final_failure_removes_the_upload(ferry, memory, source, status, code):
    memory.spoil = once("part", Answer(status, code), 2, 100)
    failed(ferry, upload(memory.store.object("bucket", "k"), source), "unacceptable_status", code)
    assert memory.uploads == {} and len(memory.kinds("abort")) == 1


def test_a_refused_creation(ferry, memory, source):
    memory.spoil = once("create", Answer(403, "AccessDenied"))
    failed(ferry, upload(memory.store.object("bucket", "k"), source), "unacceptable_status", "AccessDenied")
    assert memory.kinds() == ["create"]


@pytest.mark.parametrize("kind", ["part", "complete"])
def test_a_lost_upload_begins_anew(ferry, memory, source, kind):
    def lose(_):
        memory.uploads.clear()
        return Answer(404, "NoSuchUpload")

    memory.spoil = once(kind, lose, 4 if kind == "part" else None)
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}))
    assert is_whole(memory) and len(memory.kinds("create")) == 2


def test_a_store_that_loses_every_upload(ferry, memory, source):
    memory.spoil = once("complete", Answer(404, "NoSuchUpload"), None, 1_000)
    failed(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}), "response_invalid", "lost")
    assert len(memory.kinds("create")) == 3


# Completion


@pytest.mark.parametrize("answer", [error_in_200("InternalError"), Answer(503, "SlowDown"), Answer(0)], ids=["200", "503", "cut"])
def test_a_completion_that_fails_is_sent_again(ferry, memory, source, answer):
    memory.spoil = once("complete", answer)
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}))
    assert is_whole(memory) and len(memory.kinds("part")) == 5 and job["result"]["etag"] == etag_of_parts(PARTS)


def test_an_error_in_a_200_is_an_error(ferry, memory, source):
    memory.spoil = once("complete", error_in_200("AccessDenied"), None, 100)
    failed(ferry, upload(memory.store.object("bucket", "k"), source), "unacceptable_status", "AccessDenied")
    assert memory.uploads == {} and memory.objects == {}


@pytest.mark.parametrize("if_exists", [None, "fail"])
def test_a_lost_response_to_the_completion(ferry, memory, source, if_exists):
    memory.spoil_after = once("complete", Answer(200, body=b"<Complete", sent=3))
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), source, if_exists, retry=QUICK | {"max_attempts": 1}))
    assert is_whole(memory) and job["result"]["etag"] == etag_of_parts(PARTS)
    assert memory.kinds() == ["create", "part", "complete", "complete", "look"]


def test_the_next_attempt_finds_the_completed_object(ferry, memory, source):
    memory.spoil_after = once("complete", Answer(503, "SlowDown"))
    # An attempt does not wait so long.
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry={"initial_delay": 7}))
    assert is_whole(memory) and job["result"]["etag"] == etag_of_parts(PARTS) and job["attempt"] == 2
    assert memory.kinds() == ["create", "part", "complete", "list", "look"] and len(memory.kinds("part")) == 5


def test_another_object_is_not_taken_for_the_upload(ferry, memory, source):
    """Of the same size and number of parts."""
    def replace(_):
        memory.uploads.clear()
        memory.objects["/bucket/k"], memory.tags["/bucket/k"] = DATA[::-1], '"' + "1" * 32 + '-5"'
        return Answer(0)

    memory.spoil = once("complete", replace)
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}))
    assert is_whole(memory) and len(memory.kinds("create")) == 2


def test_parts_that_the_store_lacks_are_sent_again(ferry, memory, source):
    def lose(_):
        for one in memory.uploads.values():
            del one.parts[3]

    memory.spoil = once("complete", lose)
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK | {"max_attempts": 1}))
    assert is_whole(memory) and sorted(memory.kinds("part")) == [1, 2, 3, 3, 4, 5]


# Ends in the middle


def test_killed_between_parts(memory):
    with running(status=-9) as ferry:
        source = write(ferry)
        released = stalled(memory, 2)
        job = submit(ferry, upload(memory.store.object("bucket", "k"), source))
        begun(memory, 2)
        there = set(next(iter(memory.uploads.values())).parts)
        refuse_until(memory, "list", released)
        second = killed_and_started(ferry)
        released.set()
        shown = ended(ferry, job["id"])
        assert shown["state"] == "succeeded", shown["error"]
        after = memory.log[memory.log.index(("list", 0)):]
        assert is_whole(memory) and after[-1] == ("complete", 0)
        assert {number for kind, number in after if kind == "part"} == {1, 2, 3, 4, 5} - there and len(after) == 5
        assert shown["result"]["resumed_at_offset"] == sum(len(PARTS[number - 1]) for number in there)
        second.terminate()
        assert second.wait(60) == 0


def test_suspended_and_resumed(ferry, memory, source):
    released = stalled(memory, 2)
    job = submit(ferry, upload(memory.store.object("bucket", "k"), source))
    begun(memory, 2)
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/suspend").status_code in (200, 202)
    eventually(30, lambda: ferry.call("GET", f"/v1/jobs/{job['id']}").json()["state"] == "suspended", "suspended")
    memory.spoil = lambda kind, number, request: None
    released.set()
    assert len(memory.uploads) == 1
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/resume").status_code in (200, 202)
    shown = ended(ferry, job["id"])
    assert shown["state"] == "succeeded", shown["error"]
    assert is_whole(memory) and len(memory.kinds("create")) == 1 and "list" in memory.kinds()


def test_cancelling_removes_the_upload(ferry, memory, source):
    released = stalled(memory, 1)
    job = submit(ferry, upload(memory.store.object("bucket", "k"), source))
    begun(memory, 1)
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/cancel").status_code in (200, 202)
    assert ended(ferry, job["id"])["state"] == "cancelled"
    released.set()
    assert memory.uploads == {} and len(memory.kinds("abort")) == 1 and memory.objects == {}


def test_a_cancelled_job_reports_without_its_store(ferry, memory, source):
    """The store does not answer."""
    released = stalled(memory, 1)
    job = submit(ferry, upload(memory.store.object("bucket", "k"), source))
    begun(memory, 1)
    waiting = memory.spoil
    memory.spoil = lambda kind, number, request: released.wait(60) and None if kind == "abort" else waiting(kind, number, request)
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/cancel").status_code in (200, 202)
    assert ended(ferry, job["id"])["state"] == "cancelled"
    released.set()


def test_resume_data_keep_the_upload(ferry, memory, source):
    released = stalled(memory, 2)
    job = submit(ferry, upload(memory.store.object("bucket", "k"), source))
    begun(memory, 2)
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/cancel", json={"produce_resume_data": True}).status_code in (200, 202)
    shown = ended(ferry, job["id"])
    memory.spoil = lambda kind, number, request: None
    released.set()
    assert len(memory.uploads) == 1 and shown["resume_data"]
    again = upload(memory.store.object("bucket", "k"), source) | {"resume_data": shown["resume_data"]}
    done = succeeded(ferry, again)
    assert is_whole(memory) and len(memory.kinds("create")) == 1 and done["result"]["resumed_at_offset"] >= PART


def test_a_changed_source_begins_anew(ferry, memory):
    source = write(ferry, DATA, "changing")
    after = DATA[::-1]

    def change(_):
        write(ferry, after, "changing.new")
        os.rename(ferry.data / "files/changing.new", ferry.data / "files/changing")
        return Answer(500, "InternalError")

    # The third failure of a part ends the attempt.
    fates = [lambda _: Answer(500, "InternalError"), lambda _: Answer(500, "InternalError"), change]
    memory.spoil = lambda kind, number, request: fates.pop(0)(request) if kind == "part" and number == 5 and fates else None
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK))
    assert is_whole(memory, after) and memory.kinds("abort") and len(memory.kinds("create")) == 2
    assert job["result"]["etag"] == etag_of_parts([after[start:start + PART] for start in range(0, len(after), PART)])


def test_a_source_that_became_small(ferry, memory):
    source = write(ferry, DATA, "shrinking")

    def shrink(_):
        write(ferry, b"small", "shrinking.new")
        os.rename(ferry.data / "files/shrinking.new", ferry.data / "files/shrinking")
        return Answer(500, "InternalError")

    fates = [lambda _: Answer(500, "InternalError"), lambda _: Answer(500, "InternalError"), shrink]
    memory.spoil = lambda kind, number, request: fates.pop(0)(request) if kind == "part" and number == 5 and fates else None
    succeeded(ferry, upload(memory.store.object("bucket", "k"), source, retry=QUICK))
    assert is_whole(memory, b"small")


# Uploads that no job completes


def suspended(ferry: Ferry, memory: MultipartStore, job: dict) -> str:
    """The job is suspended after two parts have got through; its identifier."""
    released = stalled(memory, 2)
    identifier = submit(ferry, job)["id"]
    begun(memory, 2)
    assert ferry.call("POST", f"/v1/jobs/{identifier}/suspend").status_code in (200, 202)
    eventually(30, lambda: ferry.call("GET", f"/v1/jobs/{identifier}").json()["state"] == "suspended", "suspended")
    memory.spoil = lambda kind, number, request: None
    released.set()
    assert len(memory.uploads) == 1 and memory.kinds("abort") == []
    return identifier


def cancel(ferry: Ferry, identifier: str, **body) -> dict:
    assert ferry.call("POST", f"/v1/jobs/{identifier}/cancel", json=body or None).status_code in (200, 202)
    shown = ended(ferry, identifier)
    assert shown["state"] == "cancelled"
    return shown


def removed(memory: MultipartStore, least: int = 1, most: int | None = None):
    """The store has removed the upload, and was asked so many times."""
    eventually(90, lambda: memory.uploads == {} and memory.running == 0, "the upload is removed")
    assert least <= len(memory.kinds("abort")) <= (most or least) and memory.objects == {}


def metric(ferry: Ferry, name: str) -> float:
    lines = ferry.call("GET", "/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


def test_cancelled_while_suspended(ferry, memory, source):
    before = metric(ferry, "ferry_abandoned_uploads_removed_total")
    cancel(ferry, suspended(ferry, memory, upload(memory.store.object("bucket", "k"), source)))
    removed(memory)
    eventually(30, lambda: metric(ferry, "ferry_abandoned_uploads_removed_total") == before + 1, "it is counted")


def test_removed_in_the_region_and_at_the_time_of_the_store(ferry, memory, source):
    memory.region, memory.seconds_ahead = "eu-central-1", 7_200
    cancel(ferry, suspended(ferry, memory, upload(memory.store.object("bucket", "k"), source)))
    # The first requests are answered with the region and the time.
    eventually(90, lambda: memory.uploads == {}, "the upload is removed")


def test_overdue_while_suspended(ferry, memory, source):
    """Another job may continue it, until the job is deleted."""
    identifier = suspended(ferry, memory, upload(memory.store.object("bucket", "k"), source))
    assert ferry.call("PATCH", f"/v1/jobs/{identifier}", json={"schedule": {"timeout_for_resource": 1}}).status_code == 200
    shown = ended(ferry, identifier)
    assert shown["state"] == "failed" and shown["error"]["code"] == "resource_timeout" and shown["resume_data"]
    assert len(memory.uploads) == 1 and memory.kinds("abort") == []
    assert ferry.call("DELETE", f"/v1/jobs/{identifier}").status_code == 204
    removed(memory)


def test_killed_before_the_upload_is_removed(memory):
    """The store is away for the first request."""
    with running(status=-9) as ferry:
        identifier = suspended(ferry, memory, upload(memory.store.object("bucket", "k"), write(ferry)))
        released = threading.Event()
        memory.spoil = lambda kind, number, request: released.wait(60) and Answer(0) if kind == "abort" else None
        cancel(ferry, identifier)
        eventually(60, lambda: memory.kinds("abort"), "the upload is to be removed")
        memory.spoil = lambda kind, number, request: None
        second = killed_and_started(ferry)
        released.set()
        removed(memory, 2)
        second.terminate()
        assert second.wait(60) == 0


def test_killed_while_suspended(memory):
    with running(status=-9) as ferry:
        identifier = suspended(ferry, memory, upload(memory.store.object("bucket", "k"), write(ferry)))
        second = killed_and_started(ferry)
        cancel(ferry, identifier)
        removed(memory)
        second.terminate()
        assert second.wait(60) == 0


@pytest.mark.parametrize("answer", [Answer(0), Answer(503, "SlowDown"), Answer(404)], ids=["cut", "slow-down", "proxy"])
def test_a_store_that_is_away_for_a_while(ferry, memory, source, answer):
    """The attempt cannot remove its upload; a later request does."""
    released = stalled(memory, 1)
    identifier = submit(ferry, upload(memory.store.object("bucket", "k"), source))["id"]
    begun(memory, 1)
    memory.spoil = once("abort", answer, None, 2)
    cancel(ferry, identifier)
    released.set()
    # libcurl may repeat a request whose connection is closed without a response.
    removed(memory, 2 if answer.status == 0 else 3, 3)


def test_resume_data_keep_the_upload_until_no_job_uses_it(ferry, memory, source):
    job = upload(memory.store.object("bucket", "k"), source)
    data = cancel(ferry, suspended(ferry, memory, job), produce_resume_data=True)["resume_data"]
    assert len(memory.uploads) == 1
    released, waiting = threading.Event(), threading.Event()

    def wait(kind, _number, _request):
        if kind != "part":
            return None
        waiting.set()
        return released.wait(60) and Answer(0)

    memory.spoil = wait
    second = submit(ferry, job | {"resume_data": data})["id"]
    assert waiting.wait(60)
    assert ferry.call("POST", f"/v1/jobs/{second}/suspend").status_code in (200, 202)
    eventually(30, lambda: ferry.call("GET", f"/v1/jobs/{second}").json()["state"] == "suspended", "suspended")
    memory.spoil = lambda kind, number, request: None
    released.set()
    assert len(memory.uploads) == 1 and memory.kinds("abort") == [] and len(memory.kinds("create")) == 1
    cancel(ferry, second)
    removed(memory)

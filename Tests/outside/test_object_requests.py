"""Requests for objects as a store in memory gets them, which verifies each signature with botocore, and the faults of
stores that a test scripts."""
from __future__ import annotations

import hashlib
import os
import re
import threading

import pytest
from botocore.exceptions import ClientError

from conftest import eventually, running
from memory_store import Answer, checksum, etag, memory_store
from object_jobs import content, download, ended, failed, run, submit, succeeded, upload

DATA = os.urandom(3_000_000)
CREDENTIALS = {"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"}


@pytest.fixture()
def memory():
    with memory_store() as server:
        yield server
        assert server.faults == []


def test_the_memory_store_judges_as_botocore_signs():
    with memory_store() as server:
        client = server.store.client()
        client.put_object(Bucket="bucket", Key="a b+ä", Body=DATA, Metadata={"a": "1", "a-b": "2"}, ChecksumAlgorithm="CRC64NVME")
        assert client.get_object(Bucket="bucket", Key="a b+ä", Range="bytes=5-9")["Body"].read() == DATA[5:10]
        assert server.faults == []
        server.store.secret_access_key = "another"
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            client.get_object(Bucket="bucket", Key="a b+ä")


# Downloads


def test_requests_without_credential_are_not_signed(ferry, memory):
    memory.is_public, memory.objects["/bucket/k"] = True, DATA
    succeeded(ferry, download({"bucket": "bucket", "key": "k", "endpoint": memory.store.url}))
    names = [name.lower() for name, _ in memory.requests()[0].fields]
    assert not CREDENTIALS & set(names)


def test_parts_are_signed_each(ferry, memory):
    data = os.urandom(16_000_000)
    memory.objects["/bucket/k"] = data
    job = succeeded(ferry, download(memory.store.object("bucket", "k"), segments=4))
    assert content(ferry, job) == data
    received = memory.requests()
    assert len(received) >= 4 and all(one["range"] and one.authorization for one in received)
    assert all(one["if-range"] == etag(data) for one in received[1:])


def test_mirrors_get_no_signature(ferry, memory):
    memory.script[None] = [Answer(500, "InternalError")] * 20
    with memory_store() as mirror:
        mirror.is_public, mirror.objects["/mirror"] = True, DATA
        job = succeeded(ferry, download(memory.store.object("bucket", "k"), mirrors=[f"{mirror.store.url}/mirror"]))
        assert content(ferry, job) == DATA
        for one in mirror.requests():
            assert not CREDENTIALS & {name.lower() for name, _ in one.fields}


def test_redirects_to_another_origin_get_no_signature(ferry, memory):
    with memory_store() as other:
        other.is_public, other.objects["/elsewhere"] = True, DATA
        memory.script[None] = [Answer(302, fields={"Location": f"{other.store.url}/elsewhere"})]
        place = memory.store.object("bucket", "k")
        place["credential"] = place["credential"] | {"session_token": "token"}
        memory.store.session_token = "token"
        assert content(ferry, succeeded(ferry, download(place))) == DATA
        one, = other.requests()
        assert not CREDENTIALS & {name.lower() for name, _ in one.fields}


@pytest.mark.parametrize("sent", [1_000_000, 10_000])
def test_a_cut_download_continues(ferry, memory, sent):
    memory.objects["/bucket/k"] = DATA
    fields = {"ETag": etag(DATA), "Accept-Ranges": "bytes"}
    memory.script[None] = [Answer(200, fields=fields, body=DATA, sent=sent)]
    job = succeeded(ferry, download(memory.store.object("bucket", "k"), retry={"initial_delay": 0}))
    assert content(ferry, job) == DATA
    first, second = memory.requests()
    assert second["range"].startswith("bytes=") and second["range"] != "bytes=0-"
    assert etag(DATA) in (second["if-range"], second["if-match"])


def test_a_changed_object_is_fetched_anew(ferry, memory):
    before, after = os.urandom(2_000_000), os.urandom(2_000_000)

    def cut(_) -> Answer:
        memory.objects["/bucket/k"] = after
        return Answer(200, fields={"ETag": etag(before), "Accept-Ranges": "bytes"}, body=before, sent=1_500_000)

    memory.script[None] = [cut]
    job = succeeded(ferry, download(memory.store.object("bucket", "k"), retry={"initial_delay": 0}))
    assert content(ferry, job) == after


def test_a_suspended_download_continues(ferry, memory):
    """The request after the resumption is signed, with a range."""
    memory.objects["/bucket/k"] = DATA
    memory.script[None] = [Answer(200, fields={"ETag": etag(DATA), "Accept-Ranges": "bytes"}, body=DATA, sent=2_000_000),
                           lambda _: released.wait(60) and None]
    released = threading.Event()
    try:
        job = submit(ferry, download(memory.store.object("bucket", "k")))
        eventually(30, lambda: len(memory.requests()) == 2, "the second request waits")
        assert ferry.call("POST", f"/v1/jobs/{job['id']}/suspend").status_code in (200, 202)
        eventually(30, lambda: ferry.call("GET", f"/v1/jobs/{job['id']}").json()["state"] == "suspended", "suspended")
    finally:
        released.set()
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/resume").status_code in (200, 202)
    job = ended(ferry, job["id"])
    assert job["state"] == "succeeded" and content(ferry, job) == DATA
    assert memory.requests()[-1]["range"] == "bytes=2000000-"


@pytest.mark.parametrize("algorithm", ["sha256", "crc32c", "crc64nvme"])
def test_announced_checksums_are_verified(ferry, memory, algorithm):
    memory.objects["/bucket/k"] = DATA
    memory.announced = {f"x-amz-checksum-{algorithm}": checksum(algorithm, DATA), "x-amz-checksum-type": "FULL_OBJECT"}
    assert succeeded(ferry, download(memory.store.object("bucket", "k")))["result"]["verified"] == "digest"
    memory.announced[f"x-amz-checksum-{algorithm}"] = checksum(algorithm, b"other")
    failed(ferry, download(memory.store.object("bucket", "k"), retry={"max_attempts": 1}), "digest_mismatch", "")
    memory.announced = {f"x-amz-checksum-{algorithm}": checksum(algorithm, b"other") + "-2", "x-amz-checksum-type": "COMPOSITE"}
    assert succeeded(ferry, download(memory.store.object("bucket", "k")))["result"]["verified"] == "length"


def test_the_checksum_of_a_range_is_not_that_of_the_object(ferry, memory):
    """Amazon S3 announces the checksum of a part of a multipart upload if a range is exactly that part."""
    memory.objects["/bucket/k"], first = DATA, 2_000_000
    fields = {"ETag": etag(DATA), "Accept-Ranges": "bytes"}
    rest = {"Content-Range": f"bytes {first}-{len(DATA) - 1}/{len(DATA)}", "x-amz-checksum-crc32c": checksum("crc32c", DATA[first:])}
    memory.script[None] = [Answer(200, fields=fields, body=DATA, sent=first), Answer(206, fields=fields | rest, body=DATA[first:])]
    assert content(ferry, succeeded(ferry, download(memory.store.object("bucket", "k"), retry={"initial_delay": 0}))) == DATA
    assert len(memory.requests()) == 2


# Uploads


@pytest.mark.parametrize("algorithm", ["sha256", "crc32c", "crc64nvme"])
def test_checksums_of_uploads_are_sent(ferry, memory, algorithm):
    staged = {"upload": ferry.call("POST", "/v1/uploads", data=DATA).json()["id"]}
    succeeded(ferry, upload(memory.store.object("bucket", "k", checksum=algorithm), staged))
    one, = memory.requests()
    assert one[f"x-amz-checksum-{algorithm}"] == checksum(algorithm, DATA) and one["content-length"] == str(len(DATA))


def test_signatures_cover_all_fields_of_the_store(ferry, memory):
    """The store in memory refuses a signature without any of the x-amz-* fields."""
    memory.store.session_token = "a+token/with=signs"
    place = memory.store.object("bucket", "a b+ä'(1)", checksum="crc32c", storage_class="STANDARD",
                                server_side_encryption="aws:kms", metadata={"a": "1", "a-b": "2", "A_b": "a  b"})
    headers = {"x-amz-acl": "public-read", "X-Amz-Tagging": "a=b&c=d", "Cache-Control": "no-store"}
    succeeded(ferry, upload(place, {"text": "abc"}, if_exists="fail", request={"headers": headers}))
    one, = memory.requests()
    assert one["x-amz-acl"] == "public-read" and one["x-amz-tagging"] == "a=b&c=d" and one["cache-control"] == "no-store"
    assert one["x-amz-server-side-encryption"] == "aws:kms" and one["x-amz-storage-class"] == "STANDARD"
    assert (one["x-amz-meta-a"], one["x-amz-meta-a-b"], one["x-amz-security-token"]) == ("1", "2", "a+token/with=signs")
    assert one["x-amz-content-sha256"] == hashlib.sha256(b"abc").hexdigest() and one["if-none-match"] == "*"


def test_replacing_sends_no_condition(ferry, memory):
    succeeded(ferry, upload(memory.store.object("bucket", "k")))
    assert memory.requests()[0]["if-none-match"] is None


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(ferry, memory):
    (ferry.data / "files").mkdir(exist_ok=True)
    with open(ferry.data / "files/large", "wb") as file:
        file.truncate((5 << 40) + 1)
    shown = run(ferry, upload(memory.store.object("bucket", "k"), {"path": "large"}, retry={"max_attempts": 3}))
    assert shown["state"] == "failed" and not shown["error"]["retryable"], shown["error"]
    assert shown["error"]["code"] == "size_mismatch" and str(5 << 40) in shown["error"]["message"], shown["error"]
    assert memory.requests() == []
    (ferry.data / "files/large").unlink()


def test_integrity_holds_for_uploads(ferry, memory):
    (ferry.data / "files").mkdir(exist_ok=True)
    (ferry.data / "files/wrong").write_bytes(DATA)
    wrong = upload(memory.store.object("bucket", "k"), {"path": "wrong"},
                   integrity={"sha256": hashlib.sha256(b"other").hexdigest()})
    failed(ferry, wrong, "digest_mismatch", "")
    assert memory.objects == {}


def test_a_retry_hashes_a_changed_source_again(ferry, memory):
    (ferry.data / "files").mkdir(exist_ok=True)
    file = ferry.data / "files/changes"
    file.write_bytes(DATA[:1_000])

    def change(_) -> Answer:
        file.write_bytes(DATA)
        return Answer(500, "InternalError")

    memory.script[None] = [change]
    succeeded(ferry, upload(memory.store.object("bucket", "k", checksum="sha256"), {"path": "changes"}, retry={"initial_delay": 0}))
    assert memory.objects["/bucket/k"] == DATA and [len(one.body) for one in memory.requests()] == [1_000, len(DATA)]


def test_an_upload_whose_response_is_cut_is_sent_again(ferry, memory):
    cut = Answer(200, fields={"ETag": '"x"'}, body=b"a body", sent=1)
    memory.script[None] = [cut]
    job = succeeded(ferry, upload(memory.store.object("bucket", "k"), retry={"initial_delay": 0}))
    assert job["result"]["etag"] == etag(b"abc") and len(memory.requests("PUT")) == 2


def test_a_retry_of_a_failed_job_has_the_credential(ferry, memory):
    memory.script[None] = [Answer(403, "AccessDenied")]
    shown = failed(ferry, upload(memory.store.object("bucket", "k")), "unacceptable_status", "AccessDenied")
    again = ferry.call("POST", f"/v1/jobs/{shown['id']}/retry")
    assert again.status_code == 201, again.text
    assert ended(ferry, again.json()["id"])["state"] == "succeeded" and memory.objects == {"/bucket/k": b"abc"}


def test_a_suspended_upload_begins_when_it_is_resumed(ferry, memory):
    job = submit(ferry, upload(memory.store.object("bucket", "k"), suspended=True))
    assert job["state"] == "suspended" and memory.requests() == []
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/resume").status_code in (200, 202)
    assert ended(ferry, job["id"])["state"] == "succeeded"


# Addresses, regions, clocks


AMAZON = "amazonaws.com"


@pytest.mark.parametrize("members, url", [
    ({}, f"https://a-bucket.s3.us-east-1.{AMAZON}/a/k"),
    ({"region": "eu-west-1"}, f"https://a-bucket.s3.eu-west-1.{AMAZON}/a/k"),
    ({"addressing": "path"}, f"https://s3.us-east-1.{AMAZON}/a-bucket/a/k"),
    ({"bucket": "a.bucket"}, f"https://s3.us-east-1.{AMAZON}/a.bucket/a/k"),
    ({"bucket": "Bucket"}, f"https://s3.us-east-1.{AMAZON}/Bucket/a/k"),
    ({"key": "/a b+ä"}, f"https://a-bucket.s3.us-east-1.{AMAZON}//a%20b%2B%C3%A4"),
    ({"endpoint": "https://store.example.com"}, "https://store.example.com/a-bucket/a/k"),
    ({"endpoint": "https://store.example.com:443/"}, "https://store.example.com/a-bucket/a/k"),
    ({"endpoint": "http://store.example.com:9000", "addressing": "virtual"}, "http://a-bucket.store.example.com:9000/a/k"),
])
def test_addresses(ferry, members, url):
    place = {"bucket": "a-bucket", "key": "a/k"} | members
    for job in (download(place, suspended=True), upload(place, suspended=True)):
        shown = submit(ferry, job)
        assert shown["request"]["url"] == url
        given = (shown.get("source") if shown["kind"] == "download" else shown["destination"])["s3"]
        assert {name: given[name] for name in place if name != "endpoint"} == {n: v for n, v in place.items() if n != "endpoint"}
        job["request"] = {"url": url}
        assert submit(ferry, job)["request"]["url"] == url


def test_short_form(ferry):
    url = f"https://a-bucket.s3.us-east-1.{AMAZON}/a%20b/c%2520d"
    place = {"bucket": "a-bucket", "key": "a b/c%20d"}
    down = submit(ferry, {"kind": "download", "source": {"url": "s3://a-bucket/a b/c%20d"}, "suspended": True})
    up = submit(ferry, {"kind": "upload", "source": {"text": "a"}, "destination": {"url": "s3://a-bucket/a b/c%20d"},
                        "suspended": True})
    for shown, given in ((down, down["source"]), (up, up["destination"])):
        assert shown["request"]["url"] == url and given.get("url") is None
        assert {name: given["s3"][name] for name in place} == place


def test_virtual_addressing(ferry, memory):
    """libcurl takes every name below localhost for this machine."""
    endpoint = memory.store.url.replace("127.0.0.1", "localhost")
    place = memory.store.object("bucket", "a/k", endpoint=endpoint, addressing="virtual")
    job = succeeded(ferry, upload(place))
    assert job["result"]["url"] == endpoint.replace("localhost", "bucket.localhost") + "/a/k"
    assert content(ferry, succeeded(ferry, download(place))) == b"abc" and list(memory.objects) == ["/a/k"]
    assert {one["host"] for one in memory.requests()} == {endpoint.replace("http://", "bucket.")}


def test_request_fields_hold_for_stores(ferry, memory):
    """Here, a proxy: the store's name is resolved there only."""
    place = memory.store.object("bucket", "k", endpoint="http://store.example")
    memory.objects["/bucket/k"] = DATA
    job = download(place, request={"proxy": {"url": memory.store.url}, "timeout_for_request": 30})
    assert content(ferry, succeeded(ferry, job)) == DATA
    assert memory.requests()[0]["host"] == "store.example"


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("status", [301, 307, 400])
def test_a_bucket_in_another_region(ferry, memory, status, method):
    memory.objects["/bucket/k"] = b"abc"
    fields = {"x-amz-bucket-region": "eu-central-1"}
    if status == 307:
        fields["Location"] = f"{memory.store.url}/bucket/k"
    code = {301: "PermanentRedirect", 307: "TemporaryRedirect", 400: "AuthorizationHeaderMalformed"}[status]

    def other(_) -> Answer:
        memory.region = "eu-central-1"
        return Answer(status, code, fields)

    memory.script[None] = [other]
    place = memory.store.object("bucket", "k")
    succeeded(ferry, download(place) if method == "GET" else upload(place))
    assert [one.region for one in memory.requests(method)] == ["us-east-1", "eu-central-1"]


def test_parts_follow_the_region_and_the_clock(ferry, memory):
    data = os.urandom(16_000_000)
    memory.objects["/bucket/k"], memory.region, memory.seconds_ahead = data, "eu-central-1", 7_200
    job = succeeded(ferry, download(memory.store.object("bucket", "k"), segments=4, retry={"max_attempts": 1}))
    assert content(ferry, job) == data
    assert len({one["range"] for one in memory.requests() if one.region == "eu-central-1"}) >= 4


def test_a_store_that_names_ever_other_regions(ferry, memory):
    memory.script[None] = [Answer(400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": f"r-{n}"}) for n in range(50)]
    shown = run(ferry, download(memory.store.object("bucket", "k"), retry={"max_attempts": 1}))
    assert shown["state"] == "failed" and len(memory.requests()) < 5


def test_the_region_of_the_job_is_signed(ferry, memory):
    memory.region, memory.objects["/bucket/k"] = "auto", b"abc"
    succeeded(ferry, download(memory.store.object("bucket", "k", region="auto")))
    assert [one.region for one in memory.requests()] == ["auto"]


@pytest.mark.parametrize("hours", [-20, 20])
def test_a_wrong_clock_is_corrected(ferry, memory, hours):
    memory.seconds_ahead = hours * 3_600
    succeeded(ferry, upload(memory.store.object("bucket", "k")))
    assert len(memory.requests("PUT")) == 2 and memory.objects == {"/bucket/k": b"abc"}


def test_a_wrong_clock_is_corrected_once(ferry, memory):
    def leap(_) -> Answer:
        memory.seconds_ahead += 3_600
        return Answer(403, "RequestTimeTooSkewed")

    # The first request meets this clock, the second one the next.
    memory.seconds_ahead = 600
    memory.script[None] = [leap] * 20
    shown = run(ferry, download(memory.store.object("bucket", "k"), retry={"max_attempts": 1}))
    assert shown["state"] == "failed" and "RequestTimeTooSkewed" in shown["error"]["message"], shown["error"]
    assert len(memory.requests()) == 2


def test_a_403_with_the_right_time_is_final(ferry, memory):
    memory.script[None] = [Answer(403, "AccessDenied")] * 5
    failed(ferry, download(memory.store.object("bucket", "k")), "unacceptable_status", "AccessDenied")
    assert len(memory.requests()) == 1


# Errors


@pytest.mark.parametrize("status, code, error", [
    (403, "InvalidAccessKeyId", "authentication_required"), (403, "SignatureDoesNotMatch", "authentication_required"),
    (400, "ExpiredToken", "authentication_required"), (403, "AccessDenied", "unacceptable_status"),
    (404, "NoSuchBucket", "unacceptable_status"), (404, "NoSuchKey", "unacceptable_status"),
])
def test_codes_of_errors(ferry, memory, status, code, error):
    memory.script[None] = [Answer(status, code)] * 9
    for job in (download(memory.store.object("bucket", "k")), upload(memory.store.object("bucket", "k"))):
        assert failed(ferry, job, error, code)["error"]["retryable"] is False
    assert len(memory.requests()) == 2


def test_slow_down_is_throttling(ferry, memory):
    """The host is limited while its store is busy, and the jobs succeed later."""
    is_over = threading.Event()
    memory.objects = {f"/bucket/{number}": b"abc" for number in range(12)}
    memory.script[None] = [lambda _: None if is_over.is_set() else Answer(503, "SlowDown")] * 100_000
    jobs = [download(memory.store.object("bucket", str(number)), retry={"initial_delay": 0, "max_attempts": 10_000})
            for number in range(12)]
    made = ferry.call("POST", "/v1/jobs/batch", json={"jobs": jobs})
    assert made.status_code == 201, made.text

    def is_limited() -> bool:
        hosts = ferry.call("GET", "/v1/admin/hosts").json()["data"]
        return any("503" in one["sentence"] for host in hosts if host["host"] == memory.store.url for one in host["decisions"])

    eventually(60, is_limited, "a limit because of status 503")
    is_over.set()
    for item in made.json()["data"]:
        assert ended(ferry, item["id"])["state"] == "succeeded"
    attempts = ferry.call("GET", f"/v1/jobs/{made.json()['data'][0]['id']}/attempts").json()["data"]
    assert any("SlowDown" in one["error"]["message"] for one in attempts if one["error"]), attempts


# Credentials of the node


def credentials_file(path, store):
    path.write_text(f"[ferry]\naws_access_key_id = {store.access_key_id}\n"
                    f"aws_secret_access_key = {store.secret_access_key}\naws_session_token = {store.session_token}\n")


def test_a_node_signs_with_its_own_key(memory, tmp_path):
    """For the buckets that the operator lists; a new key in the file is used at once."""
    memory.store.session_token = "first-token"
    credentials_file(tmp_path / "keys", memory.store)
    place = {"bucket": "bucket", "key": "k", "endpoint": memory.store.url}
    with running(FERRY_S3_CREDENTIALS_ALLOW=f"default:bucket@{memory.store.url}",
                 AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "keys"), AWS_PROFILE="ferry") as ferry:
        shown = succeeded(ferry, upload(place))
        assert shown["destination"]["s3"]["credential"] is None
        memory.store.access_key_id, memory.store.session_token = "AKIANEW", "second-token"
        credentials_file(tmp_path / "keys", memory.store)
        assert content(ferry, succeeded(ferry, download(place))) == b"abc"
        memory.script[None] = [Answer(403, fields={"Content-Type": "application/xml"}, body=(
            b"<Error><Code>AccessDenied</Code><Message>second-token is no good</Message></Error>"))]
        refused = failed(ferry, upload(place), "unacceptable_status", "AccessDenied")
        for path in ("", "/attempts", "/content"):
            assert "second-token" not in ferry.call("GET", f"/v1/jobs/{refused['id']}{path}").text
        for secret in (memory.store.secret_access_key, "first-token", "second-token"):
            assert secret not in ferry.log()
        memory.is_public = True
        succeeded(ferry, upload(place | {"bucket": "other"}))
        assert not CREDENTIALS & {name.lower() for name, _ in memory.requests()[-1].fields}


def test_a_node_without_a_key_warns(memory, tmp_path):
    with running(FERRY_S3_CREDENTIALS_ALLOW="*:*", AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "none")) as ferry:
        assert "this node has no key" in ferry.log()


# Schedules


@pytest.mark.parametrize("make", [download, upload])
def test_jobs_of_schedules(ferry, memory, make):
    """Each run has a key of its own, and signs its requests."""
    job = make(memory.store.object("bucket", "{scheduled_at:unix}/ä b"))
    made = ferry.call("POST", "/v1/schedules", json={"interval": 86_400, "job": job})
    assert made.status_code == 201, made.text
    assert "the-secret" not in made.text and memory.store.secret_access_key not in made.text
    memory.script[None] = [Answer(200, body=b"abc", fields={"ETag": etag(b"abc")})]
    run = ferry.call("POST", f"/v1/schedules/{made.json()['id']}/run")
    assert run.status_code == 201, run.text
    shown = ended(ferry, run.json()["id"])
    assert shown["state"] == "succeeded", shown["error"]
    one, = memory.requests()
    assert re.fullmatch(r"/bucket/\d{10}/%C3%A4%20b", one.path)
    assert shown["request"]["url"] == memory.store.url + one.path
    again = ferry.call("PUT", f"/v1/schedules/{made.json()['id']}", json={"interval": 86_400, "job": job})
    assert again.status_code == 200, again.text


# Secrets


@pytest.mark.parametrize("make", [download, upload])
def test_a_store_that_repeats_the_token(ferry, memory, make):
    """Its response is shown nowhere."""
    token = memory.store.session_token = "a-token-that-is-repeated"
    body = f"<Error><Code>AccessDenied</Code><Message>{token} is no good</Message></Error>".encode()
    memory.script[None] = [Answer(403, fields={"Content-Type": "application/xml"}, body=body)]
    shown = failed(ferry, make(memory.store.object("bucket", "k")), "unacceptable_status", "AccessDenied")
    for path in ("", "/events", "/attempts", "/content"):
        assert token not in ferry.call("GET", f"/v1/jobs/{shown['id']}{path}").text, path
    assert token not in ferry.log()


def test_the_key_of_a_store_precedes_fields_of_the_session(ferry, memory):
    fields = {"Authorization": "Bearer of-the-session", "X-Amz-Date": "20000101T000000Z", "X-Own": "1"}
    made = ferry.call("PUT", "/v1/sessions/stores", json={"http_additional_headers": fields})
    assert made.status_code in (200, 201), made.text
    place = memory.store.object("bucket", "k")
    # The second job names the address of the object, as a shown job does.
    for members in ({}, {"request": {"url": f"{memory.store.url}/bucket/k"}}):
        succeeded(ferry, upload(place, session="stores") | members)
        assert memory.requests()[-1]["x-own"] == "1"


def test_secrets_are_never_shown(ferry, memory):
    memory.store.secret_access_key, memory.store.session_token = "the-secret-of-the-key", "the-token-of-the-session"
    place = memory.store.object("bucket", "k")
    for job, member in ((upload(place), "destination"), (download(place), "source")):
        shown = succeeded(ferry, job)
        assert shown[member]["s3"]["credential"] == {
            "access_key_id": "AKIAOUTSIDE", "secret_access_key": {"set": True}, "session_token": {"set": True}}
        texts = [ferry.call("GET", path).text for path in (
            f"/v1/jobs/{shown['id']}", f"/v1/jobs/{shown['id']}/events", f"/v1/jobs/{shown['id']}/attempts", "/v1/jobs")]
        signatures = [one.authorization[5] for one in memory.requests()]
        for secret in ("the-secret-of-the-key", "the-token-of-the-session", *signatures):
            assert not any(secret in text for text in [*texts, ferry.log()])

"""Objects in stores that other people wrote: moto, which judges signatures, and SeaweedFS, which verifies checksums."""
from __future__ import annotations

import base64
import os

import pytest
from botocore.exceptions import ClientError

from conftest import Ferry
from memory_store import checksum
from object_jobs import content, download, failed, run, succeeded, upload
from stores import Moto, Store, encoded

DATA = os.urandom(3_000_000)
KEYS = ["a b", "a+b", "a%b", "a%20b", "a?b=c&d#e", "ä/日本.txt", "a//b", "/slash", "x'(y)*!~"]
# SeaweedFS keeps keys as paths of files: no folders, and no longer names.
KEYS_OF_MOTO = ["@:,;=$&[]{}|^`\"<>\\", "folder/", "k" * 800, "ä" * 512]


@pytest.fixture(params=["judge", "weed"])
def store(request) -> Store:
    """Each of the two stores."""
    return request.getfixturevalue(request.param)


def test_the_stores_refuse_what_is_signed_wrong(store):
    bucket = store.new_bucket()
    store.client().put_object(Bucket=bucket, Key="k", Body=b"x")
    for other in (Store(store.url, store.access_key_id, "wrong"), Store(store.url, "AKIANOBODY", "wrong")):
        with pytest.raises(ClientError, match="SignatureDoesNotMatch|InvalidAccessKeyId"):
            other.client().get_object(Bucket=bucket, Key="k")
    if isinstance(store, Moto):
        with pytest.raises(ClientError, match="AccessDenied"):
            store.stranger.client().get_object(Bucket=bucket, Key="k")


# Downloads


@pytest.mark.parametrize("name, key", [
    *(("judge", key) for key in [*KEYS, *KEYS_OF_MOTO]), *(("weed", key) for key in KEYS)])
def test_downloads(ferry, request, name, key):
    store = request.getfixturevalue(name)
    bucket = store.new_bucket()
    store.client().put_object(Bucket=bucket, Key=key, Body=DATA)
    job = succeeded(ferry, download(store.object(bucket, key)))
    assert content(ferry, job) == DATA and job["result"]["size"] == len(DATA)
    assert job["request"]["url"] == f"{store.url}/{bucket}/{encoded(key)}"
    assert job["result"].get("url") is None and job["request"]["method"] == "GET"


def test_a_download_has_a_path(ferry, weed):
    bucket = weed.new_bucket()
    weed.client().put_object(Bucket=bucket, Key="a/report.txt", Body=DATA)
    for path in ("stores/one", "stores/named/"):
        succeeded(ferry, download(weed.object(bucket, "a/report.txt"), destination={"path": path}))
    assert (ferry.data / "files/stores/one").read_bytes() == DATA
    assert (ferry.data / "files/stores/named/report.txt").read_bytes() == DATA


def test_a_temporary_key_has_a_session_token(ferry, judge):
    bucket = judge.new_bucket()
    succeeded(ferry, upload(judge.guest.object(bucket, "k"), {"text": "abc"}))
    assert content(ferry, succeeded(ferry, download(judge.guest.object(bucket, "k")))) == b"abc"
    wrong = judge.guest.credential | {"session_token": "another"}
    assert run(ferry, download(judge.guest.object(bucket, "k", credential=wrong)))["state"] == "failed"


def test_public_objects_need_no_credential(ferry, weed):
    job = succeeded(ferry, download(weed.object("public", "first", credential=None)))
    assert content(ferry, job) == b"first" and job["source"]["s3"].get("credential") is None


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC32C", "CRC64NVME"])
def test_checksums_are_asked_for(ferry, weed, algorithm):
    bucket = weed.new_bucket()
    weed.client().put_object(Bucket=bucket, Key="k", Body=DATA, ChecksumAlgorithm=algorithm)
    assert succeeded(ferry, download(weed.object(bucket, "k")))["result"]["verified"] == "digest"


# Uploads


def sources(ferry: Ferry, store: Store, bucket: str) -> dict[str, dict]:
    """A source of each kind; all have the same bytes."""
    (ferry.data / "files").mkdir(exist_ok=True)
    (ferry.data / "files/to-a-store").write_bytes(DATA)
    store.client().put_object(Bucket=bucket, Key="source", Body=DATA)
    return {"path": {"path": "to-a-store"},
            "job": {"job": succeeded(ferry, download(store.object(bucket, "source")))["id"]},
            "upload": {"upload": ferry.call("POST", "/v1/uploads", data=DATA).json()["id"]},
            "base64": {"base64": base64.b64encode(DATA[:500_000]).decode()},
            "text": {"text": "äbc"}}


@pytest.mark.parametrize("kind", ["path", "job", "upload", "base64", "text"])
def test_uploads(ferry, store, kind):
    bucket = store.new_bucket()
    job = succeeded(ferry, upload(store.object(bucket, "a/k"), sources(ferry, store, bucket)[kind]))
    there = store.client().get_object(Bucket=bucket, Key="a/k")
    assert there["Body"].read() == {"base64": DATA[:500_000], "text": "äbc".encode()}.get(kind, DATA)
    assert job["result"]["url"] == job["request"]["url"] == f"{store.url}/{bucket}/a/k"
    assert job["result"]["etag"] == there["ETag"] and job["result"].get("version_id") is None
    assert job["request"]["method"] == "PUT"


def test_an_empty_object(ferry, store):
    bucket = store.new_bucket()
    succeeded(ferry, upload(store.object(bucket, "k"), {"text": ""}))
    assert store.client().head_object(Bucket=bucket, Key="k")["ContentLength"] == 0
    assert content(ferry, succeeded(ferry, download(store.object(bucket, "k")))) == b""


@pytest.mark.parametrize("key", [*KEYS, *KEYS_OF_MOTO])
def test_keys_of_uploads(ferry, judge, key):
    bucket = judge.new_bucket()
    job = succeeded(ferry, upload(judge.object(bucket, key)))
    assert judge.client().get_object(Bucket=bucket, Key=key)["Body"].read() == b"abc"
    assert [one["Key"] for one in judge.client().list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    assert job["destination"]["s3"]["key"] == key and job["result"]["url"].endswith(encoded(key))


def test_fields_of_an_object(ferry, judge, weed):
    headers = {"Content-Type": "text/csv", "Cache-Control": "max-age=60", "Content-Disposition": "attachment; filename=a.csv"}
    members = {"storage_class": "STANDARD_IA", "metadata": {"a": "1", "a-b": "two  words", "Case": "x"}}
    for store in (judge, weed):
        bucket = store.new_bucket()
        succeeded(ferry, upload(store.object(bucket, "k", **members), request={"headers": headers}))
        there = store.client().head_object(Bucket=bucket, Key="k")
        assert there["ContentType"] == "text/csv" and there["CacheControl"] == "max-age=60"
        assert there["ContentDisposition"] == headers["Content-Disposition"] and there["StorageClass"] == "STANDARD_IA"
        found = {name.lower(): " ".join(value.split()) for name, value in there["Metadata"].items()}
        assert found == {"a": "1", "a-b": "two words", "case": "x"}


def test_encryption_and_versions(ferry, judge):
    bucket = judge.new_bucket()
    judge.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    versions = [succeeded(ferry, upload(judge.object(bucket, "k", server_side_encryption="AES256"), {"text": text}))
                ["result"]["version_id"] for text in ("one", "two")]
    for version, text in zip(versions, (b"one", b"two")):
        there = judge.client().get_object(Bucket=bucket, Key="k", VersionId=version)
        assert there["Body"].read() == text and there["ServerSideEncryption"] == "AES256"


@pytest.mark.parametrize("algorithm", ["sha256", "crc32c", "crc64nvme"])
def test_stores_keep_checksums_of_uploads(ferry, weed, algorithm):
    staged = {"upload": ferry.call("POST", "/v1/uploads", data=DATA).json()["id"]}
    bucket = weed.new_bucket()
    succeeded(ferry, upload(weed.object(bucket, "k", checksum=algorithm), staged))
    there = weed.client().head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert there[f"Checksum{algorithm.upper()}"] == checksum(algorithm, DATA)


def test_if_exists(ferry, store):
    bucket = store.new_bucket()
    place = store.object(bucket, "k")
    succeeded(ferry, upload(place, {"text": "one"}, if_exists="fail"))
    failed(ferry, upload(place, {"text": "two"}, if_exists="fail"), "destination_exists", "")
    assert store.client().get_object(Bucket=bucket, Key="k")["Body"].read() == b"one"
    succeeded(ferry, upload(place, {"text": "three"}, if_exists="replace"))
    succeeded(ferry, upload(place, {"text": "four"}))
    assert store.client().get_object(Bucket=bucket, Key="k")["Body"].read() == b"four"


# Errors


def test_errors_of_stores(ferry, store):
    bucket = store.new_bucket()
    place = store.object(bucket, "k")
    failed(ferry, download(place), "unacceptable_status", "NoSuchKey")
    failed(ferry, download(place | {"bucket": "outside-nowhere"}), "unacceptable_status", "NoSuchBucket")
    wrong = place | {"credential": store.credential | {"secret_access_key": "wrong"}}
    failed(ferry, download(wrong), "authentication_required", "SignatureDoesNotMatch")
    failed(ferry, upload(wrong), "authentication_required", "SignatureDoesNotMatch")
    unknown = place | {"credential": store.credential | {"access_key_id": "AKIANOBODY"}}
    failed(ferry, download(unknown), "authentication_required", "InvalidAccessKeyId")
    if isinstance(store, Moto):
        failed(ferry, upload(store.stranger.object(bucket, "k")), "unacceptable_status", "AccessDenied")

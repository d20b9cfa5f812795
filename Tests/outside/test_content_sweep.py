"""What sweeps remove from the content store, and what they keep."""
from __future__ import annotations

import contextlib
import dataclasses
import random
import time
import urllib.parse
import uuid

import pytest

from conftest import Ferry, eventually, running
from copy_servers import serving
from object_jobs import content, submit, succeeded
from stores import Store

# Longer than a result in memory, so that results are objects.
DATA = b"0123456789" * 30_000
# Seconds from which unused objects are removed; a sweep begins each second.
UNUSED = 2


@dataclasses.dataclass
class Swept:
    """A service with a content store."""
    ferry: Ferry
    store: Store
    bucket: str
    url: str
    # Begin of the keys of the cluster.
    prefix: str = ""

    @property
    def client(self):
        return self.store.client()

    def keys(self) -> set[str]:
        """Keys of objects, without the prefix of the cluster."""
        listed: set[str] = set()
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix):
            listed |= {one["Key"].removeprefix(self.prefix) for one in page.get("Contents", [])}
        return listed

    def put(self, key: str, data: bytes = b"x"):
        self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=data)

    def uploads(self) -> set[str]:
        listed = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        return {one["Key"].removeprefix(self.prefix) for one in listed}

    def begin_upload(self, key: str):
        self.client.create_multipart_upload(Bucket=self.bucket, Key=self.prefix + key)

    def generation(self) -> int:
        return int(self.client.get_object(Bucket=self.bucket, Key=self.prefix + "generation")["Body"].read())

    def replace_generation(self, data: bytes, is_seen):
        """Writes the object until the service has seen it: a sweep that has begun writes its own number."""
        def is_there():
            self.put("generation", data)
            return is_seen()

        eventually(60, is_there, "the generation is seen")

    def job(self, **fields) -> dict:
        return succeeded(self.ferry, {"kind": "download", "request": {"url": self.url}} | fields)

    def key_of(self, job: dict) -> str:
        key, = {key for key in self.keys() if key.startswith(f"jobs/{job['id']}/")}
        return key

    def state(self) -> dict:
        return self.ferry.call("GET", "/v1/admin/content-store").json()

    def metric(self, name: str) -> float:
        lines = self.ferry.call("GET", "/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))

    def wait_for_sweeps(self, count: int = 2):
        """Sweeps have begun and ended."""
        before = self.state()["generation"]
        eventually(60, lambda: self.state()["generation"] > before + count, "sweeps begin")


@contextlib.contextmanager
def sweeping(store: Store, unused: float = UNUSED, **settings: str):
    bucket = store.new_bucket()
    place = urllib.parse.urlencode({"endpoint": store.url, "addressing": "path"})
    with serving() as server, running(
            FERRY_CONTENT_STORE=f"s3://{bucket}/a/b?{place}",
            FERRY_CONTENT_STORE_ACCESS_KEY_ID=store.access_key_id,
            FERRY_CONTENT_STORE_SECRET_ACCESS_KEY=store.secret_access_key,
            FERRY_CONTENT_STORE_UNUSED_SECONDS=str(unused), **settings) as ferry:
        server.files["/a"] = DATA
        swept = Swept(ferry, store, bucket, f"{server.url}/a")
        eventually(60, lambda: swept.state()["generation"] > 0, "the first sweep begins")
        listed = eventually(60, lambda: swept.client.list_objects_v2(Bucket=bucket).get("Contents"), "it is in the store")
        swept.prefix = listed[0]["Key"].removesuffix("generation")
        assert swept.prefix.startswith("a/b/") and swept.prefix.count("/") == 3
        yield swept


def new_id(prefix: str = "job_") -> str:
    """An identifier that the service has not made."""
    return prefix + "0" + "".join(random.choices("0123456789abcdefghjkmnpqrstvwxyz", k=25))


def new_key(job: str | None = None) -> str:
    return f"jobs/{job or new_id()}/1-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("name", ["judge", "weed"])
def test_unused_contents_go_and_used_ones_stay(request, name):
    with sweeping(request.getfixturevalue(name)) as swept:
        used = swept.job()
        waiting = submit(swept.ferry, {"kind": "download", "request": {"url": swept.url},
                                       "schedule": {"earliest_begin_at": "2030-01-01T00:00:00Z"}})
        used_key = swept.key_of(used)
        unknown, former, own = new_key(), new_key(used["id"]), new_key(waiting["id"])
        pieces = [f"jobs/{job}/pieces/1-00112233/0011223344556677/0-16"
                  for job in (new_id(), used["id"], waiting["id"])]
        foreign = ["readme", "jobs/readme", f"jobs/{new_id()}/1-a", f"uploads/{new_id()}/0011", "other/" + new_key()]
        for key in [unknown, former, own, *pieces, *foreign]:
            swept.put(key)
        for key in [unknown, used_key, own, "jobs/readme"]:
            swept.begin_upload(key)
        kept = {own, used_key, "generation", pieces[2], *foreign}
        eventually(60, lambda: swept.keys() == kept, "unused objects are removed")
        eventually(60, lambda: swept.uploads() == {own, "jobs/readme"}, "unused uploads are removed")
        swept.wait_for_sweeps()
        assert swept.keys() == kept and swept.uploads() == {own, "jobs/readme"}
        assert content(swept.ferry, used) == DATA
        assert swept.metric("ferry_content_store_removed_total") == 6 == swept.state()["removed"]
        assert swept.metric("ferry_content_store_available") == 1
        # The end of a job is the end of its right to all of its own.
        assert swept.ferry.call("POST", f"/v1/jobs/{waiting['id']}/cancel", json={}).status_code == 200
        eventually(60, lambda: swept.keys() == kept - {own, pieces[2]}, "its objects are removed")
        eventually(60, lambda: swept.uploads() == {"jobs/readme"}, "its upload is removed")


def test_staged_uploads(judge):
    with sweeping(judge) as swept:
        made = swept.ferry.call("PUT", "/v1/uploads/u", data=b"abc")
        assert made.status_code == 201, made.text
        folder = f"uploads/{made.json()['id']}/"
        used, = eventually(60, lambda: {key for key in swept.keys() if key.startswith(folder)}, "it is moved")
        unused = [folder + "0011223344556677", f"uploads/{new_id('upl_')}/0011223344556677"]
        for key in unused:
            swept.put(key)
            swept.begin_upload(key)
        eventually(60, lambda: swept.keys() == {used, "generation"}, "other objects are removed")
        eventually(60, lambda: not swept.uploads(), "multipart uploads are removed")
        swept.wait_for_sweeps()
        assert swept.keys() == {used, "generation"}
        assert swept.ferry.call("GET", "/v1/uploads/u/content").content == b"abc"
        assert swept.ferry.call("DELETE", "/v1/uploads/u").status_code == 204
        eventually(2, lambda: swept.keys() == {"generation"}, "the object of a deleted upload is removed at once")


def test_young_contents_stay(judge):
    with sweeping(judge, unused=3_600) as swept:
        key = new_key()
        swept.put(key)
        time.sleep(1)
        assert key in swept.keys() and swept.metric("ferry_content_store_removed_total") == 0


def test_many_pages(judge):
    with sweeping(judge) as swept:
        used = [swept.job() for _ in range(3)]
        keys = [new_key() for _ in range(1_100)]
        for key in keys:
            swept.put(key)
        eventually(120, lambda: len(swept.keys()) == len(used) + 1, "all unused objects are removed")
        assert all(content(swept.ferry, job) == DATA for job in used)
        assert swept.metric("ferry_content_store_removed_total") == len(keys)


def test_deletion_and_retention_reach_the_store(judge):
    with sweeping(judge, FERRY_RETENTION="4") as swept:
        deleted, expired = swept.job(), swept.job()
        key = swept.key_of(deleted)
        assert swept.ferry.call("DELETE", f"/v1/jobs/{deleted['id']}").status_code == 204
        eventually(2, lambda: key not in swept.keys(), "the object of a deleted job is removed at once")
        assert swept.key_of(expired)
        eventually(60, lambda: swept.keys() == {"generation"}, "the object of an expired job is removed")
        assert swept.ferry.call("GET", f"/v1/jobs/{expired['id']}").status_code == 404


def test_a_restored_database_stops_the_removal_until_an_operator_accepts(judge):
    with sweeping(judge) as swept:
        refused = swept.ferry.call("POST", "/v1/admin/content-store/accept", json={})
        assert refused.status_code == 409 and refused.json()["code"] == "invalid_state"
        assert swept.metric("ferry_content_store_restored") == 0
        # As if sweeps had followed that the database does not know.
        swept.replace_generation(b"1000000", lambda: swept.metric("ferry_content_store_restored") == 1)
        generation, key = swept.state()["generation"], new_key()
        swept.put(key)
        swept.begin_upload(key)
        time.sleep(UNUSED + 3)
        assert key in swept.keys() and key in swept.uploads() and swept.generation() == 1_000_000
        assert swept.state() | {"swept_at": None} == {
            "kind": "bucket", "available": True, "generation": generation, "swept_at": None, "restored": True,
            "removed": 0, "missing": 0}
        assert swept.ferry.log().count("it was restored") == 1
        accepted = swept.ferry.call("POST", "/v1/admin/content-store/accept", json={})
        assert accepted.status_code == 200 and accepted.json()["restored"] is False, accepted.text
        assert accepted.json()["generation"] >= 1_000_000
        eventually(60, lambda: key not in swept.keys() and key not in swept.uploads(), "sweeps go on")
        assert swept.metric("ferry_content_store_restored") == 0 and swept.generation() > 1_000_000
        entry = swept.ferry.call("GET", "/v1/admin/audit").json()["data"][0]
        assert (entry["operation"], entry["status"]) == ("acceptContentStore", 200)


def test_a_generation_that_is_no_number_stops_the_removal(judge):
    with sweeping(judge) as swept:
        key = new_key()
        swept.replace_generation(b"x", lambda: "could not be swept" in swept.ferry.log())
        swept.put(key)
        time.sleep(UNUSED + 3)
        assert key in swept.keys()
        swept.client.delete_object(Bucket=swept.bucket, Key=swept.prefix + "generation")
        eventually(60, lambda: key not in swept.keys(), "sweeps go on")


def test_a_missing_object_is_410_and_its_job_stays(judge):
    with sweeping(judge) as swept:
        job = swept.job()
        swept.client.delete_object(Bucket=swept.bucket, Key=swept.prefix + swept.key_of(job))
        for count in (1, 2):
            answer = swept.ferry.call("GET", f"/v1/jobs/{job['id']}/content")
            assert answer.status_code == 410 and answer.json()["code"] == "content_missing"
            assert swept.metric("ferry_content_missing_total") == count == swept.state()["missing"]
        shown = swept.ferry.call("GET", f"/v1/jobs/{job['id']}").json()
        assert shown["state"] == "succeeded"


def test_a_service_without_a_bucket(ferry):
    assert ferry.call("GET", "/v1/admin/content-store").json()["kind"] == "files"
    refused = ferry.call("POST", "/v1/admin/content-store/accept", json={})
    assert refused.status_code == 409 and refused.json()["code"] == "invalid_state"
    assert "ferry_content_store" not in ferry.call("GET", "/metrics").text

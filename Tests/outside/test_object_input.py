"""Jobs with objects of stores that are refused."""
from __future__ import annotations

import pytest

from conftest import running
from object_jobs import download, submit, upload

PLACE = {"bucket": "bucket", "key": "k", "endpoint": "http://127.0.0.1:9"}
KEY = {"access_key_id": "AKIA", "secret_access_key": "secret"}


def changed(**members) -> dict:
    """The download with other members of its object; None: without that member."""
    return download({name: value for name, value in (PLACE | members).items() if value is not None})


@pytest.mark.parametrize("job, pointer, code", [
    (changed(bucket=None), "#/source/s3/bucket", "required"),
    (changed(bucket="a/b"), "#/source/s3/bucket", "invalid_value"),
    (changed(key=""), "#/source/s3/key", None),
    (changed(key="a/../b"), "#/source/s3/key", "invalid_value"),
    (changed(key="./b"), "#/source/s3/key", "invalid_value"),
    (changed(key="a\nb"), "#/source/s3/key", "invalid_value"),
    (changed(key="ä" * 512 + "a"), "#/source/s3/key", "too_long"),
    (changed(endpoint="ftp://store.example"), "#/source/s3/endpoint", None),
    (changed(endpoint="http://store.example/path"), "#/source/s3/endpoint", "invalid_value"),
    (changed(endpoint="http://store.example/?a=b"), "#/source/s3/endpoint", "invalid_value"),
    (changed(endpoint="http://u:p@store.example"), "#/source/s3/endpoint", "invalid_value"),
    (changed(region="a/b"), "#/source/s3/region", "invalid_value"),
    (changed(addressing="host"), "#/source/s3/addressing", "invalid_value"),
    (changed(credential="name"), "#/source/s3/credential", "not_supported"),
    (changed(credential={"access_key_id": "AKIA"}), "#/source/s3/credential/secret_access_key", "required"),
    (changed(credential={"secret_access_key": "x"}), "#/source/s3/credential/access_key_id", "required"),
    (changed(colour="red"), "#/source/s3/colour", "unknown_field"),
    (changed(checksum="sha256"), "#/source/s3/checksum", "unknown_field"),
    (download(PLACE, request={"url": "http://127.0.0.1:9/bucket/other"}), "#/request/url", "invalid_combination"),
    (download(PLACE, request={"method": "POST", "body": {"text": "a"}}), "#/request/method", "invalid_combination"),
    (download(PLACE, request={"auth": {"type": "bearer", "token": "t"}}), "#/request/auth", "invalid_combination"),
    *((download(PLACE, request={"headers": {name: "x"}}), f"#/request/headers/{name}", "invalid_combination")
      for name in ("Authorization", "x-amz-date", "X-Amz-Content-SHA256", "x-amz-security-token", "x-amz-checksum-crc32")),
    ({"kind": "download", "source": {"url": "https://store.example/a"}}, "#/source/url", "not_supported"),
    ({"kind": "upload", "source": {"text": "a"}, "destination": {"url": "https://store.example/a"}},
     "#/destination/url", "not_supported"),
    (upload(PLACE, if_exists="rename"), "#/destination/if_exists", "not_supported"),
    (upload(PLACE, {"text": "a", "form": {"field": "f"}}), "#/source/form", "invalid_combination"),
    (upload(PLACE | {"checksum": "md5"}), "#/destination/s3/checksum", "invalid_value"),
    (upload(PLACE | {"metadata": {"a b": "x"}}), "#/destination/s3/metadata/a b", "invalid_value"),
    (upload(PLACE | {"metadata": {"a": "x\ny"}}), "#/destination/s3/metadata/a", "invalid_value"),
    (upload(PLACE, {"s3": PLACE, "form": {}}), "#/source/form", "invalid_combination"),
    ({"kind": "data", "request": {"url": "http://127.0.0.1:9/"}, "destination": {"s3": PLACE}},
     "#/destination/s3", "not_supported"),
])
def test_bad_input(ferry, job, pointer, code):
    refused = ferry.call("POST", "/v1/jobs", json=job | {"suspended": True})
    assert refused.status_code == 422, refused.text
    found = {error["pointer"].replace("%20", " "): error["code"] for error in refused.json()["errors"]}
    assert pointer in found and code in (None, found[pointer]), found


def test_the_destination_of_an_upload_does_not_change(ferry):
    job = submit(ferry, upload(PLACE, suspended=True))
    patched = ferry.call("PATCH", f"/v1/jobs/{job['id']}", json={"destination": {"s3": PLACE | {"key": "other"}}})
    assert patched.status_code == 422, patched.text
    assert ferry.call("GET", f"/v1/jobs/{job['id']}").json()["request"]["url"] == job["request"]["url"]


def test_private_endpoints_are_blocked():
    with running(FERRY_EGRESS_ALLOW="") as ferry:
        public = {"request": {"url": "https://203.0.113.1/"}}
        for job in (download(PLACE), upload(PLACE), {"kind": "upload", "source": {"s3": PLACE}} | public,
                    {"kind": "download", "destination": {"s3": PLACE}} | public):
            refused = ferry.call("POST", "/v1/jobs", json=job)
            assert refused.status_code == 422, refused.text
            assert "blocked_address" in [error["code"] for error in refused.json()["errors"]]

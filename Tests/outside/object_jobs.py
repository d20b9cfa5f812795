"""Jobs with objects of stores, for the checks of them."""
from __future__ import annotations

from conftest import Ferry, eventually


def download(place: dict, **fields) -> dict:
    return {"kind": "download", "source": {"s3": place}} | fields


def upload(place: dict, source: dict | None = None, if_exists: str | None = None, **fields) -> dict:
    rule = {"if_exists": if_exists} if if_exists else {}
    return {"kind": "upload", "source": source or {"text": "abc"}, "destination": {"s3": place} | rule} | fields


def submit(ferry: Ferry, job: dict) -> dict:
    made = ferry.call("POST", "/v1/jobs", json=job)
    assert made.status_code == 201, made.text
    return made.json()


def ended(ferry: Ferry, identifier: str) -> dict:
    def look():
        shown = ferry.call("GET", f"/v1/jobs/{identifier}", headers={"Prefer": "wait=10"}).json()
        return shown if shown["state"] in ("succeeded", "failed", "cancelled") else None

    return eventually(120, look, "the job ends")


def run(ferry: Ferry, job: dict) -> dict:
    return ended(ferry, submit(ferry, job)["id"])


def succeeded(ferry: Ferry, job: dict) -> dict:
    shown = run(ferry, job)
    assert shown["state"] == "succeeded", shown["error"]
    return shown


def failed(ferry: Ferry, job: dict, code: str, word: str) -> dict:
    """The job as it failed with that code and a message that has that word."""
    shown = run(ferry, job)
    assert shown["state"] == "failed" and shown["error"]["code"] == code, shown["error"]
    assert word in shown["error"]["message"], shown["error"]
    return shown


def content(ferry: Ferry, job: dict) -> bytes:
    return ferry.call("GET", f"/v1/jobs/{job['id']}/content").content

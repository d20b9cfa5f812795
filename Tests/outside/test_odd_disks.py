"""File systems that cannot do what those of Linux can, as many in user space."""
from __future__ import annotations

import errno

import pytest

from conftest import refusing, running

LINKAT, RENAMEAT2 = 265, 316


def fetched(service, receiver, names: list[str], if_exists: str) -> list[dict]:
    """What becomes of downloads to these names, one after the other."""
    receiver.files["/file"] = b"some bytes" * 100
    ended = []
    for name in names:
        job = {"kind": "download", "request": {"url": f"{receiver.url}/file"},
               "destination": {"path": name, "if_exists": if_exists}}
        answer = service.call("POST", "/v1/jobs", json=job, headers={"Prefer": "wait=30"})
        ended.append(answer.json())
    return ended


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.EIO])
def test_names_are_given_only_if_they_are_free_where_there_are_no_hard_links(receiver, error):
    with running(refuse=refusing({LINKAT: error})) as service:
        first, second, third = fetched(service, receiver, ["a", "a", "a"], "rename")
        assert [job["result"]["path"] for job in (first, second, third)] == ["a", "a-1", "a-2"]
        free, taken = fetched(service, receiver, ["b", "b"], "fail")
        assert (free["state"], taken["state"], taken["error"]["code"]) == ("succeeded", "failed", "destination_exists")
        files = service.data / "files"
        assert {path.name: path.read_bytes() for path in files.iterdir()} == {
            name: receiver.files["/file"] for name in ("a", "a-1", "a-2", "b")}


def test_what_a_disk_cannot_do_is_said_at_once(receiver):
    with running(refuse=refusing({LINKAT: errno.EPERM, RENAMEAT2: errno.EINVAL})) as service:
        for if_exists in ("fail", "rename"):
            job, = fetched(service, receiver, ["c"], if_exists)
            assert (job["state"], job["error"]["code"], job["attempt"]) == ("failed", "destination_invalid", 1), job
            assert "if_exists" in job["error"]["message"]
        job, = fetched(service, receiver, ["c"], "replace")
        assert job["state"] == "succeeded"
        assert [path.name for path in (service.data / "files").iterdir()] == ["c"]

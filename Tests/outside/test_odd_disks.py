"""File systems that cannot do what those of Linux can, as many in user space."""
from __future__ import annotations

import errno
import signal

import pytest

from conftest import Stalls, eventually, refusing, running

LINKAT, RENAMEAT2 = 265, 316
PWRITE64, FSYNC, FDATASYNC, SYNCFS = 18, 74, 75, 306


def fetched(service, receiver, names: list[str], if_exists: str) -> list[dict]:
    """What becomes of downloads to these names, one after the other."""
    receiver.files["/file"] = b"some bytes" * 100
    ended = []
    for name in names:
        job = {"kind": "download", "request": {"url": f"{receiver.url}/file"},
               "destination": {"path": name, "if_exists": if_exists}}
        answer = service.call("POST", "/v1/jobs", json=job, headers={"Prefer": "wait=60"})
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


def test_jobs_do_not_wait_for_ever_for_a_disk_that_hangs(receiver):
    """Volumes whose I/O stalls give no error. Both slots wait for the disk, until they are given up."""
    receiver.files |= {name: b"some bytes" * 100 for name in ("/one", "/two")}
    settings = {"FERRY_CONCURRENCY": "2", "FERRY_STORAGE_TIMEOUT": "12"}
    with Stalls(FSYNC, FDATASYNC, SYNCFS) as disk, running(refuse=disk.install, **settings) as service:
        def of(identifier):
            return service.call("GET", f"/v1/jobs/{identifier}").json()

        def answers():
            return "[+]storage_writable ok" in service.call("GET", "/readyz?verbose").text

        disk.stalled.set()
        one, two = (service.call("POST", "/v1/jobs", json={
            "kind": "download", "request": {"url": receiver.url + name}, "destination": {"path": name[1:]}
        }).json()["id"] for name in ("/one", "/two"))
        eventually(120, lambda: disk.waiting > 0, "the disk hangs")
        eventually(120, lambda: not answers(), "nothing more is begun there")
        eventually(120, lambda: service.call("GET", "/readyz").status_code == 200, "ready all the same")
        # Which needs no disk, and a slot.
        data = service.call("POST", "/v1/jobs", json={"kind": "data", "request": {"url": receiver.url + "/one"}},
                            headers={"Prefer": "wait=60"}).json()
        assert data["state"] == "succeeded", data
        for job in (one, two):
            state = eventually(120, lambda: (now := of(job))["state"] == "queued" and now, "given up")
            assert state["waiting_reason"]["code"] == "storage_unavailable", state
        assert of(one)["attempt"] == 1
        metrics = service.call("GET", "/metrics").text
        age = next(line for line in metrics.splitlines() if line.startswith("ferry_file_work_age_seconds "))
        assert float(age.split()[1]) >= 12
        service.call("POST", f"/v1/jobs/{two}/cancel")
        eventually(120, lambda: of(two)["state"] == "cancelled", "what waits can be cancelled")

        disk.stalled.clear()
        eventually(120, answers, "the disk is back")
        ended = eventually(120, lambda: (now := of(one))["state"] == "succeeded" and now, "goes on")
        assert ended["error"] is None
        files = service.data / "files"
        assert {path.name: path.read_bytes() for path in files.iterdir() if not path.name.startswith(".")} == {
            "one": receiver.files["/one"]}


def test_a_node_whose_loop_hangs_ends_and_says_so(receiver):
    """Whoever starts it again must not take that for an end that was asked for, nor wait for the disk."""
    receiver.files["/large"] = b"some bytes" * 1_000_000
    settings = {"FERRY_CONCURRENCY": "2", "FERRY_DRAIN_SECONDS": "0"}
    with Stalls(PWRITE64) as disk, running(refuse=disk.install, status=1, **settings) as service:
        disk.stalled.set()
        service.call("POST", "/v1/jobs", json={
            "kind": "download", "request": {"url": receiver.url + "/large"}, "destination": {"path": "large"}})
        eventually(120, lambda: disk.waiting > 0, "the disk hangs")
        assert service.call("GET", "/livez").status_code == 200
        eventually(240, lambda: service.process.poll() is not None, "it ends")
        assert service.process.poll() == 1
        assert "although a part does not stop" in service.log()


@pytest.mark.parametrize("calls, words", [
    ((FSYNC, FDATASYNC, SYNCFS), "transfers did not end"),
    # This one holds up the loops themselves.
    ((PWRITE64,), "although a part does not stop"),
])
def test_a_disk_that_hangs_does_not_keep_a_node_from_stopping(receiver, folder, calls, words):
    """Whoever stops it kills it after a while, and its PostgreSQL with it. The next start finds what was given up."""
    receiver.files |= {name: b"some bytes" * 1_000_000 for name in ("/one", "/two")}
    settings = {"FERRY_DATA_DIR": str(folder)}
    with Stalls(*calls) as disk, running(refuse=disk.install, FERRY_DRAIN_SECONDS="0", **settings) as service:
        disk.stalled.set()
        jobs = [service.call("POST", "/v1/jobs", json={
            "kind": "download", "request": {"url": receiver.url + name}, "destination": {"path": name[1:]}
        }).json()["id"] for name in ("/one", "/two")]
        eventually(120, lambda: disk.waiting > 0, "the disk hangs")
        service.process.send_signal(signal.SIGTERM)
        eventually(240, lambda: service.process.poll() is not None, "it ends")
        assert service.process.poll() == 0
        assert words in service.log()
    # The last that the server removes, when all of it has ended.
    assert not (folder / "postgres/postmaster.pid").exists()
    assert not any(path.name in ("one", "two") for path in (folder / "files").iterdir())
    with running(**settings) as service:
        for job in jobs:
            ended = service.call("GET", f"/v1/jobs/{job}", headers={"Prefer": "wait=60"}).json()
            assert (ended["state"], ended["error"]) == ("succeeded", None), ended
        assert {path.name: path.read_bytes() for path in (folder / "files").iterdir()
                if not path.name.startswith(".")} == {
            name[1:]: receiver.files[name] for name in ("/one", "/two")}
    assert "not properly shut down" not in (folder / "postgres.log").read_text()

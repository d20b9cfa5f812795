"""A short run of Benchmarks/soak: a cluster under a random load while everything around it fails."""
from __future__ import annotations

import hashlib
import json
import sys
import time
import types

import pytest
from conftest import REPOSITORY, binary

sys.path.insert(0, str(REPOSITORY / "Benchmarks/soak"))

import origin
import soak
from book import Book, Record
from cluster import Answer
from judge import HEALTHY_MEDIAN_MAX, HEALTHY_SECONDS_MAX, Judge


def test_a_cluster_under_chaos_keeps_its_promises():
    # Which takes as long as the run.
    kinds = [kind for kind in soak.KINDS if kind != "database_long"]
    # A tenant that misbehaves is part of long runs: what it does to others takes longer to show.
    with soak.soaked(str(binary()), seconds=25, seed=7, nodes=3, kinds=kinds, clients=4, pause=0.6,
                     chaos_pause=2, misbehave=False) as run:
        assert not run.book.wrong, "\n".join(run.book.wrong)
        spoil(run)
        wrong = run.judge()
        for what in ("lost: ", "the file is not what the result says", "endpoint all has not got", "at once, its limit",
                     "left over: ", "rows: "):
            assert any(what in text for text in wrong), f"the judge does not see: {what}"
        run.book.wrong.clear()
    assert not run.book.wrong, "\n".join(run.book.wrong)


def spoil(run):
    """What a service that breaks its promises would have left."""
    records = run.book.by_id
    jobs = [job for job in run.cluster.pages("/v1/jobs?state=succeeded") if job["id"] in records]
    lost = next(job for job in jobs if "delete" not in records[job["id"]].commands)
    assert run.cluster.call("DELETE", f"/v1/jobs/{lost['id']}").status == 204
    half = next(job for job in jobs if job["kind"] == "download" and job["destination"]
                and job["result"]["size"] > 1 and job["id"] != lost["id"])
    (run.cluster.files / half["result"]["path"]).write_bytes(b"half")
    # Of no job: nobody misses what was to be told of one that is deleted.
    event = next(one.identifier for one in reversed(run.receiver.deliveries)
                 if one.path == "/endpoint/all" and one.type == "session.events_finished")
    run.receiver.deliveries = [one for one in run.receiver.deliveries if one.identifier != event]
    now = time.monotonic()
    run.origin.visits += [origin.Visit("limited", "", "x", "GET", now, now + 1) for _ in range(6)]
    (run.cluster.files / f".ferry-{jobs[-1]['id']}-1.part").write_bytes(b"half")
    run.cluster.postgres.query("INSERT INTO job_counts (shard, queued) VALUES ('spoilt', 1)")


class Kept:
    """What a cluster shows that has nothing but these jobs, events and attempts of each job."""
    nodes: list = []

    def __init__(self, jobs, events, files=None, attempts=()):
        self.shown = {"/v1/jobs": jobs, "/v1/events": events}
        self.files = files
        self.attempts = list(attempts)

    def pages(self, path):
        yield from self.shown[path]

    def call(self, *_):
        return Answer(200, {}, json.dumps({"data": self.attempts}).encode())


def job(identifier, state, url="http://127.0.0.1:1/x", seconds=1):
    begin = "2026-11-21T22:00:00.000000Z"
    end = f"2026-11-21T22:{seconds // 60:02}:{seconds % 60:02}.000000Z"
    return {"id": identifier, "kind": "data", "state": state, "metadata": {}, "attempt": 1, "error": None, "result": None,
            "request": {"url": url}, "retry_of": None, "created_at": begin, "started_at": begin, "finished_at": end,
            "schedule": {"on_dependency_failure": "fail"}}


def told(identifier, *ends):
    return [{"id": f"evt_{identifier}{number}", "type": f"job.{end}",
             "data": {"session": "default", "sequence": number, "job": {"id": identifier}}}
            for number, end in enumerate(["created", *ends])]


def judged(jobs, events, book=None):
    return Judge(Kept(jobs, events), types.SimpleNamespace(ports={"shared": 1, "good": 2}, visits=[]), None,
                 book or Book(), {})


@pytest.mark.parametrize(("need", "state", "complaint"), [
    ("cancelled", "failed", None), ("cancelled", "succeeded", "succeeded after a failure"),
    ("failed", "failed", None), ("succeeded", "succeeded", None), ("succeeded", "failed", "has to succeed")])
def test_a_dependency_that_was_deleted_has_ended_as_its_events_say(need, state, complaint):
    judge = judged([job("job_a", state)], told("job_b", need) + told("job_a", state))
    record = Record("a", {}, origin.Plan(1), set(), None, ids=["job_a"], must_succeed=True, needs=["job_b"])
    judge.dependencies(judge.jobs["job_a"], record)
    assert [text[:len(complaint or "")] for text in judge.book.wrong] == ([complaint] if complaint else [])


@pytest.mark.parametrize(("seconds", "complains"), [(0, False), (0.05, False), (1, True)])
def test_a_job_begins_after_its_dependency_as_far_as_clocks_agree(seconds, complains):
    need = job("job_b", "succeeded")
    need["finished_at"] = f"2026-11-21T22:00:{seconds:09.6f}Z"
    judge = judged([job("job_a", "succeeded"), need], [])
    record = Record("a", {}, origin.Plan(1), set(), None, ids=["job_a"], needs=["job_b"])
    judge.dependencies(judge.jobs["job_a"], record)
    assert ["began before" in text for text in judge.book.wrong] == [True] * complains


@pytest.mark.parametrize(("code", "before", "complaint"), [
    ("deadline_exceeded", None, "a name without a success"), ("node_lost", None, None),
    ("deadline_exceeded", b"old", "what was there before is gone"), ("deadline_exceeded", b"new", None),
    ("node_lost", b"old", None), ("node_lost", b"half", "what was there before is gone")])
def test_only_a_lost_result_leaves_a_file_of_a_failed_job(tmp_path, code, before, complaint):
    (tmp_path / "f").write_bytes(b"new")
    attempt = {"number": 1, "error": {"code": code}, "started_at": None, "finished_at": None}
    failed = job("job_a", "failed")
    book = Book()
    judge = Judge(Kept([failed], [], tmp_path, [attempt]), types.SimpleNamespace(ports={}, visits=[]), None, book, {})
    whole = set() if before == b"half" else {hashlib.sha256(b"new").hexdigest()}
    record = Record("a", {"destination": {"path": "f"}}, origin.Plan(1), whole, None, ids=["job_a"], before=before)
    judge.by_token["a"] = []
    judge.names(failed, record)
    assert [text[:len(complaint or "")] for text in book.wrong] == ([complaint] if complaint else [])


def test_the_judge_sees_that_a_tenant_is_held_for_another_one():
    def complaints(held, *seconds):
        book = Book()
        if held:
            book.held["job_0"] = ("host_rate", "Its host is given few requests.")
        jobs = [job(f"job_{number}", "succeeded", seconds=one) for number, one in enumerate(seconds)]
        # What goes elsewhere may take its time.
        judge = judged([*jobs, job("job_x", "succeeded", "http://127.0.0.1:2/x", 3_000)], [], book)
        judge.isolation()
        return book.wrong

    assert complaints(False, 1, 2, HEALTHY_SECONDS_MAX) == []
    assert ["held for another tenant: 1 jobs for host_rate" in text for text in complaints(True, 1, 1)] == [True]
    slow = HEALTHY_MEDIAN_MAX + 1
    assert ["median" in text for text in complaints(False, slow, slow, slow)] == [True]
    assert ["a healthy job" in text for text in complaints(False, 1, 1, HEALTHY_SECONDS_MAX + 1)] == [True]
    assert complaints(False) == ["no healthy job at the shared host has ended"]

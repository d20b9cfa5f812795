"""A short run of Benchmarks/soak: a cluster under a random load while everything around it fails."""
from __future__ import annotations

import sys
import time

from conftest import REPOSITORY, binary

sys.path.insert(0, str(REPOSITORY / "Benchmarks/soak"))

import origin
import soak


def test_a_cluster_under_chaos_keeps_its_promises():
    # Which takes as long as the run.
    kinds = [kind for kind in soak.KINDS if kind != "database_long"]
    with soak.soaked(str(binary()), seconds=25, seed=7, nodes=3, kinds=kinds, clients=4, pause=0.6,
                     chaos_pause=2) as run:
        assert not run.book.wrong, "\n".join(run.book.wrong)
        spoil(run)
        wrong = run.judge()
        for what in ("lost: ", "the file is not what the result says", "endpoint all has not got", "at once, its limit",
                     "left over: "):
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

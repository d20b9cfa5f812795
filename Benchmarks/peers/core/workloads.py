"""W1..W8, each defined once and applied to every peer alike."""
from __future__ import annotations

import os
import random
import shutil
import time

from . import env, httpc, run

MEDIUM, LARGE = 16, 4       # transfers at a time each service is configured for; small jobs: peer.small


def _small(peer):
    return int(os.environ.get("BENCH_SMALL") or peer.small)


def _variant(peer) -> str:
    """Which of the settings that matter for a crash were changed through the environment (celery only)."""
    names = {"BENCH_ACKS_LATE": "acks_late", "BENCH_PREFETCH": "prefetch", "BENCH_VISIBILITY": "visibility_timeout"}
    given = [f"{text} {os.environ[key]}" for key, text in names.items() if key in os.environ]
    return f" ({', '.join(given)})" if peer.name == "celery" and given else ""


def _record(results, **row):
    row.pop("handles", None)
    results.append(row)
    v = row.get("verify") or {}
    line = {k: (round(x, 3) if isinstance(x, float) else x) for k, x in row.items()
            if not isinstance(x, (dict, list))}
    print("   ", line, f"good={v.get('good')}" if v else "", flush=True)


def _is_service(peer):
    return hasattr(peer, "submit_requests")


def _transfers(peer, origin, results, workload, size, count, concurrency, reps, batches, op="get", limit=60):
    """The common shape of W1, W2, W3 and W6."""
    if op not in peer.can:
        _record(results, workload=workload, peer=peer.name, note=f"no {op}")
        return
    service = _is_service(peer)
    if service:
        peer.start(concurrency)
    try:
        for batch in batches if service else [False]:
            if batch and "batch" not in peer.can:
                continue
            with env.measuring():  # one hold for all repetitions
                for rep in range(reps):
                    folder = env.fresh("out-small" if env.SIZES[size] < env.MIB else "out")
                    jobs = run.make_jobs(origin, size, count, folder, f"{workload}{'b' if batch else 's'}{rep}", op=op)
                    if service:
                        got = run.service_run(peer, origin, jobs, batch=batch, limit=limit)
                    else:
                        got = run.oneshot_run(peer, origin, jobs, concurrency=concurrency)
                    _record(results, workload=workload, peer=peer.name, batch=batch, rep=rep, size=size, op=op,
                            concurrency=concurrency, **got)
                    shutil.rmtree(folder, ignore_errors=True)
                    if op == "put":
                        origin.clear_uploads()
                    if got["timed_out"]:
                        if service:  # a fresh service, so that leftovers do not run into the next repetition
                            peer.stop()
                            peer.start(concurrency)
                        break
    finally:
        if service:
            peer.stop()


def w1(peer, origin, results, reps=3, count=5000):
    _transfers(peer, origin, results, "W1", "1k", count, _small(peer), reps, [False, True])


def w2(peer, origin, results, reps=3, count=0):
    _transfers(peer, origin, results, "W2a", "100k", 500, MEDIUM, reps, [False])
    _transfers(peer, origin, results, "W2b", "10m", 100, MEDIUM, reps, [False])


def w3(peer, origin, results, reps=3, count=0):
    _transfers(peer, origin, results, "W3a", "1g", 1, LARGE, reps, [False], limit=90)
    _transfers(peer, origin, results, "W3b", "1g", 4, LARGE, max(1, reps - 1), [False], limit=120)


def w6(peer, origin, results, reps=3, count=0):
    _transfers(peer, origin, results, "W6a", "100k", 500, MEDIUM, reps, [False], op="put")
    _transfers(peer, origin, results, "W6b", "10m", 20, MEDIUM, reps, [False], op="put")


def w4(peer, origin, results, reps=1, count=2000):
    """`count` slow downloads at once; each lasts about 35 s (100 KiB; 50 s from 5,000 on)."""
    if not _is_service(peer):
        return
    if count > peer.max_concurrency:
        _record(results, workload="W4", peer=peer.name, jobs=count, note="not configurable for so many")
        return
    rate = 3000 if count < 5000 else 2000
    peer.start(count)
    try:
        folder = env.fresh("out-small")
        jobs = run.make_jobs(origin, "100k", count, folder, f"W4n{count}", rate=rate)
        seen = {"max": 0, "full_at": None}
        t0 = time.perf_counter()
        last = [0.0]

        def tick():
            now = time.perf_counter() - t0
            if now - last[0] < 0.5:
                return
            last[0] = now
            n = origin.in_flight()
            if n > seen["max"]:
                seen["max"] = n
            if n >= count and seen["full_at"] is None:
                seen["full_at"] = now

        with env.measuring():
            t0 = time.perf_counter()
            got = run.service_run(peer, origin, jobs, batch="batch" in peer.can, limit=150, on_tick=tick)
        per = {g: (got["usage"]["pss_peak"][g] - got["usage"]["pss_before"][g]) / count for g in ("service", "db")}
        _record(results, workload="W4", peer=peer.name, rate=rate, max_in_flight=seen["max"],
                all_in_flight_at=seen["full_at"], kib_per_transfer=per["service"] / 1024,
                kib_per_transfer_db=per["db"] / 1024, **got)
    finally:
        peer.stop()
        shutil.rmtree(env.SMALL_OUT, ignore_errors=True)


def w5(peer, origin, results, reps=1, count=50):
    """Idle service, one job: submit -> first byte asked for at the origin, submit -> completion seen."""
    if not _is_service(peer):
        return
    peer.start(_small(peer))
    try:
        folder = env.fresh("out-small")
        jobs = run.make_jobs(origin, "1k", count + 3, folder, "W5")
        mark = origin.log_mark()
        rows = {}
        rng = random.Random(5)
        with env.measuring():
            client = httpc.Client(peer.port)
            for job in jobs:
                time.sleep(0.1 + rng.random() * 0.1)
                raw = peer.submit_requests([job], False)[0]
                wall, t0 = time.time(), time.perf_counter()
                answer = client.call(raw)
                accepted = time.perf_counter() - t0
                handle = peer.handles([answer], False)[0]
                while (state := peer.status(handle)) not in ("done", "failed", "lost") or state == "lost":
                    if time.perf_counter() - t0 > 15:
                        break
                    time.sleep(0.001)
                rows[job.key] = {"sent": wall, "accepted": accepted, "done": time.perf_counter() - t0, "state": state}
            client.close()
        for entry in origin.log_since(mark):
            key = entry["uri"].split("?")[0].rsplit("/", 1)[1]
            if key in rows and "first" not in rows[key]:
                rows[key]["first"] = max(0.0, entry["start"] - rows[key]["sent"])
        kept = list(rows.values())[3:]  # three to warm up
        out = {}
        for name in ("accepted", "first", "done"):
            values = sorted(r[name] * 1000 for r in kept if name in r)
            if values:
                out[name + "_p50_ms"] = values[len(values) // 2]
                out[name + "_p95_ms"] = values[int(len(values) * 0.95)]
        _record(results, workload="W5", peer=peer.name, n=len(kept), **out,
                states={s: sum(r["state"] == s for r in kept) for s in {r["state"] for r in kept}},
                verify=run.verify(origin, jobs))
    finally:
        peer.stop()
        shutil.rmtree(env.SMALL_OUT, ignore_errors=True)


def w7(peer, origin, results, reps=1, count=1000):
    """kill -9 of the service (not of the database) while 1,000 x 100 KiB are under way, then restart."""
    if not _is_service(peer) or "crash" not in peer.can:
        return
    for rep in range(reps):
        if peer.name == "aria2":
            peer.start(32, session=True)
        else:
            peer.start(32)
        try:
            folder = env.fresh("out-small")
            jobs = run.make_jobs(origin, "100k", count, folder, f"W7r{rep}", rate=70_000)  # about 1.1 s each
            mark = origin.log_mark()
            with env.measuring():
                requests = peer.submit_requests(jobs, False)
                t0 = time.perf_counter()
                answers = httpc.run_many(peer.port, requests, 8)
                handles = peer.handles(answers, False)
                while peer.remaining() > count * 0.7 and time.perf_counter() - t0 < 60:
                    time.sleep(0.02)
                peer.kill9()
                killed = time.perf_counter() - t0
                at_kill = run.verify(origin, jobs)
                # a file under its final name that is not whole and that nothing marks as unfinished
                unmarked = sum(1 for j in jobs if j.path.exists() and j.path.stat().st_size != env.SIZES["100k"]
                               and not j.path.with_name(j.path.name + ".aria2").exists())
                time.sleep(1)
                t1 = time.perf_counter()
                peer.restart()
                best, best_at = -1, time.perf_counter()
                while time.perf_counter() - t1 < 120:
                    good = sum(1 for j in jobs if j.path.exists() and j.path.stat().st_size == env.SIZES["100k"])
                    now = time.perf_counter()
                    if good > best:
                        best, best_at = good, now
                    if good == count or now - best_at > 75:
                        break
                    time.sleep(0.25)
                recovered = best_at - t1
            end = run.verify(origin, jobs)
            served: dict[str, int] = {}
            partial = 0
            for e in origin.log_since(mark):
                if e["method"] == "GET" and e["uri"].startswith("/f/"):
                    key = e["uri"].split("?")[0].rsplit("/", 1)[1]
                    if e["sent"] >= env.SIZES["100k"] and e["complete"]:
                        served[key] = served.get(key, 0) + 1
                    else:
                        partial += 1
            said_done_bad = 0
            states: dict[str, int] = {}
            for j, h in zip(jobs, handles):
                s = peer.status(h) if h is not None else "refused"
                states[s] = states.get(s, 0) + 1
                if s == "done" and not (j.path.exists() and j.path.stat().st_size == env.SIZES["100k"]):
                    said_done_bad += 1
            _record(results, workload="W7", peer=peer.name, rep=rep, accepted=sum(h is not None for h in handles),
                    killed_at=killed, done_at_kill=at_kill["good"], partial_unmarked_at_kill=unmarked,
                    lost=count - end["good"], wrong=end["wrong"], missing=end["missing"],
                    fetched_twice=sum(1 for n in served.values() if n > 1), cut_requests=partial,
                    said_done_but_bad=said_done_bad, recovered_s=recovered, states=states,
                    states_text=str(states),
                    variant=_variant(peer))
        finally:
            peer.stop()
            shutil.rmtree(env.SMALL_OUT, ignore_errors=True)


ALL = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W7": w7}

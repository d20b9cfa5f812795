#!/usr/bin/env python3
"""Turn result lines (JSON, one a run) into Markdown tables: report.py results.jsonl > tables.md"""
from __future__ import annotations

import collections
import json
import statistics
import sys

GIB, KIB = 1024**3, 1024
SIZE = {"1k": KIB, "100k": 100 * KIB, "10m": 10 * 1024**2, "1g": GIB}


def spread(values, digits=0):
    values = sorted(v for v in values if v is not None)
    if not values:
        return "-"
    fmt = lambda v: f"{v:,.{digits}f}"  # noqa: E731
    if len(values) == 1:
        return fmt(values[0])
    return f"{fmt(values[0])} / **{fmt(statistics.median(values))}** / {fmt(values[-1])}"


def med(values, digits=2):
    values = [v for v in values if v is not None]
    return f"{statistics.median(values):,.{digits}f}" if values else "-"


heading = ""


def section(title):
    """The title of the next table, printed with it: what was not measured is not mentioned."""
    global heading
    heading = title


def table(head, rows):
    if not rows:
        return
    if heading:
        print(f"### {heading}\n")
        section("")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for r in rows:
        print("| " + " | ".join(str(c) for c in r) + " |")
    print()


def ratios(rows):
    """Ferry against each peer: medians of the same file of results, more is better (W5: times turned round)."""
    values = collections.defaultdict(list)
    for r in rows:
        if "usage" in r and "size" in r:
            name = r["workload"] + (", 100 a request" if r.get("batch") else "")
            values[name, r["peer"]].append(r["verify"]["good"] / r["seen_s"])
        elif r["workload"] == "W5" and "done_p50_ms" in r:
            values["W5", r["peer"]].append(1 / r["done_p50_ms"])
        elif r["workload"] == "W4" and r.get("kib_per_transfer"):
            kib = r["kib_per_transfer"] + r["kib_per_transfer_db"]
            values[f"W4, {r['jobs']}, memory", r["peer"]].append(1 / kib)
        elif r["workload"] == "W8":
            values[f"W8, {r['depth']}", r["peer"]].append(r["jobs_s"])
    medians = {key: statistics.median(v) for key, v in values.items()}
    peers = list(dict.fromkeys(peer for _, peer in medians))
    ours = [peer for peer in peers if peer.startswith("ferry")]
    others = [peer for peer in peers if peer not in ours]
    if not ours or not others:
        return
    section("Ferry's figure divided by the peer's")
    for mine in ours:
        table([mine, *others], [
            [name] + [f"{medians[name, mine] / medians[name, peer]:.2f}" if medians.get((name, peer)) else "-"
                      for peer in others]
            for name in dict.fromkeys(name for name, _ in medians) if (name, mine) in medians])


def done(r):
    return r["verify"]["good"]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1])]
    ratios(rows)
    by = collections.defaultdict(list)
    for r in rows:
        by[r["workload"]].append(r)

    def grouped(name):
        out = collections.OrderedDict()
        for r in by[name]:
            if "usage" in r:
                out.setdefault((r["peer"], r.get("batch", False)), []).append(r)
        return out.items()

    def mode(peer, batch):
        return peer + (", 100 jobs a request" if batch else "")

    def bad(rs):
        n = sum(r["verify"]["wrong"] + r["verify"]["missing"] for r in rs)
        return f"{n} of {sum(r['jobs'] for r in rs)}" if n else "0"

    def other(rs):
        return med([100 * r["usage"]["cpu_other"] / (2 * r["seen_s"]) for r in rs], 0) + " %"

    for name, title in (("W1", "W1: 5,000 x 1 KiB downloads, 8 client connections"),):
        section(title)
        table(["peer", "jobs/s (min / median / max)", "CPU s per 1,000 jobs: service", "database", "client",
               "submitting s", "peak MiB service", "peak MiB database", "bad files", "foreign CPU"],
              [[mode(p, b), spread([done(r) / r["seen_s"] for r in rs]),
                med([r["usage"]["cpu"]["service"] / done(r) * 1000 for r in rs if done(r)]),
                med([r["usage"]["cpu"]["db"] / done(r) * 1000 for r in rs if done(r)]),
                med([r["usage"]["cpu"]["client"] / done(r) * 1000 for r in rs if done(r)]),
                med([r["submit_s"] for r in rs]),
                med([r["usage"]["pss_peak"]["service"] / 2**20 for r in rs], 0),
                med([r["usage"]["pss_peak"]["db"] / 2**20 for r in rs], 0), bad(rs), other(rs)]
               for (p, b), rs in grouped(name)])

    for name, title in (("W2a", "W2: 500 x 100 KiB downloads"), ("W2b", "W2: 100 x 10 MiB downloads"),
                        ("W3a", "W3: 1 x 1 GiB download"), ("W3b", "W3: 4 x 1 GiB downloads"),
                        ("W6a", "W6: 500 x 100 KiB uploads"), ("W6b", "W6: 20 x 10 MiB uploads")):
        section(title)
        table(["peer", "MB/s (min / median / max)", "jobs/s (median)", "CPU s per GB: service", "database", "origin",
               "bad files", "foreign CPU"],
              [[mode(p, b), spread([done(r) * SIZE[r["size"]] / 1e6 / r["seen_s"] for r in rs]),
                med([done(r) / r["seen_s"] for r in rs], 1),
                *[med([r["usage"]["cpu"][g] / (done(r) * SIZE[r["size"]] / 1e9) for r in rs if done(r)])
                  for g in ("service", "db", "origin")], bad(rs), other(rs)] for (p, b), rs in grouped(name)])

    section("W4: simultaneous slow downloads")
    table(["peer", "asked for", "most in flight at the origin", "all in flight after s", "KiB per transfer: service",
           "database", "CPU ms per transfer: service", "database", "finished after s", "complete"],
          [[r["peer"], r["jobs"], r["max_in_flight"], med([r["all_in_flight_at"]], 1),
            med([r["kib_per_transfer"]], 1), med([r["kib_per_transfer_db"]], 1),
            med([r["usage"]["cpu"]["service"] / r["jobs"] * 1000]), med([r["usage"]["cpu"]["db"] / r["jobs"] * 1000]),
            med([r["seen_s"]], 1), f"{done(r)} of {r['jobs']}"] for r in by["W4"] if "usage" in r])

    section("W5: latency on an idle service, ms (p50 / p95)")
    pair = lambda r, k: (f"{r[k + '_p50_ms']:.1f} / {r[k + '_p95_ms']:.1f}"  # noqa: E731
                         if k + "_p50_ms" in r else "-")
    table(["peer", "accepted", "first byte asked for at the origin", "completion seen by the client", "n"],
          [[r["peer"], pair(r, "accepted"), pair(r, "first"), pair(r, "done"), r["n"]] for r in by["W5"] if "n" in r])

    section("W7: kill -9 in the middle of 1,000 x 100 KiB, then restart")
    table(["peer", "accepted", "whole files at the kill", "partial files under the final name, unmarked",
           "no file when the wait ended", "wrong files in the end", "fetched twice", "reported done but not whole",
           "last file s after restart", "states told afterwards"],
          [[r["peer"] + r.get("variant", ""), r["accepted"], r["done_at_kill"], r["partial_unmarked_at_kill"],
            r["missing"], r["wrong"], r["fetched_twice"], r["said_done_but_bad"], f"{r['recovered_s']:.1f}",
            ", ".join(f"{k} {v}" for k, v in r["states"].items())] for r in by["W7"] if "states" in r])

    section("PostgreSQL ceilings (fsync on)")
    pg = collections.OrderedDict()
    for r in by["PG"]:
        pg.setdefault((r["name"], r["clients"]), []).append(r)
    table(["operation", "clients", "transactions/s (min / median / max)", "rows/s (median)", "database CPU ms per row",
           "foreign CPU"],
          [[n, c, spread([r["tps"] for r in rs]), med([r["rows_s"] for r in rs], 0),
            med([r["cpu_db"] * 1000 / (r["rows_s"] * r["seconds"]) for r in rs if r["rows_s"]], 4),
            med([100 * r["cpu_other"] / (2 * r["seconds"]) for r in rs if "cpu_other" in r], 0) + " %"]
           for (n, c), rs in pg.items()])

    section("Disk")
    disk = collections.defaultdict(list)
    for r in by["DISK"]:
        if "gib" in r:
            disk[r["gib"]].append(r)
    table(["GiB", "dd with fdatasync MB/s", "dd into the page cache MB/s"],
          [[g, spread([r["fdatasync_mb_s"] for r in rs]), spread([r["page_cache_mb_s"] for r in rs])]
           for g, rs in disk.items()])
    for r in by["DISK"]:
        if "fdatasync_p50_ms" in r:
            print(f"fdatasync of 8 KiB: p50 {r['fdatasync_p50_ms']:.2f} ms, p95 {r['fdatasync_p95_ms']:.2f} ms\n")

    section("W8: empty jobs finished per second against queue depth")
    table(["queue", "rows queued", "jobs/s", "CPU ms per job: workers", "database"],
          [[r["peer"], f"{r['depth']:,}", f"{r['jobs_s']:,.0f}", f"{r['cpu_service'] / max(1, r['jobs']) * 1000:.2f}",
            f"{r['cpu_db'] / max(1, r['jobs']) * 1000:.2f}"] for r in by["W8"]])

    noted = [r for r in rows if "error" in r or "note" in r]
    if noted:
        section("Not measured")
        for r in noted:
            print(f"- {r['workload']} {r['peer']}: {r.get('note') or r.get('error')}")


if __name__ == "__main__":
    main()

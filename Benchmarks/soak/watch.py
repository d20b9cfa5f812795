"""What is looked at while it runs: names in the storage root, streams of events, jobs that wait, memory."""
from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import random
import threading
import time

from book import HELD_CODES, Book
from cluster import KEY, Cluster, Unreachable

TERMINAL = ("succeeded", "failed", "cancelled")


class Names(threading.Thread):
    """No name below `f/` ever has a part of a file: each new one is read as soon as it is seen."""

    def __init__(self, cluster: Cluster, book: Book):
        super().__init__(name="names", daemon=True)
        self.folder, self.book = cluster.files / "f", book
        self.stopping = threading.Event()
        self.seen: set[tuple[str, int, int]] = set()

    def run(self):
        while not self.stopping.wait(0.05):
            self.look()

    def look(self):
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if not name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):
                        self.check(os.path.join(folder, name), name)

    def check(self, path: str, name: str):
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            mark = (path, status.st_ino, status.st_size)
            if mark in self.seen:
                return
            self.seen.add(mark)
            record = self.book.records.get(name[:12])
            body = file.read()
            if record is None:
                # The file from before is there a moment before its job is in the book.
                self.seen.discard(mark)
            elif hashlib.sha256(body).hexdigest() not in record.digests and body != record.before:
                self.book.complain(f"{path}: {len(body)} bytes that are no whole file of {record.token}, "
                                   f"{record.plan}, {record.ids}")


class Listener(threading.Thread):
    """One stream of a session's events, taken up again with Last-Event-ID at whichever node answers."""

    def __init__(self, cluster: Cluster, session: str, book: Book, seed: str):
        super().__init__(name=f"listener {session}", daemon=True)
        self.cluster, self.session, self.book = cluster, session, book
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.last: str | None = None
        self.sequences: list[int] = []
        self.open_count = 0

    def run(self):
        while not self.stopping.is_set():
            connection = self.random.choice(self.cluster.nodes).connect(20)
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.listen(connection)
            connection.close()
            self.stopping.wait(0.1)

    def listen(self, connection: http.client.HTTPConnection):
        fields = {"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream"}
        if self.last:
            fields["Last-Event-ID"] = self.last
        connection.request("GET", f"/v1/events?session={self.session}&progress=false", headers=fields)
        answer = connection.getresponse()
        if answer.status != 200:
            return
        self.open_count += 1
        # Some readers go away by themselves.
        end = time.monotonic() + self.random.uniform(2, 60)
        event: dict[str, str] = {}
        while not self.stopping.is_set() and time.monotonic() < end:
            line = answer.readline()
            if not line:
                return
            line = line.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(":")
                event[name] = event.get(name, "") + value.lstrip(" ")
                continue
            if "data" in event:
                self.take(event)
            event = {}

    def take(self, event: dict[str, str]):
        if event.get("event") == "snapshot":
            if self.last:
                self.book.complain(f"listener {self.session}: the stream began anew behind {self.last}")
            return
        self.last = event["id"]
        sequence = json.loads(event["data"])["data"]["sequence"]
        if self.sequences and sequence != self.sequences[-1] + 1:
            self.book.complain(f"listener {self.session}: {sequence} ({event['id']}) after {self.sequences[-1]}")
        self.sequences.append(sequence)


class Looker(threading.Thread):
    """Whether each job that does not run says why, and whether what is over stays as it was."""

    def __init__(self, cluster: Cluster, book: Book, seed: str, shared: str | None):
        """`shared`: what URLs at the shared host begin with, where no job of this tenant may be held; None: nobody
        else is there."""
        super().__init__(name="looker", daemon=True)
        self.cluster, self.book, self.shared = cluster, book, shared
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.over: dict[str, dict] = {}
        self.fields = {"Authorization": f"Bearer {cluster.key}"}
        self.looks = 0
        self.reasons: dict[str, int] = {}

    def run(self):
        while not self.stopping.wait(1):
            for node in self.cluster.nodes:
                node.sample()
            with contextlib.suppress(Unreachable, ValueError):
                self.look()

    def look(self):
        node = self.random.choice(self.cluster.nodes)
        for state in ("waiting", "queued", "suspended"):
            answer = node.call("GET", f"/v1/jobs?state={state}&limit=500", headers=self.fields)
            for job in answer.json()["data"] if answer.status == 200 else []:
                self.explain(job)
        with self.book.lock:
            ids = list(self.book.by_id)
        for identifier in self.random.sample(ids, min(15, len(ids))):
            answer = node.call("GET", f"/v1/jobs/{identifier}", headers=self.fields)
            if answer.status == 200:
                self.remember(answer.json())
        self.looks += 1

    def explain(self, job: dict):
        reason = job["waiting_reason"]
        if not reason or not reason.get("detail") or (job["state"] == "waiting" and not job["waiting_for"]):
            self.book.complain(f"{job['id']} is {job['state']} and says not why: {reason}, {job['waiting_for']}")
        else:
            self.reasons[reason["code"]] = self.reasons.get(reason["code"], 0) + 1
            if self.shared and job["request"]["url"].startswith(self.shared) and reason["code"] in HELD_CODES:
                self.book.held.setdefault(job["id"], (reason["code"], reason["detail"]))

    def remember(self, job: dict):
        """A job that is over never changes again."""
        shown = {name: job[name] for name in ("state", "finished_at", "attempt", "result", "error", "started_at")}
        before = self.over.get(job["id"])
        if before and before != shown:
            self.book.complain(f"{job['id']} has changed after its end: {before} -> {shown}")
        if job["state"] in TERMINAL:
            self.over[job["id"]] = shown

"""Clients: what they submit and command, from a seed."""
from __future__ import annotations

import base64
import contextlib
import datetime
import errno
import hashlib
import http.client
import json
import pathlib
import random
import threading
import time

from book import HOSTS, SESSIONS, SHARED_HOST, Book, Record
from cluster import Cluster, Unreachable
from origin import Origin, Plan, content
from receiver import Receiver

# Bytes, and how often.
SIZES = {0: 1, 1: 1, 300: 2, 5_000: 3, 20_000: 4, 70_000: 4, 300_000: 3, 1_500_000: 2, 4_000_000: 1}


def later(seconds: float) -> str:
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Client(threading.Thread):
    """One client with a seed of its own."""

    def __init__(self, seed: str, cluster: Cluster, origin: Origin, receiver: Receiver, book: Book, pause: float):
        super().__init__(name=f"client {seed}", daemon=True)
        self.random = random.Random(seed)
        self.cluster, self.origin, self.receiver, self.book = cluster, origin, receiver, book
        self.pause = pause
        self.stopping = threading.Event()
        self.prefix = hashlib.sha256(seed.encode()).hexdigest()[:5]
        self.count = 0

    def run(self):
        while not self.stopping.wait(self.random.expovariate(1 / self.pause)):
            try:
                part = self.random.random()
                if part < 0.01:
                    self.end_session()
                elif part < 0.60:
                    self.submit()
                elif part < 0.68:
                    self.submit_batch()
                else:
                    self.command()
            except Unreachable:
                pass
            except Exception as error:  # A client that dies of a mistake of ours would make the run say less.
                self.book.complain(f"client: {error!r}")

    # MARK: Asking

    def ask(self, method: str, path: str, body=None, headers=None):
        fields = {"Authorization": f"Bearer {self.cluster.key}", **(headers or {})}
        return self.random.choice(self.cluster.nodes).call(method, path, body, fields)

    def hang_up(self, path: str, body, headers):
        """Sends a request and does not wait for the answer."""
        node = self.random.choice(self.cluster.nodes)
        connection = node.connect(5)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", path, json.dumps(body), {
                "Authorization": f"Bearer {self.cluster.key}", "Content-Type": "application/json", **headers})
            time.sleep(self.random.choice([0, 0.001, 0.01, 0.1]))
        connection.close()

    def post(self, path: str, body, records: list[Record]):
        """The answer to a submission: one with a key is repeated until there is one."""
        key = records[0].key
        headers = {"Idempotency-Key": key} if key else {}
        if key and self.random.random() < 0.1:
            self.hang_up(path, body, headers)
        deadline = time.monotonic() + 180
        while True:
            for record in records:
                record.tries += 1
            try:
                answer = self.ask("POST", path, body, headers)
                if answer.status in (429, 503) or (answer.status == 409 and b"in_progress" in answer.body):
                    # Nothing was made, or it is not known: both mean again.
                    answer = None
            except Unreachable:
                answer = None
            if answer is not None or key is None:
                return answer
            if time.monotonic() > deadline:
                self.book.complain(f"no answer to {records[0].token} ({key}) within 180 s")
                return None
            self.stopping.wait(0.3)

    # MARK: Submitting

    def submit(self):
        record = self.make()
        answer = self.post("/v1/jobs", record.spec, [record])
        if answer is None:
            return
        if answer.status != 201:
            self.book.complain(f"{record.token}: {answer.status} {answer.body[:600]} for {record.spec}")
            return
        job = answer.json()
        self.book.enter(record, job["id"])
        if record.key and self.random.random() < 0.2:
            again = self.post("/v1/jobs", record.spec, [record])
            if again is not None and (again.status != 201 or again.json()["id"] != job["id"]):
                self.book.complain(f"{record.token}: {job['id']} was made twice: {again.status} {again.body[:300]}")

    def submit_batch(self):
        records = [self.make(batch=number) for number in range(self.random.randint(2, 12))]
        key = f"batch-{records[0].token}" if self.random.random() < 0.7 else None
        for record in records:
            record.key = key
        answer = self.post("/v1/jobs/batch", {"jobs": [record.spec for record in records]}, records)
        if answer is None:
            return
        if answer.status != 201:
            self.book.complain(f"batch {key}: {answer.status} {answer.body[:600]}")
            return
        for record, job in zip(records, answer.json()["data"], strict=True):
            self.book.enter(record, job["id"])
        for record in records:
            record.needs = [records[int(need.rsplit("/", 1)[1])].ids[0] if need.startswith("#") else need
                            for need in record.needs]

    def make(self, batch: int | None = None) -> Record:
        choice = self.random
        self.count += 1
        token = f"{self.prefix}{self.count:07}"
        kind = choice.choices(["download", "upload", "data"], [6, 3, 1])[0]
        plan = Plan(choice.choices(list(SIZES), SIZES.values())[0],
                    validator=choice.choice(["etag", "etag", "weak", "none"]))
        host = choice.choice(HOSTS)
        spec = {
            "kind": kind, "session": choice.choice(list(SESSIONS)), "metadata": {"token": token},
            "request": {"url": self.origin.url(host, token), "timeout_for_request": 2},
            "retry": {"initial_delay": 0.2, "max_delay": 3, "max_attempts": choice.choice([2, 100, 100, 100])},
            "schedule": self.times(batch)}
        record = Record(token, spec, plan, set(), f"key-{token}" if choice.random() < 0.8 else None)
        record.must_succeed = spec["retry"]["max_attempts"] == 100 and "deadline_at" not in spec["schedule"]
        record.needs = list(spec["schedule"].get("depends_on", []))
        if choice.random() < 0.3:
            spec["webhook"] = {"url": f"{self.receiver.url}/job"}
            if choice.random() < 0.5:
                spec["webhook"]["events"] = ["job.created", "job.started", "job.succeeded", "job.failed",
                                             "job.cancelled"]
        {"download": self.make_download, "upload": self.make_upload, "data": self.make_data}[kind](record)
        self.origin.plans[token] = plan
        self.book.records[token] = record
        return record

    def times(self, batch: int | None) -> dict:
        choice, schedule = self.random, {"priority": round(self.random.random(), 2)}
        schedule["network_service_type"] = choice.choice(["background", "default", "default", "responsive_data"])
        if choice.random() < 0.1:
            schedule["earliest_begin_at"] = later(choice.uniform(0, 8))
        elif choice.random() < 0.1:
            schedule["deadline_at"] = later(choice.uniform(1, 40))
        if choice.random() < 0.05:
            schedule["confirm_before_begin"] = True
        needs = [f"#/jobs/{choice.randrange(batch)}"] if batch and choice.random() < 0.3 else []
        if choice.random() < 0.1 and (some := self.book.some(choice)):
            # One that somebody deletes at the same time would be a 422.
            if not some[1].deleted and "delete" not in some[1].commands:
                some[1].commands.append("needed")
                needs.append(some[0])
        if needs:
            schedule["depends_on"] = needs
            schedule["on_dependency_failure"] = choice.choice(["fail", "ignore"])
        return schedule

    def faults(self, kinds: list[str]) -> list[str]:
        choice = self.random
        if choice.random() < 0.65:
            return []
        return [fault.format(part=round(choice.random(), 2)) for fault in
                choice.choices(kinds, k=choice.randint(1, 3))]

    def make_download(self, record: Record):
        choice, spec, plan = self.random, record.spec, record.plan
        others = [url for host in HOSTS if (url := self.origin.url(host, record.token)) != spec["request"]["url"]]
        plan.faults = self.faults(["cut:{part}", "reset:{part}", "silence:{part}", "slow:2", "slow:1", "refuse",
                                   "status:503,1", "status:429,1", "status:503", "status:500", "stall:5",
                                   f"redirect:{choice.choice(others)}"])
        if choice.random() < 0.1:
            plan.change_after = choice.randint(1, 3)
        record.digests = {hashlib.sha256(content(record.token, version, plan.size)).hexdigest()
                          for version in ((0, 1) if plan.change_after else (0,))}
        if choice.random() < 0.25:
            spec["segments"] = choice.randint(2, 6)
        if choice.random() < 0.15:
            spec["mirrors"] = choice.sample(others, choice.randint(1, 2))
        if choice.random() < 0.3 and not plan.change_after:
            spec["integrity"] = {"sha256": next(iter(record.digests))}
            if choice.random() < 0.2:
                plan.faults.append("short")
                record.must_succeed = False
        if choice.random() < 0.85:
            path = f"f/{choice.randrange(20):02}/{record.token}"
            spec["destination"] = {"path": path}
            if choice.random() < 0.1:
                record.before = f"before {record.token}".encode()
                spec["destination"]["if_exists"] = choice.choice(["replace", "fail", "rename"])
                record.must_succeed &= spec["destination"]["if_exists"] != "fail"
                self.put(self.cluster.files / path, record.before)

    def put(self, place: pathlib.Path, body: bytes):
        """Writes a file when the disk has room for it."""
        while True:
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(body)
                return
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                time.sleep(0.2)

    def make_upload(self, record: Record):
        choice, spec, plan = self.random, record.spec, record.plan
        plan.faults = self.faults(["refuse", "status:503,1", "status:500", "lost", "stall:5", "status:429,1"])
        body = content(record.token, 0, plan.size)
        way = choice.choice(["path", "path", "text", "base64", "job"])
        source = self.source_job() if way == "job" else None
        if source:
            spec["source"], record.digests = {"job": source[0]}, source[1].digests
            record.must_succeed = False
        elif way in ("text", "base64"):
            body = body[:100_000]
            if way == "text":
                body = body.hex().encode()
                spec["source"] = {"text": body.decode()}
            else:
                spec["source"] = {"base64": base64.b64encode(body).decode()}
        else:
            self.put(self.cluster.files / "sources" / record.token, body)
            spec["source"] = {"path": f"sources/{record.token}"}
        if not source:
            record.digests = {hashlib.sha256(body).hexdigest()}
        if choice.random() < 0.2:
            # The file is one part of what arrives.
            spec["source"]["form"] = {"field": "file", "file_name": "a", "fields": {"name": "value"}}
        if choice.random() < 0.3:
            spec["request"]["method"] = "POST"
            spec["retry"]["non_idempotent"] = choice.random() < 0.5
            record.must_succeed &= spec["retry"]["non_idempotent"]

    def make_data(self, record: Record):
        plan = record.plan
        plan.size = min(plan.size, 300_000)
        plan.faults = self.faults(["cut:{part}", "refuse", "stall:5", "status:500"])
        record.digests = {hashlib.sha256(content(record.token, 0, plan.size)).hexdigest()}
        if self.random.random() < 0.3:
            body = f"body of {record.token}"
            record.spec["request"] |= {"method": "POST", "body": {"text": body}}
            record.digests = {hashlib.sha256(body.encode()).hexdigest()}
            record.must_succeed = False

    def source_job(self) -> tuple[str, Record] | None:
        """A download that is not to be deleted from now on."""
        for _ in range(5):
            some = self.book.some(self.random)
            if some and some[1].spec["kind"] == "download" and "delete" not in some[1].commands:
                some[1].commands.append("needed")
                return some
        return None

    def end_session(self):
        """A session of a few jobs that is invalidated while they are on their way."""
        records = [self.make() for _ in range(self.random.randint(1, 6))]
        name, mode = f"end-{records[0].token}", self.random.choice(["finish", "cancel"])
        self.book.ended[name] = mode
        for record in records:
            record.spec["session"] = name
            record.must_succeed &= mode == "finish"
            answer = self.post("/v1/jobs", record.spec, [record])
            if answer is not None and answer.status == 201:
                self.book.enter(record, answer.json()["id"])
        # Until it is answered; one of the answers may have been lost.
        while not self.stopping.wait(0.2):
            with contextlib.suppress(Unreachable):
                if self.ask("POST", f"/v1/sessions/{name}/invalidate", {"mode": mode}).status in (200, 409):
                    break
        else:
            self.book.ended.pop(name)
            return
        late = self.make()
        late.spec["session"] = name
        answer = self.post("/v1/jobs", late.spec, [late])
        if answer is not None and (answer.status != 409 or answer.json()["code"] != "session_invalidated"):
            self.book.complain(f"session {name} is invalidated and took {late.token}: {answer.status} {answer.body}")

    # MARK: Commands

    def command(self):
        some = self.book.some(self.random)
        if not some:
            return
        identifier, record = some
        what = self.random.choices(
            ["suspend", "resume", "cancel", "patch", "retry", "delete", "begin", "take"], [4, 6, 2, 3, 2, 1, 3, 1])[0]
        path = f"/v1/jobs/{identifier}"
        if what == "delete":
            if "needed" in record.commands or identifier in record.deleted:
                return
            record.commands.append("delete")
            answer = self.ask("DELETE", path)
            if answer.status == 204:
                record.deleted.add(identifier)
            return
        # Before the request: whether it was done is not known when no answer comes.
        record.commands.append(what)
        if what == "patch":
            self.ask("PATCH", path, {"description": f"changed {time.time()}",
                                     "schedule": {"priority": round(self.random.random(), 2)}},
                     {"Content-Type": "application/json"})
        elif what == "cancel":
            record.must_succeed = False
            self.ask("POST", f"{path}/cancel", {"produce_resume_data": self.random.random() < 0.5})
        elif what == "retry":
            self.again(record, path)
        elif what == "take":
            self.take(identifier, record)
        elif what == "begin":
            self.ask("POST", f"{path}/begin", {"disposition": "continue_loading"})
        else:
            self.ask("POST", f"{path}/{what}", {})

    def again(self, record: Record, path: str):
        """Makes a new job of one that is over, with a key, so that the answer is certain."""
        if record.retries or record.spec["request"].get("method") == "POST":
            return
        record.retries += 1
        record.must_succeed = False
        for _ in range(100):
            with contextlib.suppress(Unreachable):
                answer = self.ask("POST", f"{path}/retry", {}, {"Idempotency-Key": f"retry-{record.token}"})
                if answer.status == 201:
                    self.book.enter(record, answer.json()["id"])
                if answer.status not in (429, 503) and b"in_progress" not in answer.body:
                    return
            if self.stopping.wait(0.3):
                return

    def take(self, identifier: str, record: Record):
        """Cancels a download and lets another job go on from its bytes."""
        if record.spec["kind"] != "download" or "destination" not in record.spec or record.before:
            return
        record.must_succeed = False
        answer = self.ask("POST", f"/v1/jobs/{identifier}/cancel", {"produce_resume_data": True})
        if answer.status != 200:
            return
        job = answer.json()
        for _ in range(20):
            if job["state"] in ("succeeded", "failed", "cancelled"):
                break
            time.sleep(0.2)
            job = self.ask("GET", f"/v1/jobs/{identifier}").json()
        if job.get("resume_data"):
            self.count += 1
            token = f"{self.prefix}{self.count:07}"
            spec = {name: value for name, value in record.spec.items() if name not in ("schedule", "webhook")}
            spec |= {"resume_data": job["resume_data"], "metadata": {"token": token},
                     "destination": {"path": f"f/99/{token}"}}
            other = Record(token, spec, record.plan, record.digests, f"key-{token}")
            self.book.records[token] = other
            answer = self.post("/v1/jobs", spec, [other])
            if answer is not None and answer.status == 201:
                self.book.enter(other, answer.json()["id"])
            elif answer is not None:
                self.book.complain(f"{token} with resume_data of {identifier}: {answer.status} {answer.body[:400]}")


class Steady(Client):
    """Submits `rate` jobs per second for one path of the shared host, whatever becomes of them."""

    rate = 3.0

    def run(self):
        begin = time.monotonic()
        for number in range(1_000_000):
            # A submission that was held up is made up for: the rate is that of the whole run.
            if self.stopping.wait(max(0, begin + number / self.rate - time.monotonic())):
                return
            with contextlib.suppress(Unreachable):
                self.submit()

    def make(self, batch: int | None = None) -> Record:
        self.count += 1
        token = f"{self.prefix}{self.count:07}"
        record = self.describe(token)
        self.origin.plans[token] = record.plan
        self.book.records[token] = record
        return record

    def describe(self, token: str) -> Record:
        raise NotImplementedError


class HealthyNeighbour(Steady):
    """The good tenant at the shared host: each of its requests there is answered at once, with 200."""

    def describe(self, token: str) -> Record:
        plan = Plan(self.random.choice([300, 5_000, 20_000]))
        spec = {
            "kind": "download", "session": "wide", "metadata": {"token": token},
            "request": {"url": self.origin.url(SHARED_HOST, token, "healthy/"), "timeout_for_request": 30},
            "retry": {"initial_delay": 0.2, "max_delay": 3, "max_attempts": 100}, "schedule": {},
            "destination": {"path": f"f/shared/{token}"}}
        digests = {hashlib.sha256(content(token, 0, plan.size)).hexdigest()}
        return Record(token, spec, plan, digests, f"key-{token}", must_succeed=True, is_left_alone=True)


class MisbehavingNeighbour(Steady):
    """The other tenant at the same host: 5 jobs per second for a path that always answers 503, and as the first one
    a job whose answer is 429 with `Retry-After: 3600`."""

    rate = 5.0

    def describe(self, token: str) -> Record:
        is_first = self.count == 1
        plan = Plan(0, always="status:429,3600" if is_first else "status:503")
        spec = {
            "kind": "download", "metadata": {"token": token},
            "request": {"url": self.origin.url(SHARED_HOST, token, "quota/" if is_first else "busy/")},
            "retry": {"initial_delay": 0.2, "max_delay": 1, "max_attempts": 4}, "schedule": {}}
        return Record(token, spec, plan, set(), f"key-{token}")

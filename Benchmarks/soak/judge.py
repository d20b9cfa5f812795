"""What has to hold when all is quiet: nothing lost, nothing twice, nothing half, everything told."""
from __future__ import annotations

import collections
import datetime
import hashlib
import itertools
import pathlib
import re
import statistics
import time

from book import HOST_LIMIT, SESSION_LIMITS, SHARED_HOST, Book, Record
from cluster import Cluster
from origin import Origin, Visit
from receiver import Receiver

TERMINAL = ("succeeded", "failed", "cancelled")
ENDS = tuple(f"job.{state}" for state in TERMINAL)
# Seconds from a submission to the end of a healthy job at the shared host: the median, and the most. Frozen and dead
# nodes and a database that is away hold up single jobs, one after the other.
HEALTHY_MEDIAN_MAX = 5
HEALTHY_SECONDS_MAX = 150
# The clocks of nodes follow that of the database, and differ by milliseconds.
CLOCK_SECONDS_MAX = 0.1


class Judge:
    def __init__(self, cluster: Cluster, origin: Origin, receiver: Receiver, book: Book, endpoints: dict[str, dict]):
        self.cluster, self.origin, self.receiver, self.book = cluster, origin, receiver, book
        self.endpoints = endpoints
        self.jobs = {job["id"]: job for job in cluster.pages("/v1/jobs")}
        self.by_token: dict[str, list[dict]] = collections.defaultdict(list)
        for job in self.jobs.values():
            self.by_token[(job["metadata"] or {}).get("token", "")].append(job)
        self.events: dict[str, list[dict]] = collections.defaultdict(list)
        for event in cluster.pages("/v1/events"):
            self.events[event["data"]["session"]].append(event)

    def complain(self, text: str):
        self.book.complain(text)

    def judge(self, excused):
        self.promises()
        self.deliveries()
        self.limits(excused)
        self.left_over()
        self.figures()
        self.schedules()
        for session in self.book.ended:
            shown = self.cluster.call("GET", f"/v1/sessions/{session}").json()
            if not shown.get("ended_at"):
                self.complain(f"session {session} was invalidated and has not ended: {shown}")

    def promises(self):
        """What holds for the jobs and events of each tenant, also of one that misbehaves."""
        for record in self.book.records.values():
            self.existence(record)
        for job in self.jobs.values():
            self.outcome(job)
        self.order()
        self.sessions()

    def isolation(self):
        """No job of the good tenant has waited for what another tenant did at the shared host."""
        codes: dict[str, list[str]] = collections.defaultdict(list)
        for identifier, (code, _) in self.book.held.items():
            codes[code].append(identifier)
        for code, held in codes.items():
            self.complain(f"held for another tenant: {len(held)} jobs for {code} ({self.book.held[held[0]][1]}), such "
                          f"as {self.story(held[0])}")
        healthy = self.healthy_seconds()
        if not healthy:
            self.complain("no healthy job at the shared host has ended")
            return
        median, most = statistics.median(healthy.values()), max(healthy, key=healthy.get)
        if median > HEALTHY_MEDIAN_MAX:
            self.complain(f"healthy jobs at the shared host took {median:.1f} s (median of {len(healthy)}), "
                          f"at most {HEALTHY_MEDIAN_MAX} s are right")
        if healthy[most] > HEALTHY_SECONDS_MAX:
            self.complain(f"a healthy job at the shared host took {healthy[most]:.1f} s: {self.story(most)}")

    def healthy_seconds(self) -> dict[str, float]:
        """How long each job took that was submitted for the shared host and has ended."""
        place = f":{self.origin.ports[SHARED_HOST]}/"
        return {job["id"]: seconds_between(job["created_at"], job["finished_at"]) for job in self.jobs.values()
                if place in job["request"]["url"] and job["finished_at"] and not job["retry_of"]}

    def attempts(self, identifier: str) -> list[dict]:
        return self.cluster.call("GET", f"/v1/jobs/{identifier}/attempts").json()["data"]

    def story(self, identifier: str) -> str:
        """What is needed to look into it."""
        told = [f"{event['type']}#{event['data']['sequence']}" for event in self.told(identifier)]
        job = self.jobs.get(identifier)
        if not job:
            return f"{identifier} (gone): {told}"
        record = self.book.by_id.get(identifier)
        words = [f"{one['number']}: {(one['error'] or {}).get('code')} {one['started_at']} {one['finished_at']}"
                 for one in self.attempts(identifier)]
        return (f"{identifier} {job['kind']} {job['state']} attempt {job['attempt']} error {job['error']} "
                f"result {job['result']} url {job['request']['url']} events {told} attempts {words} "
                f"commands {record and record.commands} plan {record and record.plan and vars_of(record.plan)}")

    def told(self, identifier: str) -> list[dict]:
        return sorted((event for events in self.events.values() for event in events
                       if (event["data"]["job"] or {}).get("id") == identifier),
                      key=lambda event: event["data"]["sequence"])

    # MARK: Jobs

    def existence(self, record: Record):
        for identifier in record.ids:
            job = self.jobs.get(identifier)
            if job is None and "delete" not in record.commands:
                self.complain(f"lost: {identifier} of {record.token} was answered 201")
            elif job is not None and identifier in record.deleted:
                self.complain(f"deleted and still there: {self.story(identifier)}")
        made = [job for job in self.by_token[record.token] if not job["retry_of"]]
        most = 1 if record.key else record.tries
        if len(made) > most:
            self.complain(f"{record.token} was submitted {record.tries} times with {record.key} and made {made}")
        if len(self.by_token[record.token]) > most + record.retries:
            self.complain(f"{record.token}: retried {record.retries} times and made {self.by_token[record.token]}")

    def outcome(self, job: dict):
        token = (job["metadata"] or {}).get("token")
        record = self.book.records.get(token)
        if job["state"] not in TERMINAL:
            self.complain(f"not over: {self.story(job['id'])}")
        if record is None:
            return
        if job["state"] == "succeeded":
            self.success(job, record)
        elif record.must_succeed and not record.needs:
            self.complain(f"has to succeed: {self.story(job['id'])}")
        if job["kind"] == "download" and "destination" in record.spec:
            self.names(job, record)
        self.dependencies(job, record)
        begin = record.spec["schedule"].get("earliest_begin_at") if "schedule" in record.spec else None
        if begin:
            moment = datetime.datetime.fromisoformat(begin).timestamp() - time.time() + time.monotonic()
            visits = [visit for visit in self.origin.visits if visit.token == record.token]
            if visits and visits[0].begin < moment and not job["retry_of"]:
                self.complain(f"began before {begin}: {self.story(job['id'])}, {self.seen(visits[:1])}")

    def success(self, job: dict, record: Record):
        result = job["result"]
        if job["kind"] == "upload":
            whole = list(record.plan.received)
            if "form" in record.spec["source"]:
                whole = [hashlib.sha256(part).hexdigest() for part in files_of(record.plan.last_body)]
            if not record.digests & set(whole):
                self.complain(f"the origin has not got the body: {self.story(job['id'])}")
        elif job["kind"] == "download":
            if result["sha256"] not in record.digests:
                self.complain(f"the digest is of no whole file: {self.story(job['id'])}")
            if "destination" not in record.spec:
                path = f"/v1/jobs/{job['id']}/content"
                answers = [node.call("GET", path, seconds=60) for node in self.cluster.nodes]
                if not any(hashlib.sha256(answer.body).hexdigest() == result["sha256"] for answer in answers):
                    self.complain(f"no node has its content: {[a.status for a in answers]}, {self.story(job['id'])}")
            else:
                # A retry of it may have published the file again.
                digests = {other["result"]["sha256"] for other in self.by_token[record.token] if other["result"]}
                place = self.cluster.files / result["path"]
                if not place.exists() or digest(place) not in digests:
                    self.complain(f"the file is not what the result says: {self.story(job['id'])}")

    def names(self, job: dict, record: Record):
        """A job that has not succeeded leaves its name as it was."""
        place = self.cluster.files / record.spec["destination"]["path"]
        others = [other for other in self.by_token[record.token] if other["state"] == "succeeded"]
        if others:
            return
        found = place.read_bytes() if place.exists() else None
        if found == record.before:
            return
        if found is not None and digest(place) in record.digests and self.lost_a_result(job["id"]):
            return
        what = "a name without a success" if record.before is None else "what was there before is gone"
        self.complain(f"{what}: {self.story(job['id'])}")

    def lost_a_result(self, identifier: str) -> bool:
        """Whether the node of the last attempt was killed, perhaps between its file and its commit (decision 32)."""
        attempts = self.attempts(identifier)
        return bool(attempts) and (attempts[-1]["error"] or {}).get("code") == "node_lost"

    def dependencies(self, job: dict, record: Record):
        if job["retry_of"] or not record.needs:
            return
        policy = job["schedule"]["on_dependency_failure"]
        # Of a batch whose answer was lost nobody knows which jobs these are.
        ends = {need: self.end(need) for need in record.needs if not need.startswith("#")}
        for need, end in ends.items():
            found = self.jobs.get(need)
            if (found and job["started_at"]
                    and seconds_between(job["started_at"], found["finished_at"]) > CLOCK_SECONDS_MAX):
                self.complain(f"began before what it depends on: {self.story(job['id'])}, {self.story(need)}")
            if job["state"] == "succeeded" and policy == "fail" and end != "succeeded":
                self.complain(f"succeeded after a failure: {self.story(job['id'])}, {self.story(need)}")
        if record.must_succeed and job["state"] != "succeeded" and (
                policy == "ignore"
                or len(ends) == len(record.needs) and all(end == "succeeded" for end in ends.values())):
            self.complain(f"has to succeed: {self.story(job['id'])}")

    def end(self, identifier: str) -> str | None:
        """The state in which a job has ended: of one that was deleted, what its events say."""
        if identifier in self.jobs:
            return self.jobs[identifier]["state"]
        ends = [event["type"] for event in self.told(identifier) if event["type"] in ENDS]
        return ends[0].removeprefix("job.") if ends else None

    # MARK: Events

    def order(self):
        for session, events in self.events.items():
            numbers = sorted(event["data"]["sequence"] for event in events)
            if numbers != list(range(1, len(numbers) + 1)):
                gaps = [pair for pair in itertools.pairwise(numbers) if pair[1] != pair[0] + 1]
                self.complain(f"session {session}: the sequence is not 1 to {len(numbers)}: {numbers[:1]} {gaps[:20]}")
            if len({event["id"] for event in events}) != len(events):
                self.complain(f"session {session}: an event is there twice")
        of_job: dict[str, list[dict]] = collections.defaultdict(list)
        for events in self.events.values():
            for event in sorted(events, key=lambda event: event["data"]["sequence"]):
                if event["data"]["job"]:
                    of_job[event["data"]["job"]["id"]].append(event)
        for identifier in self.jobs.keys() | of_job.keys():
            self.order_of(identifier, [event["type"] for event in of_job[identifier]])

    def order_of(self, identifier: str, types: list[str]):
        ends = [type for type in types if type in ENDS]
        job = self.jobs.get(identifier)
        if len(ends) != 1 or (job and ends[0] != f"job.{job['state']}"):
            self.complain(f"ends told: {ends}: {self.story(identifier)}")
        elif types[0] != "job.created" or types[-1] != ends[0]:
            self.complain(f"not from its creation to its end: {self.story(identifier)}")
        if types.count("job.created") != 1 or types.count("job.started") > 1:
            self.complain(f"told twice: {self.story(identifier)}")
        if ends == ["job.succeeded"] and "job.started" not in types:
            self.complain(f"succeeded and never began: {self.story(identifier)}")

    def sessions(self):
        """Where all jobs have ended that is told last, and whoever was told had no unfinished ones."""
        for session, events in self.events.items():
            events = sorted(events, key=lambda event: event["data"]["sequence"])
            ends = [event["type"] for event in events].count("session.invalidated")
            if ends != (session in self.book.ended):
                self.complain(f"session {session}: told {ends} times that it was invalidated")
            # That one waits for deliveries, this one does not.
            if events[-1]["type"] not in ("session.events_finished", "session.invalidated"):
                self.complain(f"session {session} ends with {events[-1]['type']} {events[-1]['id']}")
            unfinished: set[str] = set()
            is_told = False
            for event in events:
                identifier = (event["data"]["job"] or {}).get("id")
                if event["type"] == "job.created":
                    unfinished.add(identifier)
                    is_told = False
                elif event["type"] in ENDS:
                    unfinished.discard(identifier)
                elif event["type"] == "session.events_finished":
                    if unfinished or is_told:
                        self.complain(f"session {session}: finished at {event['data']['sequence']}, told already: "
                                      f"{is_told}, unfinished: {unfinished}")
                    is_told = True

    def deliveries(self):
        for text in self.receiver.wrong:
            self.complain(f"receiver: {text}")
        accepted = self.receiver.accepted()
        for events in self.events.values():
            for event in events:
                self.delivered(event, accepted)
        for name, endpoint in self.endpoints.items():
            if not endpoint["ordered"]:
                continue
            for session in self.events:
                got = [all_of[0] for all_of in accepted[f"/endpoint/{name}"].values() if all_of[0].session == session]
                numbers = [delivery.sequence for delivery in sorted(got, key=lambda delivery: delivery.when)]
                if numbers != sorted(numbers):
                    wrong = [pair for pair in itertools.pairwise(numbers) if pair[1] < pair[0]]
                    self.complain(f"endpoint {name}, session {session}: not in order: {wrong[:20]}")

    def delivered(self, event: dict, accepted):
        job = event["data"]["job"]
        record = self.book.by_id.get(job["id"]) if job else None
        if record and job["id"] in self.jobs and event["type"] in record.events:
            # A retry has the webhook of what it repeats.
            if event["id"] not in accepted["/job"]:
                self.complain(f"its webhook has not got {event['type']} {event['id']}: {self.story(job['id'])}")
        for name, endpoint in self.endpoints.items():
            wants = endpoint["events"] == ["*"] or event["type"] in endpoint["events"]
            wants = wants and endpoint.get("session") in (None, event["data"]["session"])
            if wants and (not job or job["id"] in self.jobs) and event["id"] not in accepted[f"/endpoint/{name}"]:
                self.complain(f"endpoint {name} has not got {event['type']} {event['id']} of {job and job['id']}, "
                              f"session {event['data']['session']}")

    # MARK: The rest

    def limits(self, excused):
        host, limit = HOST_LIMIT
        most = self.origin.most_at_once(excused, lambda visit: visit.host == host)
        if len(most) > limit:
            self.complain(f"host {host}: {len(most)} at once, its limit is {limit}: {self.seen(most)}")
        for session, limit in SESSION_LIMITS.items():
            for host in self.origin.ports:
                most = self.origin.most_at_once(
                    excused, lambda visit, h=host, s=session: visit.host == h and visit.session == s)
                if len(most) > limit:
                    self.complain(f"session {session} at {host}: {len(most)} at once, its limit is {limit}: "
                                  f"{self.seen(most)}")
        for token, record in self.book.records.items():
            retry = record.spec["retry"]
            if record.spec["request"].get("method") == "POST" and not retry.get("non_idempotent"):
                made = max(1, len(self.by_token[token]) + len(record.deleted))
                # 429 says that nothing was done.
                sent = [visit for visit in self.origin.visits if visit.token == token and visit.status != 429]
                if len(sent) > made:
                    stories = [self.story(job["id"]) for job in self.by_token[token]]
                    self.complain(f"{token} is not idempotent and was sent {len(sent)} times: {sent} {stories}")

    def seen(self, visits: list[Visit]) -> list[str]:
        """With their times by the clock of the logs, and their jobs."""
        offset = time.time() - time.monotonic()
        clock = [[datetime.datetime.fromtimestamp(moment + offset, datetime.timezone.utc).time().isoformat()
                  for moment in (visit.begin, visit.end or 0)] for visit in visits]
        return [f"{visit.method} {visit.status} {' to '.join(times)}: "
                f"{[self.story(job['id']) for job in self.by_token[visit.token]]}"
                for visit, times in zip(visits, clock, strict=True)]

    def schedules(self):
        """No occurrence was left out, none came twice."""
        for schedule in self.cluster.pages("/v1/schedules"):
            jobs = list(self.cluster.pages(f"/v1/jobs?schedule={schedule['id']}"))
            times = sorted(datetime.datetime.fromisoformat(job["scheduled_at"]) for job in jobs)
            gaps = [pair for pair in itertools.pairwise(times)
                    if (pair[1] - pair[0]).total_seconds() != schedule["interval"]]
            if gaps or not times or any(job["state"] != "succeeded" for job in jobs):
                self.complain(f"schedule {schedule}: {len(times)} runs, gaps {gaps[:10]}, "
                              f"{[job['id'] for job in jobs if job['state'] != 'succeeded']}")

    def figures(self):
        """Nothing is in anybody's hands any more, and nothing had to be set aside."""
        for node in self.cluster.nodes:
            # A look for jobs reserves slots for some milliseconds; what is lost stays away.
            deadline = time.monotonic() + 10
            while (wrong := self.in_hand(node)) and time.monotonic() < deadline:
                time.sleep(0.05)
            if wrong:
                self.complain(f"node {node.port} has something in hand: {wrong}")
            for line in node.log_lines():
                # The database was away; it was started again. And it may be too slow for one heartbeat.
                is_known = line["message"] == "Ferry cannot start." or (
                    line["message"] == "a heartbeat or the cleanup after it failed"
                    and "[57014]" in line.get("error", ""))
                if line["level"] in ("error", "critical") and not is_known:
                    self.complain(f"node {node.port} logged {line}")

    def in_hand(self, node) -> dict[str, float]:
        """The figures of a node that are not as those of an idle one."""
        text = node.call("GET", "/metrics").body.decode()
        shown = {name: float(value) for name, value in
                 (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}
        idle = {name: 0.0 for name in (
            "ferry_attempts_running", "ferry_webhook_deliveries_in_flight", "ferry_submissions_waiting",
            "ferry_events_rejected_total")} | {"ferry_worker_slots_free": shown["ferry_worker_slots"]}
        return {name: shown[name] for name, value in idle.items() if shown[name] != value}

    def left_over(self):
        """No partial file but those of failed and cancelled jobs, which are kept for a later one."""
        keep = {job["id"] for job in self.jobs.values() if job["resume_data"]}
        for place in self.cluster.files.rglob(".ferry-*"):
            owner = re.match(r"\.ferry-(job_[0-9a-z]+)", place.name)
            if not owner or owner[1] not in keep:
                told = self.story(owner[1]) if owner else ""
                self.complain(f"left over: {place.relative_to(self.cluster.files)} {told}")


def seconds_between(begin: str, end: str) -> float:
    return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin)).total_seconds()


def vars_of(plan) -> dict:
    return {name: value for name, value in vars(plan).items() if name != "last_body"}


def digest(place: pathlib.Path) -> str:
    return hashlib.sha256(place.read_bytes()).hexdigest()


def files_of(body: bytes) -> list[bytes]:
    """The files of a multipart/form-data body."""
    boundary = body.split(b"\r\n", 1)[0]
    parts = body.split(b"\r\n" + boundary)
    return [part.split(b"\r\n\r\n", 1)[1] for part in parts if b"filename=" in part.split(b"\r\n\r\n", 1)[0]]

"""A cluster under a random load while everything around it fails, and whether it has kept its promises.

    python3 Benchmarks/soak/soak.py [--ferry .build/release/ferry] [--seconds 600] [--seed 7] [--runs 4] [--nodes 3]

A second tenant misbehaves at a host that the first one uses as well, unless `--no-misbehave` says otherwise. Prints
what was done to it as it goes and ends with 1 when something was lost, done twice, left half or not told, or when one
tenant has held up another. The same seed gives the same clients and the same chaos; what falls together is up to the machine.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import json
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from book import HOST_LIMIT, HOSTS, MISBEHAVING_TENANT, SESSIONS, SHARED_HOST, Book
from chaos import KINDS, Chaos, excused, locks
from cluster import SECRET, Cluster, eventually
from judge import HEALTHY_SECONDS_MAX, Judge
from load import Client, HealthyNeighbour, MisbehavingNeighbour
from origin import Origin, Plan
from receiver import Receiver
from watch import Listener, Looker, Names

# Everything has ended by then, on however busy a machine: the longest pause of a probe, a lease and some tries.
QUIET_SECONDS = 600


class Soak:
    def __init__(self, binary: str, seed: int, nodes: int, kinds: list[str], clients: int, pause: float,
                 chaos_pause: float, misbehave: bool):
        self.seed = seed
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ferry-soak-"))
        # The account of PostgreSQL has to pass it when we are root.
        self.folder.chmod(0o755)
        self.book = Book()
        self.origin = Origin([*HOSTS, SHARED_HOST])
        self.receiver = Receiver(seed, SECRET)
        self.cluster = Cluster(binary, self.folder, nodes)
        self.endpoints: dict[str, dict] = {}
        self.counted = ""
        self.configure()
        self.clients = [Client(f"{seed}/{number}", self.cluster, self.origin, self.receiver, self.book, pause)
                        for number in range(clients)]
        # The tenant that misbehaves, and what it was answered; None: there is nobody but the good one.
        self.other = self.cluster.make_tenant(MISBEHAVING_TENANT) if misbehave else None
        self.other_book = Book()
        if self.other:
            self.clients += [
                HealthyNeighbour(f"{seed}/healthy", self.cluster, self.origin, self.receiver, self.book, pause),
                MisbehavingNeighbour(f"{seed}/other", self.other, self.origin, self.receiver, self.other_book, pause)]
        taken = locks(nodes)
        self.chaos = [Chaos(f"{seed}/chaos{number}", self.cluster, self.origin, self.receiver, self.book, kinds,
                            chaos_pause, taken) for number in range(2)]
        self.names = Names(self.cluster, self.book)
        self.lookers = [Looker(self.cluster, self.book, f"{seed}/looker",
                               self.origin.url(SHARED_HOST, "") if self.other else None)]
        if self.other:
            self.lookers.append(Looker(self.other, self.other_book, f"{seed}/other looker", None))
        self.listeners = [Listener(self.cluster, session, self.book, f"{seed}/{session}") for session in SESSIONS]

    def configure(self):
        for name, fields in SESSIONS.items():
            self.must("PUT", f"/v1/sessions/{name}", fields | {"http_additional_headers": {"X-Session": name}})
        # Two hosts get connections whatever they answer; the third one's trouble makes its limit.
        for host, rule in {HOST_LIMIT[0]: {"maximum_connections": HOST_LIMIT[1], "minimum_connections": HOST_LIMIT[1]},
                           "good": {"minimum_connections": 12}}.items():
            place = f"http%3A%2F%2F127.0.0.1%3A{self.origin.ports[host]}"
            self.must("PATCH", f"/v1/admin/hosts/{place}", rule)
        for name, fields in {"all": {"ordered": False, "events": ["*"]},
                             "ordered": {"ordered": True, "events": ["job.succeeded", "job.failed", "job.cancelled"],
                                         "session": "wide"}}.items():
            made = self.must("POST", "/v1/webhooks", fields | {
                "url": f"{self.receiver.url}/endpoint/{name}", "retry": {"delays": [1, 1, 2, 2, 5, 5, 10, 10]}})
            self.receiver.secrets[name] = made["secret"]
            self.endpoints[name] = fields

        for number in range(2):
            token = f"schedule{number}"
            self.origin.plans[token] = Plan(10_000)
            self.must("POST", "/v1/schedules", {
                "interval": 2 + number, "missed": "run_all", "overlap": "allow",
                "job": {"kind": "download", "request": {"url": self.origin.url("good", token)},
                        "retry": {"initial_delay": 0.2, "max_delay": 3, "max_attempts": 100}}})

    def must(self, method: str, path: str, body=None) -> dict:
        answer = self.cluster.call(method, path, body)
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body.decode()}")
        return answer.json()

    def run(self, seconds: float):
        watchers = [self.names, *self.lookers, *self.listeners]
        for thread in [*watchers, *self.clients, *self.chaos]:
            thread.start()
        time.sleep(seconds)
        for thread in [*self.clients, *self.chaos]:
            thread.stopping.set()
        for thread in [*self.clients, *self.chaos]:
            thread.join(300)
            if thread.is_alive():
                self.book.complain(f"{thread.name} does not end")
        for node in self.cluster.nodes:
            node.wait_ready()
        self.quiet()
        for thread in watchers:
            thread.stopping.set()
        self.names.look()

    # MARK: The end

    def quiet(self):
        begin = time.monotonic()
        for schedule in self.cluster.pages("/v1/schedules"):
            self.must("POST", f"/v1/schedules/{schedule['id']}/pause", {})
        if self.other:
            self.end_healthy()
            eventually(QUIET_SECONDS, self.give_up, "no unfinished job of the tenant that misbehaves")
        eventually(QUIET_SECONDS, self.is_counted, "counts that are those of the lists")
        eventually(QUIET_SECONDS, lambda: sum(self.counts().values()) == 0 or self.release(), "no unfinished job")
        self.over = time.monotonic() - begin
        eventually(QUIET_SECONDS, lambda: self.status()["webhooks"]["pending"] == 0 or self.push(), "no delivery")

    def status(self) -> dict:
        return self.must("GET", "/v1/admin/status")

    def counts(self) -> dict[str, int]:
        return self.status()["jobs"]

    def is_counted(self) -> bool:
        """Whether the status, the lists and the sessions say the same; what changes meanwhile may differ."""
        before = self.counts()
        listed = collections.Counter()
        for state in before:
            for job in self.cluster.pages(f"/v1/jobs?state={state}"):
                listed[state] += 1
                listed[job["session"], state] += 1
        in_sessions = {(name, state): self.must("GET", f"/v1/sessions/{name}")["jobs"][state]
                       for name in SESSIONS for state in before}
        self.counted = f"status {before}, lists {dict(listed)}, sessions {in_sessions}"
        return self.counts() == before and all(listed[state] == count for state, count in before.items()) \
            and all(listed[key] == count for key, count in in_sessions.items())

    def end_healthy(self):
        """Waits for the healthy jobs at the shared host as long as one may take, and cancels what is left."""
        try:
            eventually(HEALTHY_SECONDS_MAX, lambda: not self.healthy(), "no unfinished healthy job")
        except TimeoutError:
            left = self.healthy()
            self.book.complain(f"{len(left)} healthy jobs at the shared host have not ended {HEALTHY_SECONDS_MAX} s "
                               f"after the last one was submitted, such as {json.dumps(left[0])}")
            for job in left:
                record = self.book.by_id.get(job["id"])
                if record:
                    record.must_succeed = False
                    record.commands.append("cancel")
                self.cluster.call("POST", f"/v1/jobs/{job['id']}/cancel", {})

    def healthy(self) -> list[dict]:
        host = f"127.0.0.1:{self.origin.ports[SHARED_HOST]}"
        return [job for state in ("waiting", "queued", "running", "suspended")
                for job in self.cluster.pages(f"/v1/jobs?state={state}&host={host}")]

    def give_up(self) -> bool:
        """Cancels what the tenant that misbehaves has left; whether nothing is left."""
        unfinished = ["waiting", "queued", "running", "suspended"]
        if not any(True for state in unfinished for _ in self.other.pages(f"/v1/jobs?state={state}")):
            return True
        made = self.other.call("POST", "/v1/jobs/cancel", {"filter": {"state": unfinished}})
        if made.status != 202:
            return False
        path = f"/v1/operations/{made.json()['id']}"
        eventually(QUIET_SECONDS, lambda: self.other.call("GET", path).json()["state"] != "running", path)
        return False

    def release(self) -> bool:
        """Lets go what clients have held; false."""
        for state, what in ("suspended", "resume"), ("waiting", "begin"):
            for job in self.cluster.pages(f"/v1/jobs?state={state}"):
                if state == "suspended" or job["waiting_for"] == "confirmation":
                    body = {"disposition": "continue_loading"} if what == "begin" else {}
                    self.cluster.call("POST", f"/v1/jobs/{job['id']}/{what}", body)
        time.sleep(0.5)
        return False

    def push(self) -> bool:
        """A job's webhook that has failed twice comes again after minutes: by hand it does at once; false."""
        time.sleep(1)
        ids = {delivery.job for delivery in self.receiver.deliveries if delivery.job}
        ids |= {identifier for identifier, record in self.book.by_id.items() if "webhook" in record.spec}
        for identifier in ids:
            answer = self.cluster.call("GET", f"/v1/jobs/{identifier}/deliveries")
            for delivery in answer.json()["data"] if answer.status == 200 else []:
                if delivery["state"] == "pending" and len(delivery["tries"]) > 1:
                    self.cluster.call("POST", f"/v1/deliveries/{delivery['id']}/redeliver")
        return self.status()["webhooks"]["pending"] == 0

    def judge(self) -> list[str]:
        judge = Judge(self.cluster, self.origin, self.receiver, self.book, self.endpoints)
        judge.judge(excused([one for chaos in self.chaos for one in chaos.done]))
        if self.other:
            judge.isolation()
            Judge(self.other, self.origin, self.receiver, self.other_book, {}).promises()
            for text in self.other_book.wrong:
                self.book.complain(f"tenant {MISBEHAVING_TENANT}: {text}")
        for listener in self.listeners:
            if not listener.sequences:
                self.book.complain(f"{listener.name} has heard nothing")
        for text in self.cluster.broken_rows():
            self.book.complain(f"rows: {text}")
        self.report(judge)
        return self.book.wrong

    def report(self, judge: Judge):
        states = collections.Counter(f"{job['kind']} {job['state']}" for job in judge.jobs.values())
        errors = collections.Counter(job["error"]["code"] for job in judge.jobs.values()
                                     if job["error"] and job["state"] == "failed")
        print(f"seed {self.seed}: {len(judge.jobs)} jobs {dict(states)}, failed of {dict(errors)}")
        print(f"  quiet after {self.over:.1f} s; {sum(map(len, judge.events.values()))} events, "
              f"{len(self.receiver.deliveries)} deliveries, {len(self.origin.visits)} requests at the origins, "
              f"{sum(len(listener.sequences) for listener in self.listeners)} events heard by listeners, "
              f"{self.lookers[0].looks} looks, waiting for {self.lookers[0].reasons}")
        healthy = sorted(judge.healthy_seconds().values())
        if healthy:
            print(f"  {len(healthy)} healthy jobs beside {len(self.other_book.by_id)} of the other tenant: median "
                  f"{healthy[len(healthy) // 2]:.2f} s, at most {healthy[-1]:.2f} s, {len(self.book.held)} seen held")
        print(f"  {self.losses()}")
        done = collections.Counter(kind for chaos in self.chaos for kind, _, _ in chaos.done)
        print(f"  chaos {dict(done)}, resident at most "
              f"{[node.resident_max >> 20 for node in self.cluster.nodes]} MiB", flush=True)
        lines = [line for node in self.cluster.nodes for line in node.log_lines()]
        logged = collections.Counter((line["level"], line["message"]) for line in lines
                                     if line["level"] in ("warning", "error", "critical"))
        for (level, message), count in sorted(logged.items(), key=str):
            print(f"  {level:8} {count:5} {message}")

    def losses(self) -> str:
        """What W7 counts (docs/benchmarks.md), for all jobs that were answered 201."""
        kinds = {"lost": ("lost: ",), "wrong": ("the digest is of no whole file", "the file is not"),
                 "told but not whole": ("a name without a success",),
                 "sent twice with different content": ("another body under the same identifier",)}
        counts = {name: sum(any(text in wrong for text in texts) for wrong in self.book.wrong)
                  for name, texts in kinds.items()}
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        return f"{len(self.book.by_id)} jobs were accepted: {words}"

    def stop(self):
        for text in self.cluster.stop():
            self.book.complain(text)
        self.origin.stop()
        self.receiver.close()


@contextlib.contextmanager
def soaked(binary: str, seconds: float, seed: int, nodes: int, *, kinds=KINDS, clients=6, pause=0.4, chaos_pause=4.0,
           misbehave=True, keep=False):
    """A cluster that has had its time and is quiet again, and has been judged: `book.wrong` says what was wrong."""
    print(f"seed {seed}, {nodes} nodes, {seconds:.0f} s", flush=True)
    run = Soak(binary, seed, nodes, kinds, clients, pause, chaos_pause, misbehave)
    try:
        try:
            run.run(seconds)
            run.judge()
        except TimeoutError as error:
            run.book.complain(f"{error}; {run.counted}")
            for state in ("waiting", "queued", "running", "suspended"):
                for job in run.cluster.pages(f"/v1/jobs?state={state}"):
                    run.book.complain(f"unfinished: {json.dumps(job)}")
        yield run
    finally:
        run.stop()
        if keep and run.book.wrong:
            print(f"kept: {run.folder}")
        else:
            shutil.rmtree(run.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default=".build/release/ferry")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--runs", type=int, default=1, help="how many runs, with consecutive seeds")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--pause", type=float, default=0.4, help="seconds between a client's requests, on average")
    parser.add_argument("--chaos-pause", type=float, default=4, help="seconds between one trouble and the next")
    parser.add_argument("--chaos", default=",".join(KINDS), help="what may happen, separated by commas")
    parser.add_argument("--misbehave", action=argparse.BooleanOptionalAction, default=True,
                        help="a second tenant that makes a host refuse its requests")
    parser.add_argument("--keep", action="store_true", help="leave logs, files and database of a run that has failed")
    words = parser.parse_args()
    are_kept = [kept_promises(words, seed) for seed in range(words.seed, words.seed + words.runs)]
    sys.exit(0 if all(are_kept) else 1)


def kept_promises(words, seed: int) -> bool:
    with soaked(words.ferry, words.seconds, seed, words.nodes, kinds=words.chaos.split(","), clients=words.clients,
                pause=words.pause, chaos_pause=words.chaos_pause, misbehave=words.misbehave, keep=words.keep) as run:
        pass
    wrong = run.book.wrong
    for text in wrong:
        print(f"WRONG {text}")
    print(f"seed {seed}: {'kept its promises' if not wrong else f'{len(wrong)} complaints'}", flush=True)
    return not wrong


if __name__ == "__main__":
    main()

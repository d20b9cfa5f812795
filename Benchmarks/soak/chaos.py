"""What happens to the cluster, from a seed, and when: checks that know of it look here."""
from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time

from book import Book
from cluster import DISK_BYTES, LEASE_SECONDS, Cluster, Node
from origin import Origin
from receiver import Receiver


class Chaos(threading.Thread):
    """One thing after the other; at its end everything runs again. Several of them make things fall together: what
    one of them has in its hands the others leave alone (`taken`)."""

    def __init__(self, seed: str, cluster: Cluster, origin: Origin, receiver: Receiver, book: Book, kinds: list[str],
                 pause: float, taken: dict[str, threading.Lock]):
        super().__init__(name=f"chaos {seed}", daemon=True)
        self.random = random.Random(seed)
        self.cluster, self.origin, self.receiver, self.book = cluster, origin, receiver, book
        self.kinds, self.pause, self.taken = kinds, pause, taken
        self.stopping = threading.Event()
        self.zero = time.monotonic()
        # Name, begin and end of each, by the monotonic clock.
        self.done: list[tuple[str, float, float]] = []

    def run(self):
        while not self.stopping.wait(self.random.uniform(0.3, 2) * self.pause):
            kind = self.random.choice(self.kinds)
            number = self.random.randrange(len(self.cluster.nodes))
            things = {"kill": [f"node {number}"], "terminate": [f"node {number}"], "freeze": [f"node {number}"],
                      "kill_all": [f"node {index}" for index in range(len(self.cluster.nodes))],
                      "database": ["database"], "database_long": ["database"], "sessions": ["database"],
                      "receiver_fails": ["failing"],
                      "hold": ["service"], "drain": ["nodes"], "host_paused": ["good"], "disk": ["disk"],
                      "origin_gone": ["origin"], "receiver_gone": ["receiver"]}[kind]
            with contextlib.ExitStack() as stack:
                if all(self.take(name, stack) for name in things):
                    self.make(kind, number)

    def take(self, name: str, stack: contextlib.ExitStack) -> bool:
        is_free = self.taken[name].acquire(blocking=False)
        if is_free:
            stack.callback(self.taken[name].release)
        return is_free

    def make(self, kind: str, number: int):
        begin = time.monotonic()
        try:
            text = getattr(self, kind)(self.cluster.nodes[number])
            self.done.append((kind, begin, time.monotonic()))
            where = f" node {number}" if kind in ("kill", "terminate", "freeze") else ""
            print(f"  {begin - self.zero:7.1f} s to {time.monotonic() - self.zero:7.1f} s: {kind}{where} {text}",
                  flush=True)
        except Exception as error:
            self.book.complain(f"chaos {kind}, node {number}: {error!r}")

    # MARK: Nodes

    def kill(self, node: Node) -> str:
        node.send(signal.SIGKILL)
        node.process.wait()
        # Sooner or later than the others notice.
        pause = self.random.choice([0, 0, 1, LEASE_SECONDS + 8])
        time.sleep(pause)
        node.start()
        node.wait_ready()
        return f"away for {pause} s"

    def kill_all(self, _) -> str:
        for node in self.cluster.nodes:
            node.send(signal.SIGKILL)
        for node in self.cluster.nodes:
            node.process.wait()
            node.start()
        for node in self.cluster.nodes:
            node.wait_ready()
        return ""

    def terminate(self, node: Node) -> str:
        node.wait_ready()
        node.send(signal.SIGTERM)
        status = node.process.wait(90)
        if status != 0:
            self.book.complain(f"a node ended with {status} after SIGTERM:\n{node.log_end()}")
        node.start()
        node.wait_ready()
        return ""

    def freeze(self, node: Node) -> str:
        """Longer than its lease: others do its work, and it must do no harm when it wakes."""
        pause = self.random.choice([2, LEASE_SECONDS + 7, LEASE_SECONDS + 25])
        node.send(signal.SIGSTOP)
        time.sleep(pause)
        node.send(signal.SIGCONT)
        return f"for {pause} s"

    # MARK: What they need

    def database(self, _) -> str:
        return self.restart_database(self.random.choice([0, 1, 6]))

    def database_long(self, _) -> str:
        """Longer than a lease: who is back first must not find the others dead."""
        return self.restart_database(LEASE_SECONDS + 5)

    def restart_database(self, pause: float) -> str:
        self.cluster.postgres.stop(signal.SIGQUIT)
        time.sleep(pause)
        self.cluster.postgres.start()
        return f"away for {pause} s"

    def sessions(self, _) -> str:
        """Some connections of the service to its database end."""
        part = self.random.choice([0.2, 0.5, 1])
        with contextlib.suppress(subprocess.CalledProcessError):
            self.cluster.postgres.query("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                        f"WHERE pid <> pg_backend_pid() AND datname = 'ferry' AND random() < {part}")
        return f"{part:.0%}"

    def disk(self, _) -> str:
        """One of the disks runs full, to the last byte or to what downloads leave free."""
        if not self.cluster.has_disk:
            return "(there is none)"
        pause, part = self.random.uniform(1, 8), self.random.choice([0, 0, 0.04])
        filler = self.cluster.disk / ".filler"
        free = os.statvfs(self.cluster.disk)
        with open(filler, "wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, int(free.f_bavail * free.f_frsize - part * DISK_BYTES))
        time.sleep(pause)
        filler.unlink()
        return f"full but for {part:.0%} for {pause:.1f} s"

    def origin_gone(self, _) -> str:
        pause = self.random.uniform(0.5, 6)
        self.origin.leave("shaky")
        time.sleep(pause)
        self.origin.come_back("shaky")
        return f"for {pause:.1f} s"

    def receiver_gone(self, _) -> str:
        pause = self.random.uniform(0.2, 3)
        self.receiver.close()
        time.sleep(pause)
        self.receiver.open()
        return f"for {pause:.1f} s"

    def receiver_fails(self, _) -> str:
        self.receiver.failing = 0.5
        time.sleep(self.random.uniform(0.5, 4))
        self.receiver.failing = 0.0
        return ""


    # MARK: Operators

    def ask(self, method: str, path: str, body):
        answer = self.cluster.call(method, path, body, seconds=120)
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body}")

    def hold(self, _) -> str:
        self.ask("POST", "/v1/admin/pause", {})
        time.sleep(self.random.uniform(0.5, 3))
        self.ask("POST", "/v1/admin/resume", {})
        return ""

    def drain(self, _) -> str:
        nodes = self.cluster.call("GET", "/v1/admin/nodes").json()["data"]
        identifier = self.random.choice(nodes)["id"]
        # It may have gone in the meantime.
        for what in ("drain", "resume"):
            self.cluster.call("POST", f"/v1/admin/nodes/{identifier}/{what}", {}, seconds=120)
            time.sleep(self.random.uniform(0.5, 3))
        return identifier

    def host_paused(self, _) -> str:
        place = f"/v1/admin/hosts/http%3A%2F%2F127.0.0.1%3A{self.origin.ports['good']}"
        self.ask("PATCH", place, {"paused": True})
        time.sleep(self.random.uniform(0.5, 3))
        self.ask("PATCH", place, {"paused": False})
        return ""


KINDS = ["kill", "kill", "kill_all", "terminate", "freeze", "database", "sessions", "disk", "origin_gone",
         "database_long", "receiver_gone", "receiver_fails", "hold", "drain", "host_paused"]


def locks(nodes: int) -> dict[str, threading.Lock]:
    return {f"node {number}": threading.Lock() for number in range(nodes)} | {
        name: threading.Lock() for name in
        ("database", "disk", "failing", "good", "nodes", "origin", "receiver", "service")}


def excused(done: list[tuple[str, float, float]]) -> list[tuple[float, float]]:
    """Times at which a limit of connections may be exceeded. A frozen node keeps its connections open while others
    use their places, from its lease on; they end when it wakes and hears that it is dead: at the next heartbeat
    (3 s) and its answer."""
    return [(begin, end + 6) for kind, begin, end in done if end - begin > LEASE_SECONDS - 3 and kind == "freeze"]

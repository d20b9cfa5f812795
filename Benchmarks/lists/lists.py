"""How long lists take with a long history, alone and beside a tenant whose clients read continuously:

    python3 Benchmarks/lists/lists.py [--ferry .build/release/ferry] [--jobs 1000000] [--clients 40] [--seconds 20]

Two tenants share a history of finished jobs. A job that is older than all of them ends last, so that one page of events
names the oldest and the newest jobs. First one client reads pages of 50. Then the clients of one tenant read pages of
jobs and events, with a rare filter among them, over one connection each without a pause; meanwhile one client of the
other tenant reads 5 jobs, ten times a second. Starts its own Ferry and PostgreSQL on free ports.
"""
from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import selectors
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "webhooks"))
from bench import Service, httpc, quantile, say, until  # noqa: E402

GREEDY, SMALL = "greedy", "small"
PAGES = {
    "jobs": "/v1/jobs?limit=50",
    "events": "/v1/events?limit=50",
    "jobs of a session": "/v1/jobs?limit=50&session=often",
}
RARE = "/v1/jobs?limit=50&metadata.order=none"


def key(service: Service, tenant: str) -> str:
    made = service.call("POST", "/v1/admin/keys", {"tenant": tenant, "role": "client", "name": tenant})
    return f"Authorization: Bearer {made['key']}\r\n"


def waiting_job(service: Service, authorization: str) -> str:
    client = httpc.Client(service.port, headers=authorization)
    job = client.json("POST", "/v1/jobs", {
        "kind": "data", "request": {"url": "http://127.0.0.1:9/"},
        "schedule": {"earliest_begin_at": "2099-01-01T00:00:00Z"}})["id"]
    client.close()
    return job


def cancel(service: Service, authorization: str, job: str) -> None:
    client = httpc.Client(service.port, headers=authorization)
    client.json("POST", f"/v1/jobs/{job}/cancel", {})
    client.close()


def fill(service: Service, count: int) -> None:
    """Copies of a cancelled job of each tenant, with identifiers between the oldest job and now."""
    columns = [name for name in service.sql(
        "SELECT string_agg(attname::text, ',') FROM pg_attribute "
        "WHERE attrelid = 'finished_jobs'::regclass AND attnum > 0 AND NOT attisdropped").split(",")
        if name not in ("id", "tenant", "session")]
    service.sql(f"""
        INSERT INTO finished_jobs (id, tenant, session, {','.join(columns)})
        SELECT (lpad(to_hex(u.since + i * (u.until - u.since) / {count}), 12, '0') || '7'
                || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid,
            CASE WHEN i % 10 = 0 THEN '{SMALL}' ELSE '{GREEDY}' END,
            CASE WHEN i % 2 = 0 THEN 'often' ELSE 'default' END, {','.join('f.' + name for name in columns)}
        FROM (
            SELECT (SELECT ('x' || left(replace(min(id::text), '-', ''), 12))::bit(48)::bigint FROM jobs) AS since,
                (extract(epoch FROM now()) * 1000)::bigint AS until
        ) u CROSS JOIN (SELECT * FROM finished_jobs LIMIT 1) f CROSS JOIN generate_series(1, {count}) AS i""")


class Readers:
    """Connections that ask for the next page as soon as they have one; in a process of their own."""

    def __init__(self, port: int, paths: list[str], authorization: str) -> None:
        self.stop, self.count = multiprocessing.Event(), multiprocessing.Value("q", 0)
        self.process = multiprocessing.Process(
            target=self.run, args=([httpc.request("GET", path, port=port, headers=authorization) for path in paths], port))
        self.process.start()

    def run(self, requests: list[bytes], port: int) -> None:
        selector, read = selectors.DefaultSelector(), {}
        for request in requests:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, request)
            read[connection] = b""
            connection.sendall(request)
        while not self.stop.is_set():
            for found, _ in selector.select(0.2):
                connection = found.fileobj
                part = connection.recv(1 << 18)
                if not part:
                    raise SystemExit("the service has closed a connection")
                text = read[connection] + part
                head, separator, body = text.partition(b"\r\n\r\n")
                lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                if not separator or len(body) < lengths[0]:
                    read[connection] = text
                    continue
                read[connection] = b""
                with self.count.get_lock():
                    self.count.value += head.startswith(b"HTTP/1.1 200")
                connection.sendall(found.data)

    def end(self) -> int:
        self.stop.set()
        self.process.join(30)
        if self.process.exitcode != 0:
            self.process.kill()
            raise SystemExit("the clients that read continuously have failed")
        return self.count.value


class Measured:
    """Seconds of up to `count` requests, as many as fit into a minute, and how many were not answered with 200."""

    def __init__(self, port: int, path: str, authorization: str, count: int, pause: float = 0) -> None:
        client = httpc.Client(port, headers=authorization)
        raw = httpc.request("GET", path, port=port, headers=authorization)
        self.seconds, self.failures, end = [], 0, time.monotonic() + 60
        while len(self.seconds) < count and time.monotonic() < end:
            begin = time.monotonic()
            self.failures += client.call(raw)[0] != 200
            self.seconds.append(time.monotonic() - begin)
            time.sleep(pause)
        client.close()

    def say(self, name: str, asked: str = "") -> None:
        milliseconds = [1e3 * value for value in self.seconds]
        say(f"{name}: p50 {quantile(milliseconds, 0.5):.1f}, p99 {quantile(milliseconds, 0.99):.1f}, "
            f"longest {max(milliseconds):.1f} ms of {len(milliseconds)}, {self.failures} failed{asked}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default=".build/release/ferry")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=20)
    words = parser.parse_args()
    with Service(words.ferry) as service:
        keys = {tenant: key(service, tenant) for tenant in (GREEDY, SMALL)}
        for authorization in keys.values():
            cancel(service, authorization, waiting_job(service, authorization))
        old = waiting_job(service, keys[GREEDY])
        until(lambda: service.unfinished() == 1, 10)
        time.sleep(2)
        for path in [*PAGES.values(), RARE]:  # plans are made now, when there is next to nothing
            Measured(service.port, path, keys[GREEDY], 20)
        fill(service, words.jobs)
        for _ in range(60):
            cancel(service, keys[GREEDY], waiting_job(service, keys[GREEDY]))
        cancel(service, keys[GREEDY], old)
        say(f"{words.jobs} finished jobs, an old one ended last")
        for name, path in PAGES.items():
            Measured(service.port, path, keys[GREEDY], 200).say(f"a page of 50 {name}", "; asked: p50 5")
        Measured(service.port, RARE, keys[GREEDY], 5).say("a page that a rare filter leaves empty")
        paths = [[*PAGES.values(), RARE][number % 4] for number in range(words.clients)]
        readers = Readers(service.port, paths, keys[GREEDY])
        time.sleep(2)
        found = Measured(service.port, "/v1/jobs?limit=5", keys[SMALL], int(words.seconds * 10), 0.1)
        pages = readers.end()
        found.say(f"5 jobs of another tenant beside {words.clients} clients ({pages} pages)", "; asked: p99 50")


if __name__ == "__main__":
    main()

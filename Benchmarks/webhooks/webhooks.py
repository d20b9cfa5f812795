"""What webhooks and streams of events cost, on one machine:

    python3 Benchmarks/webhooks/webhooks.py [--ferry .build/release/ferry] [--lines 1,2,3,4,5,6] [--deliveries 1000000]

1  deliveries a second to one receiver from the durable outbox: as they are made, and those that had gathered
2  1 KiB downloads, one job a request over 8 connections: with a webhook for every job against without
3  from the end of a job to the first byte at its receiver, on an idle service
4  100,000 deliveries to 100 endpoints, 10 of them dead, against the same with all of them alive
5  memory, claims of jobs and deliveries with a backlog of 1,000,000 deliveries against none
6  processor time of 1,000 listeners of 10 events a second each

Everything that is compared runs in turn in one run. Needs nginx, PostgreSQL and nothing else; starts its own of both
on free ports and stops them.
"""
from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import pathlib
import selectors
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bench import (  # noqa: E402
    AUTHORIZATION, Nginx, Service, arrived, download, free_port, httpc, quantile, say, until, w1, waiting)


def outbox(words: argparse.Namespace) -> None:
    """Line 1."""
    origin = Nginx()
    count = 30_000
    try:
        with Service(words.ferry) as service:
            service.endpoint(origin.url("/hook/one"), events=["job.created"])
            rates = []
            for part in range(3):
                mark = origin.mark()
                began = time.time()
                before = service.processor()
                service.submit(waiting(10_000, f"a{part}"))
                found = arrived(origin, mark, 10_000)
                rates.append(len(found) / (found[-1][0] - began))
                spent = [1e6 * (b - a) / 10_000 for a, b in zip(before, service.processor())]
                say(f"  as they are made: {rates[-1]:7.0f} a second, from the first submission to the last arrival; "
                    f"{spent[0]:.0f} µs of the service each, {spent[1]:.0f} µs of the database")
            service.halt()
            service.start(FERRY_ROLES="api,worker")
            service.submit(waiting(count, "b"))
            until(lambda: service.pending() == count, 120)
            service.halt()
            mark = origin.mark()
            service.start()
            before = service.processor()
            found = arrived(origin, mark, count)
            rate = len(found) / (found[-1][0] - found[0][0])
            spent = [1e6 * (b - a) / count for a, b in zip(before, service.processor())]
            until(lambda: service.pending() == 0, 30)
            say(f"1  {rate:.0f} deliveries a second of {count} that had gathered ({spent[0]:.0f} µs of the service, "
                f"{spent[1]:.0f} µs of the database each); {statistics.median(rates):.0f} as they are made; asked: 3000")
    finally:
        origin.stop()


def with_webhook(words: argparse.Namespace) -> None:
    """Line 2."""
    origin = Nginx()
    rows: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    try:
        with Service(words.ferry, FERRY_FILE_SYNC="none") as service:
            w1(service, origin, 1_000, "warm", origin.url("/hook/job"))
            for turn in range(words.turns):
                for has_webhook in (False, True):
                    before = service.processor()
                    row = w1(service, origin, 4_000, f"{turn}{has_webhook}",
                             origin.url("/hook/job") if has_webhook else None)
                    spent = [1e6 * (b - a) / 4_000 for a, b in zip(before, service.processor())]
                    rows[has_webhook].append(row)
                    say(f"  {'with' if has_webhook else 'without'}: {row[0]:.0f} jobs a second, {row[1]:.0f} with "
                        f"their deliveries; {spent[0]:.0f} µs of the service each, {spent[1]:.0f} µs of the database")
        without = statistics.median(row[0] for row in rows[False])
        ended, told = (statistics.median(row[index] for row in rows[True]) for index in (0, 1))
        say(f"2  {ended / without:.2f} of W1 without a webhook until all jobs have ended, {told / without:.2f} until all "
            f"deliveries have arrived; asked: 0.6")
    finally:
        origin.stop()


def latency(words: argparse.Namespace) -> None:
    """Line 3. The end of a job is the time that the result gets before its commit: the commit is in the figure."""
    origin = Nginx()
    receiver = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{receiver.getsockname()[1]}/"
    try:
        with Service(words.ferry) as service:
            for name in ("job's own webhook", "endpoint"):
                if name == "endpoint":
                    service.endpoint(url, events=["job.succeeded"])
                connection, values = None, []
                for number in range(220):
                    job = download(origin, f"l{number}", url if name != "endpoint" else None)
                    service.call("POST", "/v1/jobs", job)
                    connection, at, body = receive(receiver, connection)
                    event = json.loads(body)
                    ended = datetime.datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp()
                    values.append(1e3 * (at - ended))
                    time.sleep(0.02)
                connection.close()
                values = values[20:]
                say(f"3  {name}: p50 {quantile(values, 0.5):.2f} ms, p99 {quantile(values, 0.99):.2f} ms, most "
                    f"{max(values):.2f} ms of {len(values)}, commit included; asked: 5, 50")
    finally:
        receiver.close()
        origin.stop()


def receive(receiver: socket.socket, connection: socket.socket | None) -> tuple[socket.socket, float, bytes]:
    """When the first byte of the next request came, and its body."""
    selector = selectors.DefaultSelector()
    selector.register(receiver, selectors.EVENT_READ)
    if connection:
        selector.register(connection, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in selector.select(10)]
        if not ready:
            raise SystemExit("no webhook within 10 s")
        at = time.time()
        if receiver in ready:
            connection = receiver.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = connection.recv(65_536)
            at = time.time()
        else:
            data = connection.recv(65_536)
        if data:
            break
        selector.unregister(connection)
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    return connection, at, body


def dead(words: argparse.Namespace) -> None:
    """Line 4. Half of the dead refuse connections, half take them and say nothing."""
    origin = Nginx()
    silent = socket.create_server(("127.0.0.1", 0), backlog=1024)
    refusing = f"http://127.0.0.1:{free_port()}/"
    mute = f"http://127.0.0.1:{silent.getsockname()[1]}/"
    events = words.dead_deliveries // 100
    times: dict[bool, list[float]] = {False: [], True: []}
    try:
        for _ in range(words.turns):
            for has_dead in (False, True):
                with Service(words.ferry) as service:
                    for number in range(100):
                        url = origin.url(f"/hook/{number}")
                        if has_dead and number < 10:
                            url = refusing if number < 5 else mute
                        service.endpoint(url, events=["job.created"])
                    mark = origin.mark()
                    began = time.time()
                    service.submit(waiting(events, "d"))
                    count = events * (90 if has_dead else 100)
                    found = [at for at, path in arrived(origin, mark, count, 300) if int(path.split("/")[2]) >= 10]
                    assert len(found) == events * 90
                    times[has_dead].append(found[-1] - began)
                    say(f"  {'10 dead' if has_dead else 'all alive'}: the 90 had everything after "
                        f"{times[has_dead][-1]:.2f} s, half of it after {quantile(found, 0.5) - began:.2f} s")
        alive, with_dead = (statistics.median(times[key]) for key in (False, True))
        say(f"4  {100 * (with_dead / alive - 1):+.1f} % of time for the 90 of 100 with 10 dead ones; asked: at most 5 %")
    finally:
        silent.close()
        origin.stop()


def backlog(words: argparse.Namespace) -> None:
    """Line 5. The backlog is that of ten dead endpoints; the never analyzed table comes before the analyzed one."""
    origin = Nginx()
    try:
        with Service(words.ferry, FERRY_FILE_SYNC="none") as service:
            service.endpoint(origin.url("/hook/live"), events=["job.created"], metadata={"live": "1"})
            service.sql("ALTER TABLE deliveries SET (autovacuum_enabled = off)")
            w1(service, origin, 2_000, "warm")
            first = under(service, origin, "none", words.turns)
            for number in range(10):
                service.endpoint(f"http://127.0.0.1:9/{number}", events=["job.redirect"])
            began = time.monotonic()
            step = 100_000
            uuids = service.sql(f"SELECT string_agg(id::text, ',') FROM (SELECT id FROM webhooks ORDER BY id DESC LIMIT "
                                "10) w").split(",")
            for start in range(0, words.deliveries, step):
                fill(service, uuids, min(step, words.deliveries - start))
            say(f"  {words.deliveries} deliveries in {time.monotonic() - began:.0f} s")
            time.sleep(10)
            rows = {"none": first, "never analyzed": under(service, origin, "never analyzed", words.turns)}
            service.sql("VACUUM ANALYZE deliveries")
            rows["analyzed"] = under(service, origin, "analyzed", words.turns)
            for name in ("never analyzed", "analyzed"):
                ratios = [rows[name][index] / first[index] for index in (0, 1)]
                say(f"5  {name}: {ratios[0]:.2f} of the jobs a second, {ratios[1]:.2f} of the deliveries a second, memory "
                    f"{(rows[name][2] - first[2]) / (1 << 20):+.1f} MiB; asked: 1, 1, 0")
    finally:
        origin.stop()


def fill(service: Service, endpoints: list[str], count: int) -> None:
    names = "ARRAY['" + "','".join(endpoints) + "']::uuid[]"
    service.sql(f"""
        INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant, session, url, job_json,
            endpoint)
        SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), i, now(), now(), 'job.redirect', 'default',
            'default', 'http://127.0.0.1:9/', '{{"id": "' || repeat('x', 700) || '"}}',
            ({names})[1 + i % {len(endpoints)}]
        FROM generate_series(1, {count}) i;
        INSERT INTO job_counts (shard, deliveries_pending) VALUES ('bench', {count})
        ON CONFLICT (shard) DO UPDATE SET
            deliveries_pending = job_counts.deliveries_pending + excluded.deliveries_pending""")


def under(service: Service, origin: Nginx, name: str, turns: int) -> tuple[float, float, int]:
    """Medians of jobs and deliveries a second, and memory afterwards."""
    jobs, deliveries = [], []
    for turn in range(turns):
        jobs.append(w1(service, origin, 3_000, f"{name[:2]}{turn}")[0])
        mark = origin.mark()
        began = time.time()
        service.submit([{**job, "metadata": {"live": "1"}} for job in waiting(5_000, f"{name[:2]}{turn}")])
        deliveries.append(5_000 / (arrived(origin, mark, 5_000)[-1][0] - began))
    row = statistics.median(jobs), statistics.median(deliveries), service.resident
    say(f"  backlog {name}: {row[0]:.0f} jobs a second, {row[1]:.0f} deliveries a second, {row[2] / (1 << 20):.1f} MiB")
    return row


def listen(port: int, count: int, started: multiprocessing.Event, counts: multiprocessing.Array) -> None:
    """A process of streams; counts what each one gets."""
    selector = selectors.DefaultSelector()
    request = httpc.request("GET", "/v1/events", port=port, headers=AUTHORIZATION + "Accept: text/event-stream\r\n")
    for number in range(count):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.sendall(request)
        stream.setblocking(False)
        selector.register(stream, selectors.EVENT_READ, number)
    started.set()
    while True:
        for key, _ in selector.select():
            counts[key.data] += key.fileobj.recv(1 << 20).count(b"event: job.")


def listeners(words: argparse.Namespace) -> None:
    """Line 6."""
    seconds, count = 20, 1_000
    origin = Nginx()
    started, counts = multiprocessing.Event(), multiprocessing.Array("i", count, lock=False)
    try:
        with Service(words.ferry, FERRY_HTTP_CONNECTIONS="2000") as service:
            process = multiprocessing.Process(target=listen, args=(service.port, count, started, counts), daemon=True)
            process.start()
            started.wait(60)
            time.sleep(2)
            before, begin = service.processor(), time.monotonic()
            jobs = 10 * seconds // 3  # each is created, started and succeeds
            for number in range(jobs):
                service.call("POST", "/v1/jobs", download(origin, f"s{number}"))
                time.sleep(max(0, begin + (number + 1) * seconds / jobs - time.monotonic()))
            until(lambda: min(counts) >= 3 * jobs, 30)
            took = time.monotonic() - begin
            spent = [(b - a) / took for a, b in zip(before, service.processor())]
            process.terminate()
            process.join()
            say(f"6  {count} listeners, {min(counts) / took:.1f} to {max(counts) / took:.1f} events a second each: "
                f"{spent[0]:.2f} of a core, the database {spent[1]:.2f}; asked: at most 1")
    finally:
        origin.stop()


LINES = {"1": outbox, "2": with_webhook, "3": latency, "4": dead, "5": backlog, "6": listeners}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default=".build/release/ferry")
    parser.add_argument("--lines", default="1,2,3,4,5,6")
    parser.add_argument("--deliveries", type=int, default=1_000_000, help="of the backlog (line 5)")
    parser.add_argument("--dead-deliveries", type=int, default=100_000, help="to 100 endpoints (line 4)")
    parser.add_argument("--turns", type=int, default=3, help="of each side of a comparison")
    words = parser.parse_args()
    for line in words.lines.split(","):
        LINES[line](words)


if __name__ == "__main__":
    main()

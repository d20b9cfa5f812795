"""A night of jobs: 300 files of eight servers that behave differently, while a node and PostgreSQL are killed."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import REPOSITORY, binary, eventually, running

sys.path.insert(0, str(REPOSITORY / "Benchmarks/soak"))

from cluster import Node, Postgres

SERVERS = ("slow", "busy", "limited", "wrong", "missing", "signed", "down", "endless")
FILE_COUNT = 300
# Of "wrong" and of "missing": the files that fail until somebody mends them.
FAILING_COUNT = 5


def content(server: str, name: str) -> bytes:
    return random.Random(f"{server}/{name}").randbytes(20_000)


class Servers:
    """Eight servers with a port each, on one thread. `mended`: the failing files are right from now on."""

    def __init__(self):
        self.mended = False
        self.ports: dict[str, int] = {}
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        for server in SERVERS:
            opened = self._run(self._open(server, 0))
            self.ports[server] = opened.sockets[0].getsockname()[1]
            if server == "down":
                opened.close()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _open(self, server: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(
            lambda reader, writer: self._serve(server, reader, writer), "127.0.0.1", port, backlog=512)

    def come_back(self):
        self._run(self._open("down", self.ports["down"]))

    def url(self, server: str, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[server]}/{name}"

    async def _serve(self, server: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                target = head.split(b" ")[1].decode()[1:]
                name, _, query = target.partition("?")
                self.counts[server, name] += 1
                if not await self._answer(server, name, query, writer):
                    break
        writer.close()

    async def _answer(self, server: str, name: str, query: str, writer: asyncio.StreamWriter) -> bool:
        """Returns whether the connection stays open."""
        body, count = content(server, name), self.counts[server, name]
        fails = int(name) < FAILING_COUNT and not self.mended

        def answer(status: str, body: bytes, *fields: str):
            lines = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields])
            writer.write(f"{lines}\r\n\r\n".encode() + body)

        match server:
            case "slow":
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode())
                for start in range(0, len(body), 4_000):
                    writer.write(body[start:start + 4_000])
                    await writer.drain()
                    await asyncio.sleep(0.05)
            case "busy" if count == 1:
                answer("503 Service Unavailable", b"")
            case "limited" if count == 1 and int(name) % 4 == 0:
                answer("429 Too Many Requests", b"", "Retry-After: 1")
            case "wrong" if fails:
                answer("200 OK", body[::-1])
            case "missing" if fails:
                answer("404 Not Found", b"")
            case "signed" if not query:
                answer("302 Found", b"", f"Location: /{name}?signature={count}")
            case "signed" if query == "signature=1":
                answer("403 Forbidden", b"")
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
                await writer.drain()
                return False
            case _:
                answer("200 OK", body)
        await writer.drain()
        return True

    def stop(self):
        async def end():
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


@pytest.fixture()
def servers():
    made = Servers()
    yield made
    made.stop()


@pytest.fixture()
def cluster(folder):
    """Two nodes and their PostgreSQL."""
    postgres = Postgres(folder / "postgres")
    (folder / "files").mkdir()
    settings = {"FERRY_DATABASE_URL": postgres.url, "FERRY_STORAGE_ROOT": str(folder / "files")}
    nodes = []
    try:
        for number in range(2):
            nodes.append(Node(str(binary()), folder / f"node{number}", settings))
            nodes[-1].wait_ready()
        yield postgres, nodes, folder / "files"
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.send(signal.SIGTERM)
                node.process.wait(60)
        postgres.stop(signal.SIGINT)


def jobs(servers: Servers):
    for number in range(FILE_COUNT):
        server, name = SERVERS[number % len(SERVERS)], str(number // len(SERVERS))
        digest = hashlib.sha256(content(server, name)).hexdigest()
        job = {
            "kind": "download", "request": {"url": servers.url(server, name)},
            "destination": {"path": f"night/{server}/{name}"}, "metadata": {"server": server},
            "retry": {"initial_delay": 0.2, "max_delay": 1, "max_attempts": 6 if server == "busy" else 3},
            "schedule": {"waits_for_connectivity": server == "down"},
        }
        if server == "wrong":
            job["integrity"] = {"sha256": digest}
        yield job


def all_jobs(node: Node, query: str) -> list[dict]:
    found, cursor = [], ""
    while True:
        answer = node.call("GET", f"/v1/jobs?{query}&limit=200{cursor}")
        assert answer.status == 200, answer.body
        page = answer.json()
        found += page["data"]
        if not page["next_cursor"]:
            return found
        cursor = "&cursor=" + page["next_cursor"]


def test_a_night_ends_once_a_round_with_exact_counts(servers, cluster, receiver):
    postgres, (first, second), files = cluster
    endpoint = {"url": f"{receiver.url}/hook", "events": ["group.finished"]}
    assert second.call("POST", "/v1/webhooks", endpoint).status == 201
    batch = {"group": "night", "close_group": True, "jobs": list(jobs(servers))}
    accepted = first.call("POST", "/v1/jobs/batch", batch, {"Idempotency-Key": "night"})
    assert accepted.status == 201, accepted.body

    def group() -> dict:
        answer = second.call("GET", "/v1/job_groups/night")
        assert answer.status == 200, answer.body
        return answer.json()

    def has_ended(count: int) -> bool:
        counts = group()["counts"]
        return counts["succeeded"] + counts["failed"] >= count

    # Some have ended, others run or wait: the best time to lose a node, then the database.
    eventually(60, lambda: has_ended(40), "40 jobs have ended")
    first.process.kill()
    first.process.wait()
    first.start()
    eventually(60, lambda: has_ended(60), "60 jobs have ended")
    postgres.kill()
    postgres.start()
    servers.come_back()
    first.wait_ready()
    second.wait_ready()

    def finished() -> dict[str, dict]:
        """Events by their identifier: a delivery may come twice."""
        return {message.headers["webhook-id"]: json.loads(message.body)["data"]["group"]
                for message in receiver.received("/hook")}

    failing = 2 * FAILING_COUNT
    eventually(180, finished, "the first round has ended")
    [shown] = finished().values()
    assert (shown["name"], shown["state"], shown["round"]) == ("night", "finished", 1)
    nothing = {"waiting": 0, "queued": 0, "running": 0, "suspended": 0, "cancelled": 0}
    assert shown["counts"] == nothing | {"succeeded": FILE_COUNT - failing, "failed": failing}
    assert shown["open_failures"] == failing

    failed = all_jobs(second, "group=night&state=failed&retried=false")
    errors = collections.Counter((job["metadata"]["server"], job["error"]["code"]) for job in failed)
    assert errors == {("wrong", "digest_mismatch"): FAILING_COUNT,
                      ("missing", "unacceptable_status"): FAILING_COUNT}
    summary = second.call("GET", "/v1/jobs/summary?by=error&group=night&state=failed&retried=false").json()
    assert {row["value"]: row["count"] for row in summary["data"]} == {
        "digest_mismatch": FAILING_COUNT, "unacceptable_status": FAILING_COUNT}

    servers.mended = True
    retry = second.call("POST", "/v1/job_groups/night/retry", {}, {"Idempotency-Key": "morning"})
    assert retry.status == 202, retry.body
    eventually(180, lambda: len(finished()) == 2, "the second round has ended")
    [_, shown] = sorted(finished().values(), key=lambda group: group["round"])
    assert (shown["round"], shown["open_failures"]) == (2, 0)
    assert shown["counts"] == nothing | {"succeeded": FILE_COUNT, "failed": failing}
    assert all_jobs(second, "group=night&state=failed&retried=false") == []
    retries = {job["retry_of"]: job["id"] for job in all_jobs(second, "group=night&state=succeeded")}
    for job in all_jobs(second, "group=night&state=failed"):
        assert job["retried_by"] == retries[job["id"]]

    for number in range(FILE_COUNT):
        server, name = SERVERS[number % len(SERVERS)], str(number // len(SERVERS))
        assert (files / "night" / server / name).read_bytes() == content(server, name), f"{server}/{name}"
    recorded = second.call("GET", "/v1/job_groups/night/events?limit=500").json()["data"]
    rounds = [event["data"]["group"]["round"] for event in recorded if event["type"] == "group.finished"]
    assert rounds == [2, 1], "newest first"
    checked = subprocess.run([binary(), "check", "--database"], env=second.environment, capture_output=True, text=True,
                             check=False)
    assert "rows: consistent" in checked.stdout.replace("  ", " "), checked.stdout + checked.stderr


def test_a_large_group_is_counted_closed_and_cancelled_in_short_steps(receiver):
    """A million jobs with FERRY_TEST_LONG. Meanwhile single jobs of another tenant are accepted and end."""
    count = 1_000_000 if os.environ.get("FERRY_TEST_LONG") else 20_000
    receiver.files["/a"] = b"small"
    tomorrow = "2099-01-01T00:00:00Z"
    waiting = {"kind": "data", "request": {"url": f"{receiver.url}/a"}, "schedule": {"earliest_begin_at": tomorrow}}
    # Longest times of requests, in seconds.
    times: collections.Counter[str] = collections.Counter()

    with running() as ferry:
        tenant = {"Authorization": "Bearer " + ferry.call(
            "POST", "/v1/admin/keys", json={"name": "other", "role": "client", "tenant": "other"}).json()["key"]}

        def timed(what: str, status: int, *request, **options) -> dict:
            begin = time.monotonic()
            answer = ferry.call(*request, **options)
            times[what] = max(times[what], time.monotonic() - begin)
            assert answer.status_code == status, answer.text
            return answer.json()

        def look() -> dict:
            job = timed("another job", 201, "POST", "/v1/jobs", headers=tenant | {"Prefer": "wait=30"},
                        json={"kind": "data", "request": {"url": f"{receiver.url}/a"}})
            assert job["state"] == "succeeded", job
            return timed("show", 200, "GET", "/v1/job_groups/large")

        batch = json.dumps({"group": "large", "jobs": 10_000 * [waiting]})
        for _ in range(count // 10_000):
            answer = ferry.call("POST", "/v1/jobs/batch", data=batch, headers={"Content-Type": "application/json"})
            assert answer.status_code == 201, answer.text
        assert look()["counts"]["waiting"] == count
        assert timed("close", 200, "POST", "/v1/job_groups/large/close")["state"] == "closed"
        operation = timed("cancel", 202, "POST", "/v1/job_groups/large/cancel")
        seen = []
        while (group := look())["state"] != "finished":
            counts = group["counts"]
            assert counts["waiting"] + counts["cancelled"] == count, group
            seen.append(counts["cancelled"])
        assert group["counts"]["cancelled"] == count
        assert len(set(seen)) > 2, f"cancelled in steps: {seen}"
        shown = eventually(60, lambda: (got := ferry.call("GET", f"/v1/operations/{operation['id']}").json())["state"]
                           != "running" and got, "the operation has ended")
        assert (shown["state"], shown["changed"]) == ("succeeded", count)
    assert max(times.values()) < 5, times
    print(count, "jobs:", {what: round(seconds, 3) for what, seconds in times.items()})

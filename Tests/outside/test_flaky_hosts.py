"""Hosts that fail now and then, however much they are asked for, or that count requests, and our own limits."""
from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
import threading
import time

import pytest

from conftest import eventually, refusing, running
from origins import Authority

# Host control limits these hosts, not the default of sessions.
TRUSTED = {"FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": "none"}


class FlakyHost:
    """Each `nth` connection is reset before its handshake (with TLS), or each `nth` request gets 503 (without)."""

    def __init__(self, nth: int, context: ssl.SSLContext | None = None, seconds: float = 0.02):
        self.nth, self.context, self.count, self.seconds = nth, context, 0, seconds
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        opening = asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=512)
        self.server = asyncio.run_coroutine_threadsafe(opening, self.loop).result(10)
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"

    def fails(self) -> bool:
        self.count += 1
        return self.count % self.nth == 0

    def refusal(self) -> bytes:
        return b"503 Busy" if not self.context and self.fails() else b""

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if self.context:
                if self.fails():
                    return writer.transport.abort()
                await writer.start_tls(self.context)
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(self.seconds)
                writer.write(b"HTTP/1.1 " + (self.refusal() or b"200 OK") + b"\r\nContent-Length: 2\r\n\r\nok")
                if self.context:
                    break
        writer.close()

    async def end(self):
        self.server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class CountingHost(FlakyHost):
    """Answers `rate` requests a second, `burst` at once after a pause, and 429 to the others."""

    def __init__(self, rate: float, burst: float):
        self.rate, self.burst, self.credit, self.at = rate, burst, burst, time.monotonic()
        self.refused = 0
        super().__init__(1, seconds=0.002)

    def refusal(self) -> bytes:
        now = time.monotonic()
        self.credit = min(self.burst, self.credit + (now - self.at) * self.rate)
        self.at = now
        if self.credit >= 1:
            self.credit -= 1
            return b""
        self.refused += 1
        return b"429 Slow Down"


@pytest.fixture()
def service():
    with running(FERRY_CONCURRENCY="32", **TRUSTED) as ferry:
        yield ferry


def submit(ferry, host: FlakyHost, count: int, **request):
    jobs = [{"kind": "data", "request": {"url": f"{host.url}/{number}", **request}, "retry": {"max_attempts": 20}}
            for number in range(count)]
    assert ferry.call("POST", "/v1/jobs/batch", json={"jobs": jobs}).status_code == 201


def decisions(ferry) -> list[dict]:
    return [one for host in ferry.call("GET", "/v1/admin/hosts").json()["data"] for one in host["decisions"]]


def test_few_open_files_are_fewer_transfers_and_none_for_nothing():
    host = FlakyHost(1_000_000, seconds=0.2)
    try:
        with running(open_files=200, **TRUSTED) as service:
            assert "too low: this node runs 33 transfers at once instead of 256" in service.log()
            jobs = [{"kind": "download", "request": {"url": f"{host.url}/{number}"}} for number in range(400)]
            assert service.call("POST", "/v1/jobs/batch", json={"jobs": jobs}).status_code == 201

            def is_over():
                counts = service.call("GET", "/v1/admin/status").json()["jobs"]
                return not any(counts[state] for state in ("waiting", "queued", "running"))

            eventually(120, is_over, "all jobs end")
            assert len(service.call("GET", "/v1/jobs?state=succeeded&limit=500").json()["data"]) == 400
            assert host.count == 400, "each was asked for once"
            # On a busy machine it may be silent for a while.
            silence = ("nobody has been answered", "is not silent any more", "nobody waits for an answer")
            found = [one for one in decisions(service) if not any(words in one["sentence"] for words in silence)]
            assert not found, found
    finally:
        host.stop()


def test_one_503_in_twenty_takes_no_connections(service):
    host = FlakyHost(20)
    try:
        submit(service, host, 10_000)

        def is_over():
            counts = service.call("GET", "/v1/admin/status").json()["jobs"]
            return not any(counts[state] for state in ("waiting", "queued", "running"))

        # Ten seconds; half an hour if each failure took something from the limit.
        eventually(120, is_over, "all jobs end")
        assert not service.call("GET", "/v1/jobs?state=failed").json()["data"]
    finally:
        host.stop()


def test_a_host_that_resets_one_handshake_in_ten_is_there(service, tmp_path):
    authority = Authority.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    host = FlakyHost(10, context)
    try:
        submit(service, host, 600, tls={"ca": authority.pem})

        def is_over():
            jobs = service.call("GET", "/v1/admin/status").json()["jobs"]
            return not any(jobs[state] for state in ("waiting", "queued", "running"))

        eventually(120, is_over, "all jobs end")
        listed = service.call("GET", "/v1/jobs?state=succeeded&limit=500").json()
        rest = service.call("GET", f"/v1/jobs?state=succeeded&limit=500&cursor={listed['next_cursor']}").json()
        assert len(listed["data"]) + len(rest["data"]) == 600
        assert not any(one["kind"] == "unreachable" for one in decisions(service))
    finally:
        host.stop()


def test_a_host_that_counts_requests_gets_what_it_allows(service):
    # Less than one connection after the other asks for, on any machine.
    host = CountingHost(rate=10, burst=2)
    try:
        jobs = [{"kind": "download", "request": {"url": f"{host.url}/{number}"}, "destination": {"path": f"{number}"}}
                for number in range(120)]
        assert service.call("POST", "/v1/jobs/batch", json={"jobs": jobs}).status_code == 201

        def is_over():
            counts = service.call("GET", "/v1/admin/status").json()["jobs"]
            return not any(counts[state] for state in ("waiting", "queued", "running"))

        # Twelve seconds at best; minutes while each 429 stops the host.
        eventually(240, is_over, "all jobs end")
        assert not service.call("GET", "/v1/jobs?state=failed").json()["data"]
        assert host.refused < 240, host.refused
        listed = service.call("GET", "/v1/admin/hosts").json()["data"][0]
        assert listed["state"] == "normal" and listed["scopes"][0]["request_rate_limit"] > 0, listed
        assert listed["scopes"][0]["tenant"] == "default" and listed["scopes"][0]["path"] is None, listed
    finally:
        host.stop()


# The third arguments of transfers alone: the private database has an address of another kind.
SOCKET, TCP, CONNECT, IPV4_LENGTH = 41, 6, 42, 16


@pytest.mark.parametrize("call, third, error, is_ours", [
    (SOCKET, TCP, errno.EMFILE, True), (CONNECT, IPV4_LENGTH, errno.EADDRNOTAVAIL, True),
    (CONNECT, IPV4_LENGTH, errno.ECONNREFUSED, False)])
def test_what_the_node_itself_lacks_to_connect_says_nothing_of_the_host(receiver, call, third, error, is_ours):
    with running(refuse=refusing({call: error}, third)) as service:
        jobs = [{"kind": "data", "request": {"url": f"{receiver.url}/{number}"}} for number in range(20)]
        assert service.call("POST", "/v1/jobs/batch", json={"jobs": jobs}).status_code < 300

        def states():
            return [host["state"] for host in service.call("GET", "/v1/admin/hosts").json()["data"]]

        def each_has_tried_again():
            found = service.call("GET", "/v1/jobs?limit=100").json()["data"]
            return len(found) == 20 and all(job["attempt"] >= 2 for job in found)

        if is_ours:
            # By themselves: nobody else looks for their host.
            eventually(120, each_has_tried_again, "tried again")
            assert "unreachable" not in states()
        else:
            eventually(120, lambda: "unreachable" in states(), "unreachable")

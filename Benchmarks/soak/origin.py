"""Origins that do what a seed says: good, slow, cut, stalled, busy, redirecting, changing and lying ones; and what
they have seen: every request with its bytes, and how many were active at once."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import hashlib
import random
import threading
import time
import urllib.parse


@dataclasses.dataclass
class Plan:
    """What a token's requests get: `faults` one after the other, then the whole body or, where there is one, the
    fault `always`."""
    size: int
    faults: list[str] = dataclasses.field(default_factory=list)
    always: str = ""
    validator: str = "etag"
    # How many requests get the first version of the bytes; None: all.
    change_after: int | None = None
    requests: int = 0
    # Bodies that were received whole, by their SHA-256, and how many requests had no or half a body.
    received: list[str] = dataclasses.field(default_factory=list)
    broken: int = 0
    last_body: bytes = b""

    def version(self) -> int:
        return int(self.change_after is not None and self.requests > self.change_after)


def content(token: str, version: int, size: int) -> bytes:
    return random.Random(f"{token}/{version}").randbytes(size)


@dataclasses.dataclass
class Visit:
    """One request: from its head until the last byte of the answer, or until its end was noticed."""
    host: str
    session: str
    token: str
    method: str
    begin: float
    end: float | None = None
    status: int = 0


class Origin:
    """Some ports ("hosts"), served by one thread. Each host can be gone for a while."""

    def __init__(self, hosts: list[str]):
        self.plans: dict[str, Plan] = {}
        self.visits: list[Visit] = []
        self.ports: dict[str, int] = {}
        self.servers: dict[str, asyncio.Server] = {}
        self.writers: dict[str, set[asyncio.StreamWriter]] = collections.defaultdict(set)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="origin", daemon=True)
        self.thread.start()
        for host in hosts:
            self._run(self._open(host, 0))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    async def _open(self, host: str, port: int):
        server = await asyncio.start_server(lambda r, w: self._serve(host, r, w), "127.0.0.1", port, backlog=512)
        self.servers[host] = server
        self.ports[host] = server.sockets[0].getsockname()[1]

    async def _close(self, host: str):
        self.servers.pop(host).close()
        for writer in list(self.writers[host]):
            writer.transport.abort()

    def url(self, host: str, token: str, folder: str = "") -> str:
        return f"http://127.0.0.1:{self.ports[host]}/{folder}{token}"

    def leave(self, host: str):
        """Nobody listens any more, and what was open is reset."""
        self._run(self._close(host))

    def come_back(self, host: str):
        self._run(self._open(host, self.ports[host]))

    def stop(self):
        for host in list(self.servers):
            self._run(self._close(host))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    # MARK: One connection

    async def _serve(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.writers[host].add(writer)
        visit = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ")
                fields = {name.lower(): value.strip()
                          for name, _, value in (line.partition(":") for line in lines[1:] if line)}
                token = urllib.parse.unquote(target.split("?")[0]).rpartition("/")[2]
                await self._notice_ends()
                visit = Visit(host, fields.get("x-session", ""), token, method, time.monotonic())
                self.visits.append(visit)
                is_kept = await self._answer(visit, fields, reader, writer)
                visit.end = visit.end or time.monotonic()
                if not is_kept:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        finally:
            if visit and visit.end is None:
                visit.end = time.monotonic()
            self.writers[host].discard(writer)
            with contextlib.suppress(Exception):
                writer.close()

    async def _notice_ends(self):
        """Lets those be noticed whose connections were closed before this request was sent: on a busy machine
        both are found in the same turn of the loop, in any order, and waiting for an end takes some turns."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def _body(self, plan: Plan, fields, reader, writer) -> None:
        length = fields.get("content-length")
        if fields.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        plan.broken += 1
        if length is not None:
            body += await reader.readexactly(int(length))
        elif "chunked" in fields.get("transfer-encoding", ""):
            while size := int((await reader.readline()).split(b";")[0], 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        plan.broken -= 1
        plan.last_body = bytes(body)
        plan.received.append(hashlib.sha256(body).hexdigest())

    async def _answer(self, visit: Visit, fields, reader, writer) -> bool:
        plan = self.plans.get(visit.token)
        if plan is None:
            return await self._send(visit, writer, 404, {}, b"")
        plan.requests += 1
        fault = plan.faults.pop(0) if plan.faults else plan.always
        if fault == "refuse":
            # Before the body was read, if there is one.
            writer.transport.abort()
            return False
        if visit.method in ("PUT", "POST"):
            await self._body(plan, fields, reader, writer)
        name, _, argument = fault.partition(":")
        if name == "status":
            code, _, after = argument.partition(",")
            return await self._send(visit, writer, int(code), {"Retry-After": after} if after else {}, b"sorry\n")
        if name == "redirect":
            return await self._send(visit, writer, 307, {"Location": argument}, b"")
        if name == "stall":
            await self._hold(reader, float(argument))
            return False
        if visit.method in ("PUT", "POST"):
            if fault == "lost":
                return False
            answer = hashlib.sha256(plan.last_body).hexdigest().encode()
            return await self._send(visit, writer, 201, {"Content-Type": "text/plain"}, answer)
        return await self._file(visit, plan, name, argument, fields, reader, writer)

    async def _hold(self, reader, seconds: float) -> bool:
        """Silence, until the client goes, which is noticed at once (true), or the time is over."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(1), seconds)
            return True
        return False

    async def _send(self, visit: Visit, writer, status: int, fields, body: bytes) -> bool:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        visit.status = status
        # From here on the client may be through with it before this thread goes on.
        visit.end = time.monotonic()
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        return True

    async def _file(self, visit, plan: Plan, fault: str, argument: str, fields, reader, writer) -> bool:
        version = plan.version()
        body = content(visit.token, version, plan.size)
        tag = {"etag": f'"{visit.token}-{version}"', "weak": f'W/"{visit.token}-{version}"'}.get(plan.validator)
        first, last, status = 0, len(body) - 1, "200 OK"
        wanted = fields.get("range", "")
        if wanted.startswith("bytes=") and "," not in wanted and plan.validator != "none":
            low, _, high = wanted[6:].partition("-")
            if fields.get("if-range") in (None, tag) and low and int(low) < len(body):
                first, last = int(low), min(int(high or last), last)
                status = "206 Partial Content"
        part = body[first:last + 1]
        if fault == "short":
            # It lies about its length, and nothing in its answer says so.
            part = part[:len(part) // 2]
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(part)}\r\nContent-Type: application/octet-stream\r\n"
        head += f"ETag: {tag}\r\n" if tag else ""
        head += "" if plan.validator == "none" else "Accept-Ranges: bytes\r\n"
        if status.startswith("206"):
            head += f"Content-Range: bytes {first}-{last}/{len(body)}\r\n"
        if not part:
            # The client has the whole response with its head, whatever fault was planned.
            visit.end = time.monotonic()
            writer.write(head.encode() + b"\r\n")
            await writer.drain()
            return True
        writer.write(head.encode() + b"\r\n")
        cut = int(len(part) * float(argument)) if fault in ("cut", "reset", "silence") else len(part)
        step = max(1, len(part) // 12) if fault == "slow" else 1 << 18
        # All but the last byte: once the client has that, it may begin its next request before we go on.
        for begin in range(0, max(0, min(cut, len(part) - 1)), step):
            writer.write(part[begin:min(begin + step, cut, len(part) - 1)])
            await writer.drain()
            if fault == "slow" and await self._hold(reader, float(argument) / 12):
                return False
        if fault == "silence":
            await self._hold(reader, 30)
            return False
        if fault == "reset":
            writer.transport.abort()
            return False
        if cut < len(part):
            return False
        visit.end = time.monotonic()
        writer.write(part[-1:])
        await writer.drain()
        return True

    # MARK: What was seen

    def most_at_once(self, excused, choose) -> list[Visit]:
        """The most visits that `choose` takes at any moment outside of `excused` (pairs of times)."""
        moments = []
        for visit in list(self.visits):
            if choose(visit):
                moments.append((visit.begin, 1, visit))
                moments.append((visit.end or time.monotonic(), -1, visit))
        active: list[Visit] = []
        most: list[Visit] = []
        for moment, change, visit in sorted(moments, key=lambda moment: moment[:2]):
            if change < 0:
                active.remove(visit)
                continue
            active.append(visit)
            if len(active) > len(most) and not any(begin <= moment <= end for begin, end in excused):
                most = list(active)
        return most

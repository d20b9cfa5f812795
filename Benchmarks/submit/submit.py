"""How long a submission takes while transfers run, on one machine:

    python3 Benchmarks/submit/submit.py [--ferry .build/release/ferry] [--seconds 20] [--share 0.5]

Measures the top rate of 1 KiB downloads, one job a request over eight connections that wait for their answers, and
then sends such requests at a share of that rate whether or not earlier ones have been answered: the latency counts
from the instant at which a request was due. Needs nginx and PostgreSQL; starts its own of both on free ports.
"""
from __future__ import annotations

import argparse
import collections
import pathlib
import selectors
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "webhooks"))
from bench import AUTHORIZATION, Nginx, Service, download, httpc, quantile, say, until, w1  # noqa: E402

CONNECTIONS = 64


class OpenLoop:
    """Sends requests when they are due, each over a connection that is free."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.free: collections.deque[socket.socket] = collections.deque()
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self.selector.register(connection, selectors.EVENT_READ)
            self.free.append(connection)
        self.due: dict[socket.socket, float] = {}
        self.read: dict[socket.socket, bytes] = {}
        self.latencies: list[float] = []
        self.refused = 0

    def run(self, requests: list[bytes], rate: float) -> None:
        begin = time.monotonic() + 0.05
        sent = 0
        while sent < len(requests) or self.due:
            now = time.monotonic()
            while sent < len(requests) and self.free and begin + sent / rate <= now:
                connection = self.free.popleft()
                connection.sendall(requests[sent])
                self.due[connection] = begin + sent / rate
                self.read[connection] = b""
                sent += 1
            pause = begin + sent / rate - now if sent < len(requests) and self.free else 1.0
            for key, _ in self.selector.select(max(0.0, pause)):
                self.receive(key.fileobj)

    def receive(self, connection: socket.socket) -> None:
        part = connection.recv(65_536)
        if not part:
            raise SystemExit("the service has closed a connection before its answer")
        text = self.read[connection] + part
        self.read[connection] = text
        head, separator, body = text.partition(b"\r\n\r\n")
        if not separator:
            return
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        if len(body) < length:
            return
        self.latencies.append(time.monotonic() - self.due.pop(connection))
        self.refused += not head.startswith(b"HTTP/1.1 201")
        self.free.append(connection)

    def close(self) -> None:
        for connection in list(self.free) + list(self.due):
            connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default=".build/release/ferry")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--share", type=float, default=0.5, help="of the top rate")
    words = parser.parse_args()
    origin = Nginx()
    try:
        with Service(words.ferry) as service:
            w1(service, origin, 2_000, "warm")
            top = statistics.median(w1(service, origin, 4_000, f"top{turn}")[0] for turn in range(3))
            rate = top * words.share
            requests = [
                httpc.request("POST", "/v1/jobs", download(origin, f"open/{number % 100}/{number}"), port=service.port,
                              headers=AUTHORIZATION) for number in range(int(rate * words.seconds))]
            loop = OpenLoop(service.port)
            loop.run(requests, rate)
            loop.close()
            until(lambda: service.unfinished() == 0, 60)
            found = sorted(loop.latencies)
            say(f"top rate {top:.0f} jobs a second; at {rate:.0f} a second for {words.seconds:.0f} s, {loop.refused} refused: "
                f"p50 {1e3 * quantile(found, 0.5):.1f}, p99 {1e3 * quantile(found, 0.99):.1f}, "
                f"longest {1e3 * found[-1]:.1f} ms; asked: p99 25")
    finally:
        origin.stop()


if __name__ == "__main__":
    main()

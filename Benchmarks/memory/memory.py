"""Whether the service's memory stays flat: many small transfers, and large ones onto a disk that is ten times slower
than the network.

    python3 Benchmarks/memory/memory.py [--ferry .build/release/ferry] [--jobs 100000] [--part small,disk]

Prints the resident memory of the service as it goes, and ends with 1 when it has grown by more than 10 MiB since the
first fifth.
"""
from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

KEY = "memory-benchmark-admin-key-0123456789"
GROWTH_MAX = 10 << 20
HERE = pathlib.Path(__file__).resolve().parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(port: int) -> None:
    """Answers `/SIZE/…` with so many bytes."""
    chunk = os.urandom(1 << 20)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.split(b" ", 2)[1].split(b"/")[1])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                while size > 0:
                    writer.write(chunk[:size])
                    size -= len(chunk)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=1024)
        await server.serve_forever()

    asyncio.run(main())


class Service:
    def __init__(self, binary: str, **settings: str):
        self.directory = tempfile.mkdtemp(prefix="ferry-memory-")
        os.chmod(self.directory, 0o755)
        self.port = free_port()
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_LISTEN": f"127.0.0.1:{self.port}",
            "FERRY_DATA_DIR": self.directory + "/data", "FERRY_ADMIN_KEY": KEY,
            "FERRY_EGRESS_ALLOW": "127.0.0.0/8", "FERRY_LOG_LEVEL": "warning",
            "FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": "none", **settings}
        self.process = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2)
                return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise SystemExit("ferry did not get ready")

    def call(self, method: str, path: str, body: object = None) -> dict:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def unfinished(self) -> int:
        jobs = self.call("GET", "/v1/admin/status")["jobs"]
        return sum(jobs[state] for state in ("waiting", "queued", "running", "suspended"))

    @property
    def resident(self) -> int:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        return 0

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.directory, ignore_errors=True)


def judge(name: str, samples: list[tuple[float, int]]) -> bool:
    """`samples`: the part that is done, and bytes."""
    steady = [size for part, size in samples if part >= 0.2]
    growth = steady[-1] - min(steady[: max(1, len(steady) // 8)])
    is_flat = growth <= GROWTH_MAX
    print(f"{name}: {samples[0][1] >> 20} MiB at first, {steady[0] >> 20} MiB after a fifth, "
          f"{max(steady) >> 20} MiB at most, {steady[-1] >> 20} MiB at the end: "
          f"{'flat' if is_flat else 'it grows'}", flush=True)
    return is_flat


def small(binary: str, origin: int, count: int) -> bool:
    service = Service(binary, FERRY_FILE_SYNC="none")
    try:
        samples = [(0.0, service.resident)]
        for first in range(0, count, 1_000):
            jobs = [{"kind": "download", "request": {"url": f"http://127.0.0.1:{origin}/1024/{number}"},
                     "destination": {"path": f"{number % 200}/{number}"}}
                    for number in range(first, min(first + 1_000, count))]
            service.call("POST", "/v1/jobs/batch", {"jobs": jobs})
            while service.unfinished() > 2_000:
                time.sleep(0.05)
            samples.append(((first + 1_000) / count, service.resident))
            if first % 10_000 == 0:
                print(f"  {first:7} jobs  {samples[-1][1] / (1 << 20):7.1f} MiB", flush=True)
        while service.unfinished() > 0:
            time.sleep(0.05)
        samples.append((1.0, service.resident))
        return judge(f"{count} downloads of 1 KiB", samples)
    finally:
        service.stop()


def disk(binary: str, origin: int) -> bool:
    library = tempfile.mktemp(suffix=".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "slow_disk.c", "-ldl"], check=True)
    service = Service(binary, LD_PRELOAD=library, SLOW_DISK="30e6")
    try:
        size, count = 64 << 20, 12
        jobs = [{"kind": "download", "segments": 1 + 3 * (number % 2),
                 "request": {"url": f"http://127.0.0.1:{origin}/{size}/{number}"},
                 "destination": {"path": f"large/{number}"}} for number in range(count)]
        samples = [(0.0, service.resident)]
        service.call("POST", "/v1/jobs/batch", {"jobs": jobs})
        expected = size * count / 30e6
        begin = time.monotonic()
        while service.unfinished() > 0:
            time.sleep(0.5)
            part = min(1.0, (time.monotonic() - begin) / expected)
            samples.append((part, service.resident))
            if len(samples) % 10 == 0:
                print(f"  {part * 100:5.0f} %  {samples[-1][1] / (1 << 20):7.1f} MiB", flush=True)
        states = {job["state"] for job in service.call("GET", "/v1/jobs?limit=500")["data"]}
        if states != {"succeeded"}:
            print(f"not all succeeded: {states}")
            return False
        return judge(f"{count} downloads of 64 MiB onto 30 MB a second", samples)
    finally:
        service.stop()
        os.unlink(library)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ferry", default=".build/release/ferry")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--part", default="small,disk")
    words = parser.parse_args()
    port = free_port()
    origin = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    origin.start()
    time.sleep(0.5)
    verdicts = []
    if "small" in words.part:
        verdicts.append(small(words.ferry, port, words.jobs))
    if "disk" in words.part:
        verdicts.append(disk(words.ferry, port))
    origin.terminate()
    sys.exit(0 if all(verdicts) else 1)


if __name__ == "__main__":
    main()

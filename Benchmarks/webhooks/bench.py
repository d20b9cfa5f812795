"""What the lines of the webhook benchmark share: a service with its private PostgreSQL, nginx, processor time."""
from __future__ import annotations

import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from core import httpc, procs  # noqa: E402

KEY = "webhook-benchmark-admin-key-0123456789"
AUTHORIZATION = f"Authorization: Bearer {KEY}\r\n"
NGINX = """
daemon off; pid {root}/nginx.pid; error_log {root}/error.log error; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  log_format arrival '$msec $uri';
  access_log off; default_type application/octet-stream; server_tokens off;
  keepalive_timeout 120s; keepalive_requests 10000000; client_body_temp_path {root}/body;
  open_file_cache max=10; sendfile on; tcp_nopush on; tcp_nodelay on;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location /hook {{ access_log {root}/arrivals.log arrival buffer=256k flush=100ms; return 204; }}
    location /file/ {{ root {root}/files; rewrite ^ /1k.bin break; }}
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def say(text: str) -> None:
    print(text, flush=True)


class Nginx:
    """Receiver of webhooks below `/hook`, origin of 1 KiB below `/file/`."""

    def __init__(self) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ferry-hooks-nginx-"))
        self.root.chmod(0o755)
        (self.root / "files").mkdir()
        (self.root / "files" / "1k.bin").write_bytes(os.urandom(1_024))
        self.log = self.root / "arrivals.log"
        self.log.touch()
        self.port = free_port()
        configuration = self.root / "nginx.conf"
        configuration.write_text(NGINX.format(root=self.root, port=self.port))
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.process = subprocess.Popen([program, "-p", self.root, "-c", configuration, "-e", self.root / "error.log"])
        httpc.wait_port(self.port)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def mark(self) -> int:
        time.sleep(0.3)
        return self.log.stat().st_size

    def arrivals(self, mark: int) -> list[tuple[float, str]]:
        """Times and paths since the mark."""
        time.sleep(0.3)
        with open(self.log) as lines:
            lines.seek(mark)
            return [(float(at), path) for at, path in (line.split() for line in lines)]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.root, ignore_errors=True)


class Service:
    """A ferry with its private PostgreSQL; it can be stopped and started again on the same data."""

    def __init__(self, binary: str, **settings: str) -> None:
        self.binary, self.settings = binary, settings
        self.directory = tempfile.mkdtemp(prefix="ferry-hooks-")
        os.chmod(self.directory, 0o755)
        self.port = free_port()
        self.process: subprocess.Popen | None = None
        self.start()

    def start(self, **settings: str) -> None:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_LISTEN": f"127.0.0.1:{self.port}",
            "FERRY_DATA_DIR": self.directory + "/data", "FERRY_ADMIN_KEY": KEY,
            "FERRY_EGRESS_ALLOW": "127.0.0.0/8", "FERRY_LOG_LEVEL": "error",
            "FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": "none", **self.settings, **settings}
        self.process = subprocess.Popen([self.binary, "serve"], env=environment, stdout=subprocess.DEVNULL)
        httpc.wait_port(self.port, None, 60)
        self.client = httpc.Client(self.port, headers=AUTHORIZATION)
        while self.client.call(httpc.request("GET", "/readyz", port=self.port))[0] != 200:
            time.sleep(0.02)

    def halt(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def stop(self) -> None:
        self.halt()
        cluster = pathlib.Path(self.directory + "/data/postgres")
        if cluster.is_symlink():  # it went elsewhere, because its account may not enter the temporary directory
            shutil.rmtree(cluster.resolve().parent, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, method: str, path: str, body: object = None) -> dict:
        return self.client.json(method, path, body)

    def endpoint(self, url: str, **fields: object) -> str:
        return self.call("POST", "/v1/webhooks", {"url": url, **fields})["id"]

    def submit(self, jobs: list[dict]) -> None:
        for first in range(0, len(jobs), 1_000):
            self.call("POST", "/v1/jobs/batch", {"jobs": jobs[first : first + 1_000]})

    def unfinished(self) -> int:
        jobs = self.call("GET", "/v1/admin/status")["jobs"]
        return sum(jobs[state] for state in ("waiting", "queued", "running", "suspended"))

    def pending(self) -> int:
        return self.call("GET", "/v1/admin/status")["webhooks"]["pending"]

    def sql(self, text: str) -> str:
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/psql")) or [shutil.which("psql") or "psql"]
        owner = pathlib.Path(self.directory + "/data/postgres").resolve()
        account = owner.owner()
        run = {} if os.getuid() else {"user": account, "group": account, "extra_groups": []}
        arguments = ["-h", str(self._socket(owner)), "-U", "ferry", "-d", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run([programs[-1], *arguments, "-c", text], capture_output=True, text=True, cwd="/", **run)
        if done.returncode:
            raise SystemExit(done.stderr)
        return done.stdout.strip()

    @staticmethod
    def _socket(cluster: pathlib.Path) -> str:
        """The sixth line of postmaster.pid is the directory of the socket."""
        return (cluster / "postmaster.pid").read_text().split("\n")[4]

    def processor(self) -> tuple[float, float]:
        """Seconds of the service, and of its database."""
        own = procs.cpu_seconds([self.process.pid])
        return own, procs.cpu_seconds(procs.tree([self.process.pid])) - own

    @property
    def resident(self) -> int:
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) << 10


def download(origin: Nginx, name: str, webhook: str | None = None) -> dict:
    job = {"kind": "download", "request": {"url": origin.url(f"/file/{name}")},
           "destination": {"path": f"{name}", "if_exists": "replace"}}
    return {**job, "webhook": {"url": webhook}} if webhook else job


def waiting(count: int, tag: str) -> list[dict]:
    """Jobs that only come into being: what they cost besides their event is small."""
    return [{"kind": "data", "request": {"url": f"http://127.0.0.1:9/{tag}/{number}"},
             "schedule": {"earliest_begin_at": "2099-01-01T00:00:00Z"}} for number in range(count)]


def until(condition, seconds: float, pause: float = 0.02) -> float:
    """Seconds until it holds."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise SystemExit(f"not within {seconds} s")
        time.sleep(pause)
    return time.monotonic() - begin


def w1(service: Service, origin: Nginx, count: int, tag: str, webhook: str | None = None) -> tuple[float, float]:
    """Jobs a second until all have ended, and until all of their deliveries have arrived too."""
    requests = [httpc.request("POST", "/v1/jobs", download(origin, f"{tag}/{number % 100}/{number}", webhook),
                              port=service.port, headers=AUTHORIZATION) for number in range(count)]
    (left, mark) = (service.unfinished(), origin.mark())
    (began, begin) = (time.time(), time.monotonic())
    answers = httpc.run_many(service.port, requests, 8)
    refused = [answer for answer in answers if answer[0] != 201]
    if refused:
        raise SystemExit(f"{len(refused)} of {count} were refused: {refused[0]}")
    until(lambda: service.unfinished() == left, 60)
    ended = count / (time.monotonic() - begin)
    if not webhook:
        return ended, ended
    last = arrived(origin, mark, count)[-1][0]
    return ended, count / (last - began)


def arrived(origin: Nginx, mark: int, count: int, seconds: float = 120) -> list[tuple[float, str]]:
    """Arrivals since the mark in their order, once there are so many."""
    end = time.monotonic() + seconds
    while len(found := origin.arrivals(mark)) < count:
        if time.monotonic() > end:
            raise SystemExit(f"{len(found)} of {count} deliveries in {seconds} s")
    return sorted(found)


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


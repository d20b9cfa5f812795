"""A PostgreSQL and some nodes of Ferry on it, which share a storage root and can be killed, stopped and started."""
from __future__ import annotations

import contextlib
import copy
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

KEY = "soak-admin-key-0123456789abcdef0123456789"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
# The heartbeats of a dead node are waited for so long (docs/limits.md).
LEASE_SECONDS = 15
# Of the disk that runs full: enough for what some minutes bring.
DISK_BYTES = 512 << 20


class Unreachable(Exception):
    """Nobody has answered: whether it was done is not known."""


def free_port() -> int:
    """One that the kernel gives to nobody by itself, so that a node finds it free whenever it starts again."""
    first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    for port in sorted(range(12_000, 65_536), key=lambda _: os.urandom(4)):
        if first <= port <= last or port in free_port.given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free_port.given.add(port)
            return port
    raise RuntimeError("no port is free")


free_port.given = set()


def eventually(seconds: float, condition, what: str):
    """The first true value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.05)
    return value


class Answer:
    def __init__(self, status: int, headers, body: bytes):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Postgres:
    """Without TLS, on 127.0.0.1; keeps its promises about syncs, since the service's rest on them."""

    def __init__(self, folder: pathlib.Path):
        names = [shutil.which("postgres"), *map(str, pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))]
        self.bin = pathlib.Path(next(name for name in names if name)).resolve().parent
        self.folder, self.port = folder, free_port()
        self.user = "postgres" if os.getuid() == 0 else None
        folder.mkdir()
        if self.user:
            shutil.chown(folder, self.user)
        self._run("initdb", "-D", folder / "data", "-U", "soak", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.process = None
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "soak", "ferry")
        self.url = f"postgresql://soak@127.0.0.1:{self.port}/ferry"

    def _run(self, program: str, *words) -> str:
        return subprocess.run([self.bin / program, *map(str, words)], check=True, capture_output=True, text=True,
                              user=self.user, cwd=self.folder).stdout

    def start(self):
        command = [self.bin / "postgres", "-D", self.folder / "data", "-p", str(self.port), "-k", self.folder,
                   "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            user=self.user, cwd=self.folder, start_new_session=True)
        ready = [self.bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        eventually(60, lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL is ready")

    def stop(self, how: int = signal.SIGQUIT):
        """SIGQUIT is the immediate shutdown: nothing is flushed, the log is replayed at the start."""
        self.process.send_signal(how)
        self.process.wait(60)

    def kill(self):
        """SIGKILL to all its processes, as when the machine loses power; the disk keeps what was written."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in [self.process.pid, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(60)
        # Until the last one has gone, the shared memory belongs to it, and the next postmaster does not start.
        eventually(60, lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in children), "PostgreSQL is gone")

    def query(self, sql: str) -> str:
        return self._run("psql", "-h", "127.0.0.1", "-p", self.port, "-U", "soak", "-d", "ferry", "-Atc", sql)


class Node:
    def __init__(self, binary: str, folder: pathlib.Path, settings: dict[str, str]):
        self.binary, self.folder, self.port = binary, folder, free_port()
        folder.mkdir()
        names = {name: value for name, value in os.environ.items() if not name.startswith("FERRY_")}
        self.environment = names | {
            "FERRY_LISTEN": f"127.0.0.1:{self.port}", "FERRY_DATA_DIR": str(folder), "FERRY_ADMIN_KEY": KEY,
            "FERRY_EGRESS_ALLOW": "127.0.0.0/8", "FERRY_WEBHOOK_SECRET": SECRET, "FERRY_LOG_LEVEL": "info",
            "FERRY_LOG_FORMAT": "json", "FERRY_DRAIN_SECONDS": "2",
            "FERRY_SECRET_KEY": "one key for all nodes of the soak"} | settings
        self.process = None
        self.resident_max = 0
        self.start()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([self.binary, "serve"], env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def send(self, number: int):
        self.process.send_signal(number)

    def keep_up(self):
        """Starts it again, as a supervisor does, when it could not start because the database was away."""
        if self.process.poll() is None:
            return
        end = self.log_end()
        if self.process.returncode != 1 or "Ferry cannot start." not in end.splitlines()[-1]:
            raise RuntimeError(f"a node ended with {self.process.returncode}:\n{end}")
        time.sleep(0.2)
        self.start()

    def wait_ready(self, seconds: float = 120):
        def ready() -> bool:
            self.keep_up()
            with contextlib.suppress(Unreachable):
                return self.call("GET", "/readyz").status == 200
            return False
        eventually(seconds, ready, f"node {self.port} is ready")

    def log_end(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return "\n".join(line[:300] for line in lines[-8:])

    def log_lines(self):
        for line in (self.folder / "log").read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def sample(self) -> int:
        """Its resident memory in bytes; the most that was seen is kept."""
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    size = int(line.split()[1]) << 10
                    self.resident_max = max(self.resident_max, size)
                    return size
        return 0

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def call(self, method: str, path: str, body=None, headers=None, seconds: float = 20) -> Answer:
        connection = self.connect(seconds)
        try:
            fields = {"Authorization": f"Bearer {KEY}", **(headers or {})}
            if body is not None:
                body = json.dumps(body)
                fields["Content-Type"] = "application/json"
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()


class Cluster:
    """Its nodes, and what somebody does to them: `away` names those that cannot be asked at the moment."""

    def __init__(self, binary: str, folder: pathlib.Path, count: int, **settings: str):
        self.key = KEY
        self.folder, self.files = folder, folder / "files"
        self.files.mkdir()
        # A disk of its own for some of the files, which can run full, where we may have one.
        self.disk = self.files / "f/19"
        self.disk.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "ferry-soak", self.disk]
        self.has_disk = os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self.postgres = Postgres(folder / "postgres")
        self.lock = threading.Lock()
        shared = {"FERRY_DATABASE_URL": self.postgres.url, "FERRY_STORAGE_ROOT": str(self.files),
                  "FERRY_CONCURRENCY": "24", **settings}
        self.nodes: list[Node] = []
        for number in range(count):
            # The third one hears of nothing and has to look.
            ear = {"FERRY_NOTIFY": "off"} if number == 2 else {}
            self.nodes.append(Node(binary, folder / f"node{number}", shared | ear))
            self.nodes[-1].wait_ready()

    def call(self, method: str, path: str, body=None, headers=None, seconds: float = 60) -> Answer:
        """Asks one node after the other until somebody has answered what is not 503 or 429."""
        fields = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        deadline, last = time.monotonic() + seconds, None
        while time.monotonic() < deadline:
            for node in self.nodes:
                try:
                    last = node.call(method, path, body, fields, 10)
                    if last.status not in (429, 500, 503):
                        return last
                except Unreachable as error:
                    last = error
            time.sleep(0.2)
        raise Unreachable(f"{method} {path}: {last if isinstance(last, Exception) else last.body}")

    def make_tenant(self, name: str) -> Cluster:
        """The same cluster as a client of that tenant asks it, once every node knows its key."""
        made = self.call("POST", "/v1/admin/keys", {"name": name, "role": "client", "tenant": name})
        tenant = copy.copy(self)
        tenant.key = made.json()["key"]
        fields = {"Authorization": f"Bearer {tenant.key}"}
        for node in self.nodes:
            eventually(60, lambda n=node: n.call("GET", "/v1/jobs?limit=1", headers=fields).status == 200,
                       f"node {node.port} knows the key of {name}")
        return tenant

    def pages(self, path: str, limit: int = 500):
        """Everything of a list."""
        cursor = None
        while True:
            sign = "&" if "?" in path else "?"
            page = self.call("GET", f"{path}{sign}limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
            if page.status != 200:
                raise RuntimeError(f"GET {path}: {page.status} {page.body[:500]}")
            page = page.json()
            yield from page["data"]
            cursor = page["next_cursor"]
            if not cursor:
                return

    def broken_rows(self) -> list[str]:
        """The rules that rows of the database break, the history of each job among them."""
        node = self.nodes[0]
        checked = subprocess.run([node.binary, "check", "--database"], env=node.environment, capture_output=True,
                                 text=True, check=False)
        lines = [line for line in checked.stdout.splitlines() if line.split()[1:2] == ["rows:"]]
        if not lines:
            return [f"ferry check has not checked the rows: {checked.stdout} {checked.stderr}"]
        return [line for line in lines if not line.endswith("consistent")]

    def stop(self) -> list[str]:
        """What was wrong with the end of each node."""
        wrong = []
        for node in self.nodes:
            if node.process.poll() is None:
                node.send(signal.SIGCONT)
                node.send(signal.SIGTERM)
        for node in self.nodes:
            try:
                status = node.process.wait(60)
            except subprocess.TimeoutExpired:
                node.process.kill()
                status = node.process.wait()
            if status != 0:
                wrong.append(f"node {node.port} ended with {status} after SIGTERM:\n{node.log_end()}")
        if self.postgres.process.poll() is None:
            self.postgres.stop(signal.SIGINT)
        if self.has_disk:
            subprocess.run(["umount", self.disk], check=True)
        return wrong

"""What one small job costs, for each stage: instructions, allocations, system calls, SQL statements, bytes of WAL.

    python3 Benchmarks/ledger/ledger.py [--ferry .build/release/ferry] [--jobs 1000] [--default-limit]
                                        [--group NAME] [--record FILE] [--table FILE]
    python3 Benchmarks/ledger/ledger.py --check | --record-budget

Downloads files of 1 KiB from an nginx on loopback, first with one job per request, then with 100 jobs per request,
and prints a Markdown table of counts per job. Three runs of the service count different things:

- callgrind counts instructions and calls of the allocator for each thread;
- strace counts system calls for each thread;
- PostgreSQL's log and pg_stat_statements count statements and WAL for each connection, without a tracer. The kernel
  counts the voluntary context switches of the service's threads in the same run.

A stage is a group of threads (`STAGES`). Each connection to the database is named after the thread that uses it.
A tracer slows the service down, so the figures contain no times. callgrind has no SHA instructions, so it counts more
instructions than the processor executes. It counts an instruction that repeats (`rep stosb`) once for each byte; whether
glibc uses those depends on the processor, so the service runs without them.

System calls that only wait for another thread or wake it depend on timing. They have a row of their own (`WAITS`). So
have voluntary context switches (`SWITCHES`): a system call that blocks causes one.

The service has no limit of connections per host. With `--default-limit` it has its default limit, as most users run it.
With `--group` all jobs belong to a group.

`--check` compares instructions, allocations and system calls with `budget.json` beside this file (`budget.py` has the
rules); `--record-budget` writes that file. Both submit over one connection: each request is then a transaction of its
own, so that timing does not decide how many requests share one.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import budget

HERE = pathlib.Path(__file__).resolve().parent
BUDGET = HERE / "budget.json"

# The first pattern that matches the whole name of a thread decides its stage.
STAGES = {
    "HTTP threads": r"MHD-.*|ferry-batch",
    "Submissions": r"submissions",
    "Transfer loops": r"ferry-curl-\d+",
    "File threads": r"ferry-file-\d+",
    "Dispatcher": r"dispatcher",
    "Event relay": r"events",
    budget.BY_CLOCK: r".*",
}
COMMITS = "PostgreSQL: commits and background"
WAITS = "Waits and wake-ups, not in the sum"
SWITCHES = "Voluntary context switches, not in the sum"
# Their number depends on which thread is faster. So do calls that return EAGAIN, and those of an eventfd or timerfd.
WAIT_CALLS = {"futex", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "nanosleep",
              "clock_nanosleep", "sched_yield", "restart_syscall", "rt_sigtimedwait"}
COUNTS = {
    "instructions": "Instructions, thousands", "allocations": "Allocations", "system_calls": "System calls",
    "statements": "SQL statements", "wal_bytes": "WAL bytes"}
# How many jobs a request submits.
SIZES = (1, 100)
CONNECTIONS = 8
# Of a run that is compared with the budget.
BUDGET_CONNECTIONS = 1
BUDGET_JOBS = 300
WARM_JOBS = 300
ALLOCATORS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"}
PACKAGES = {"valgrind": "valgrind", "vgdb": "valgrind", "strace": "strace", "nginx": "nginx-light",
            "initdb": "postgresql", "psql": "postgresql", "objcopy": "binutils", "cc": "gcc"}
KEY = "ledger-benchmark-admin-key-0123456789"
SECRET = "whsec_bGVkZ2VybGVkZ2VybGVkZ2VybGVkZ2Vy"
POSTGRES = {
    "shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "on",
    "compute_query_id": "on", "log_min_duration_statement": "0", "log_line_prefix": "%a\t%Q\t",
    # A checkpoint during a run would add images of whole pages to the WAL.
    "checkpoint_timeout": "1h"}


def stage(thread: str) -> str:
    return next(name for name, pattern in STAGES.items() if re.fullmatch(pattern, thread))


# MARK: Reading what the tools wrote


def callgrind_counts(text: str) -> tuple[int, int]:
    """Instructions and calls of the allocator in one thread's dump."""
    instructions = int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1))
    names: dict[str, str] = {}
    latest = {"fn": "", "cfn": ""}
    allocations = 0
    for line in text.splitlines():
        # A function has a number, and its name where the number is first used. `cfn`: the one that is called.
        if found := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line):
            role, number, name = found.groups()
            if name:
                names[number] = name.split("'")[0].split("@")[0]
            latest[role] = names[number]
        elif line.startswith("calls=") and latest["cfn"] in ALLOCATORS and latest["fn"] not in ALLOCATORS:
            allocations += int(line[6:].split()[0])
    return instructions, allocations


def scheduler_threads(text: str) -> dict[int, int]:
    """Valgrind's numbers of threads, and the kernel's."""
    return {int(own): int(kernel)
            for own, kernel in re.findall(r"^Thread (\d+): status = .*\(lwpid (\d+)\)", text, re.M)}


def strace_counts(lines) -> collections.Counter[tuple[int, bool]]:
    """Calls of each thread, and whether they only wait or wake. The second half of an interrupted line is not another
    call, but has its result."""
    counts: collections.Counter[tuple[int, bool]] = collections.Counter()
    begun: dict[int, str] = {}
    for line in lines:
        if found := re.match(r"(\d+) +<\.\.\. [a-z_0-9]+ resumed>", line):
            thread = int(found.group(1))
            # `None`: the call began before the run.
            if (begin := begun.pop(thread, None)) is not None:
                counts[thread, is_wait(begin + line[found.end():])] += 1
        elif found := re.match(r"(\d+) +(?=[a-z_0-9]+\()", line):
            thread, call = int(found.group(1)), line[found.end():].rstrip()
            if call.endswith("<unfinished ...>"):
                begun[thread] = call.removesuffix("<unfinished ...>")
            else:
                counts[thread, is_wait(call)] += 1
    # What has not ended waits.
    counts.update((thread, True) for thread in begun)
    return counts


def is_wait(call: str) -> bool:
    """Whether a system call, as strace writes it with -y, only waits for another thread or wakes it."""
    name = call.partition("(")[0]
    return (name in WAIT_CALLS or re.search(r"= -1 EAGAIN\b", call) is not None
            or re.match(r"(?:read|write)v?\(\d+<anon_inode:\[?(?:eventfd|timerfd)", call) is not None)


def log_counts(lines) -> collections.Counter[tuple[str, int]]:
    """Executions of each statement by each of the service's threads."""
    line_of = re.compile(r"ferry ([^\t]+)\t(-?\d+)\tLOG:  duration: \S+ ms  (?:execute|statement)")
    return collections.Counter(
        (found.group(1), int(found.group(2))) for line in lines if (found := line_of.match(line)))


def voluntary_switches(process: pathlib.Path) -> dict[int, int]:
    """Voluntary context switches of each thread so far. `process`: its folder in /proc."""
    switches = {}
    for status in process.glob("task/*/status"):
        # A thread may end between the listing and the read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found = re.search(r"^voluntary_ctxt_switches:\t(\d+)$", status.read_text(), re.M)
            switches[int(status.parent.name)] = int(found.group(1))
    return switches


def database_counts(executions, statement_wal: dict[int, int], wal_bytes: int) -> dict[str, dict[str, float]]:
    """Statements and WAL of each stage; a statement that several stages execute is shared by number."""
    all_of = collections.Counter()
    for (_, query), count in executions.items():
        all_of[query] += count
    stages: dict = collections.defaultdict(lambda: {"statements": 0, "wal_bytes": 0})
    for (thread, query), count in executions.items():
        row = stages[stage(thread)]
        row["statements"] += count
        row["wal_bytes"] += statement_wal.get(query, 0) * count / all_of[query]
    stages[COMMITS] = {"wal_bytes": wal_bytes - sum(row["wal_bytes"] for row in stages.values())}
    return dict(stages)


# MARK: The table


def table(sample: dict) -> str:
    """`sample`: size of a request → stage → kind of count → count per job."""
    def cell(rows: list[str], kind: str) -> str:
        found = [[sample[str(size)][row][kind] for row in rows if kind in sample[str(size)].get(row, {})]
                 for size in SIZES]
        return " / ".join(number(sum(values), kind) for values in found) if any(found) else ""

    def number(value: float, kind: str) -> str:
        value = value / 1_000 if kind == "instructions" else value
        if value < 0.1:
            return f"{value:.1g}"
        return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"

    stages = [*STAGES, COMMITS]
    lines = ["| Stage | " + " | ".join(COUNTS.values()) + " |", "|---" * (len(COUNTS) + 1) + "|"]
    for name, rows in [*((name, [name]) for name in stages), ("All", stages), (WAITS, [WAITS]),
                       (SWITCHES, [SWITCHES])]:
        lines.append(f"| {name} | " + " | ".join(cell(rows, kind) for kind in COUNTS) + " |")
    return "\n".join(lines)


# MARK: Runs


class Service:
    """A service behind a tracer, on a database of its own."""

    def __init__(self, binary: str, database, counter, settings: dict[str, str], group: str | None) -> None:
        from core import env, httpc
        self.httpc, self.database, self.group = httpc, database, group
        self.port = free_port()
        authorization = f"Authorization: Bearer {KEY}\r\n"
        self.request = functools.partial(httpc.request, port=self.port, headers=authorization)
        self.client = httpc.Client(self.port, headers=authorization)
        environment = {
            "PATH": os.environ["PATH"], "FERRY_LISTEN": f"{env.HOST}:{self.port}", "FERRY_ADMIN_KEY": KEY,
            "FERRY_WEBHOOK_SECRET": SECRET, "FERRY_DATABASE_URL": database.dsn,
            "FERRY_DATA_DIR": str(env.fresh("data")), "FERRY_EGRESS_ALLOW": "127.0.0.0/8",
            "FERRY_LOG_LEVEL": "error", **settings, **counter.environment}
        arguments = [*counter.tracer, binary, "serve"]
        self.process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
        self.wait(lambda: self.answers() and self.client.call(self.request("GET", "/readyz"))[0] == 200)

    def answers(self) -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            self.httpc.wait_port(self.port, seconds=1)
            return True
        return False

    def wait(self, condition, seconds: float = 300, pause: float = 0.1) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise SystemExit(f"the service has ended with {self.process.returncode}")
            if time.monotonic() > end:
                raise SystemExit(f"the service was not ready, or its jobs had not ended, after {seconds} s")
            time.sleep(pause)

    def is_idle(self) -> bool:
        jobs = self.client.json("GET", "/v1/admin/status")["jobs"]
        return not any(jobs[state] for state in ("waiting", "queued", "running", "suspended"))

    def run(self, origin, count: int, size: int, connections: int, tag: str) -> None:
        """Submits `count` downloads, `size` in each request, and returns when all have succeeded."""
        jobs = [{"kind": "download", "request": {"url": origin.url(f"/file/{tag}/{number}")},
                 "destination": {"path": f"{tag}/{number % 100}/{number}"},
                 **({"group": self.group} if self.group else {})} for number in range(count)]
        if size == 1:
            requests = [self.request("POST", "/v1/jobs", job) for job in jobs]
        else:
            requests = [self.request("POST", "/v1/jobs/batch", {"jobs": jobs[first:first + size]})
                        for first in range(0, count, size)]
        for answer in self.httpc.run_many(self.port, requests, connections):
            if answer[0] != 201:
                raise SystemExit(f"a submission was refused: {answer}")
        # Questions count as well, so they are few.
        self.wait(self.is_idle, pause=1)
        if failed := self.client.json("GET", "/v1/jobs?state=failed&limit=1")["data"]:
            raise SystemExit(f"a job has failed: {failed[0]['error']}")

    def threads(self) -> dict[int, str]:
        tasks = (self.folder / "task").iterdir()
        return {int(task.name): (task / "comm").read_text().strip() for task in tasks}

    @property
    def folder(self) -> pathlib.Path:
        return pathlib.Path(f"/proc/{self.process.pid}")

    def stop(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Callgrind:
    """Instructions and allocations. A dump sets the counters to zero."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.out = folder / "callgrind"
        # Of a run before.
        for path in folder.glob(f"{self.out.name}.*"):
            path.unlink()
        self.dumps = 0
        self.tracer = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes", "--quiet",
                       f"--callgrind-out-file={self.out}"]
        library = folder / "openat2.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "openat2.c", "-ldl"], check=True)
        # Vector loops in place of `rep stosb` and `rep movsb`, of which callgrind counts each byte as an instruction.
        loops = [f"glibc.cpu.x86_rep_{name}_threshold={1 << 40}" for name in ("stosb", "movsb")]
        self.environment = {"LD_PRELOAD": str(library), "GLIBC_TUNABLES": ":".join(loops)}

    def begin(self, service: Service) -> None:
        self._command(service, "dump")
        self.dumps += 1

    def end(self, service: Service) -> dict[str, dict[str, float]]:
        kernel = scheduler_threads(self._command(service, "v.info", "scheduler"))
        names = service.threads()
        self.begin(service)
        stages: dict = collections.defaultdict(collections.Counter)
        for path in sorted(self.out.parent.glob(f"{self.out.name}.{self.dumps}-*")):
            instructions, allocations = callgrind_counts(path.read_text())
            # A thread that has ended meanwhile has no name any more.
            name = names.get(kernel.get(int(path.name.rpartition("-")[2]), 0), "ended")
            stages[stage(name)].update(instructions=instructions, allocations=allocations)
        if missing := STAGES.keys() - stages.keys():
            raise SystemExit(f"no thread belongs to {', '.join(sorted(missing))}: compare STAGES with the threads' "
                             f"names, {', '.join(sorted(set(names.values())))}")
        return stages

    @staticmethod
    def _command(service: Service, *words: str) -> str:
        done = subprocess.run(["vgdb", f"--pid={service.process.pid}", *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"vgdb: {done.stderr}")
        return done.stdout


class Strace:
    """System calls."""

    environment: dict[str, str] = {}

    def __init__(self, folder: pathlib.Path) -> None:
        self.out = folder / "strace"
        # -D: the tracer is not the parent, so the process that was started is the service. -y: kinds of descriptors.
        self.tracer = ["strace", "-D", "-f", "-qq", "-y", "-s", "0", "-e", "signal=none", "-o", str(self.out)]

    def begin(self, service: Service) -> None:
        self.mark = self.out.stat().st_size

    def end(self, service: Service) -> dict[str, dict[str, float]]:
        names = service.threads()
        stages: dict = collections.defaultdict(collections.Counter)
        with open(self.out, errors="replace") as lines:
            lines.seek(self.mark)
            for (thread, waits), count in strace_counts(lines).items():
                row = WAITS if waits else stage(names.get(thread, "ended"))
                stages[row].update(system_calls=count)
        return stages


class Statements:
    """Statements, WAL and context switches, without a tracer."""

    tracer: list[str] = []
    environment: dict[str, str] = {}

    def __init__(self, folder: pathlib.Path) -> None:
        self.log = folder / "postgres.log"

    def begin(self, service: Service) -> None:
        service.database.sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        service.database.sql("SELECT pg_stat_statements_reset()")
        self.mark = self.log.stat().st_size
        self.position = service.database.sql("SELECT pg_current_wal_insert_lsn()")
        self.switches = voluntary_switches(service.folder)

    def end(self, service: Service) -> dict[str, dict[str, float]]:
        switches = sum(count - self.switches.get(thread, 0)
                       for thread, count in voluntary_switches(service.folder).items())
        wal_bytes = service.database.sql(
            f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{self.position}')")
        rows = service.database.sql("SELECT queryid, sum(wal_bytes) FROM pg_stat_statements GROUP BY 1")
        statement_wal = {int(query): int(size) for query, size in (row.split("|") for row in rows.splitlines())}
        with open(self.log, errors="replace") as lines:
            lines.seek(self.mark)
            executions = log_counts(lines)
        if not executions:
            raise SystemExit("PostgreSQL's log contains no statement of the service")
        return database_counts(executions, statement_wal, int(wal_bytes)) | {SWITCHES: {"system_calls": switches}}


def free_port() -> int:
    from bench import free_port
    return free_port()


def limit_settings(is_default: bool) -> dict[str, str]:
    """Settings for the limit of connections per host: none, or the default of the service."""
    return {} if is_default else {"FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": "none"}


def measure(binary: str, jobs: int, connections: int, counters, settings: dict[str, str],
            group: str | None = None) -> dict:
    """Counts per job: size of a request → stage → kind."""
    from bench import Nginx
    from core import env, postgres
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every server is stopped
    env.setup()
    postgres.SETTINGS.update(POSTGRES)
    # Valgrind 3.19 cannot read Swift's debugging information.
    stripped = env.WORK / "ferry"
    subprocess.run(["objcopy", "--strip-debug", binary, stripped], check=True)
    sample: dict = {str(size): collections.defaultdict(dict) for size in SIZES}
    with contextlib.ExitStack() as stack:
        origin = Nginx()
        stack.callback(origin.stop)
        for kind_of_counter in counters:
            counter = kind_of_counter(env.WORK)
            print(f"{kind_of_counter.__name__} …", file=sys.stderr, flush=True)
            with contextlib.ExitStack() as run:
                database = postgres.Postgres()
                run.callback(database.stop)
                database.start()
                service = Service(str(stripped), database, counter, settings, group)
                run.callback(service.stop)
                for size in SIZES:
                    service.run(origin, WARM_JOBS, size, connections, f"warm{size}")
                    counter.begin(service)
                    service.run(origin, jobs, size, connections, f"run{size}")
                    for name, counts in counter.end(service).items():
                        sample[str(size)][name] |= {kind: count / jobs for kind, count in counts.items()}
    return sample


@contextlib.contextmanager
def working_folder():
    """For all runs, since the modules of the benchmarks read its name once."""
    with tempfile.TemporaryDirectory(prefix="ferry-ledger-") as folder:
        os.environ["BENCH_WORK"] = folder
        sys.path[:0] = [str(HERE.parent / "webhooks"), str(HERE.parent / "peers")]
        yield


def check_tools(binary: str) -> None:
    # Debian keeps the programs of servers out of PATH.
    os.environ["PATH"] = ":".join([*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True),
                                   os.environ["PATH"], "/usr/sbin"])
    for program, package in PACKAGES.items():
        if not shutil.which(program):
            raise SystemExit(f"{program} is not installed; install the Debian package {package}")
    if not os.access(binary, os.X_OK):
        raise SystemExit(f"{binary} is no program; build it with: make release")


def refusal_to_trace(command: tuple[str, ...] = ("strace", "-o", "/dev/null", "true")) -> str | None:
    """Why strace cannot trace a process here, or `None`: some containers do not allow ptrace(2)."""
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default=".build/release/ferry", help="the release build")
    parser.add_argument("--jobs", type=int, help=f"jobs of each run, a multiple of 100; by default 1000, and "
                                                 f"{BUDGET_JOBS} with --check and --record-budget")
    parser.add_argument("--default-limit", action="store_true",
                        help="runs the service with its default limit of connections per host, not without a limit")
    parser.add_argument("--group", help="name of a group of all jobs")
    parser.add_argument("--record", type=pathlib.Path, help="writes the counts to this file as JSON, too")
    parser.add_argument("--table", type=pathlib.Path, help="prints the table of a recorded file and measures nothing")
    parser.add_argument("--check", action="store_true", help="fails if a job costs more than its budget")
    parser.add_argument("--record-budget", action="store_true", help="writes the medians of three runs as the budget")
    words = parser.parse_args()
    if words.table:
        print(table(json.loads(words.table.read_text())))
        return
    compares = words.check or words.record_budget
    jobs = words.jobs or (BUDGET_JOBS if compares else 1_000)
    if jobs < 100 or jobs % 100:
        parser.error("--jobs must be a multiple of 100")
    if words.check and words.record_budget:
        parser.error("--check and --record-budget exclude each other")
    if compares and (words.default_limit or words.group):
        parser.error("the budget is that of a job without a group or a limit: it excludes --default-limit and --group")
    settings = limit_settings(words.default_limit)
    allowed = budget.read(BUDGET, [*STAGES], SIZES, jobs) if words.check else None
    check_tools(words.ferry)
    counters = (Strace, Callgrind)
    if refusal := refusal_to_trace():
        if not words.check:
            raise SystemExit(f"strace cannot trace a process: {refusal}")
        # Instructions and allocations do not need ptrace(2).
        print(f"System calls are not compared, because strace cannot trace a process: {refusal}", flush=True)
        counters = (Callgrind,)
        allowed = {key: limit for key, limit in allowed.items() if key[1] != "system_calls"}

    def run() -> dict:
        if compares:
            return measure(words.ferry, jobs, BUDGET_CONNECTIONS, counters, settings)
        return measure(words.ferry, jobs, CONNECTIONS, (Statements, Strace, Callgrind), settings, words.group)

    with working_folder():
        if words.check:
            samples, found = budget.judged(run, allowed)
        else:
            samples, found = [run() for _ in range(3 if words.record_budget else 1)], []
    sample = budget.median_sample(samples)
    if words.record:
        words.record.write_text(json.dumps(sample, indent=1) + "\n")
    if words.record_budget:
        budget.write(BUDGET, sample, [*STAGES], SIZES, jobs)
    print(table(sample))
    if found:
        # As scripts/test-totals finds them.
        print("\n".join(["error: A small job costs more than its budget. If the change needs that, raise the budget in "
                         "the same commit with `make record-budget`, and say why.",
                         *(f"error: {sentence}" for sentence in found)]))
        sys.exit(1)


if __name__ == "__main__":
    main()

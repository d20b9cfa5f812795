"""Where things live and on which loopback ports; everything else derives from here."""
from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import resource
import shutil
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parent.parent
WORK = pathlib.Path(os.environ.get("BENCH_WORK") or os.path.join(tempfile.gettempdir(), "ferry-bench"))
# Where downloads of small files land; a tmpfs keeps a file system's cost of creating files out of the figures.
SMALL_OUT = pathlib.Path(os.environ.get("BENCH_SMALL_OUT") or WORK / "out-small")
LOCK = os.environ.get("BENCH_LOCK")  # optional lock file, held during each measurement

HOST = "127.0.0.1"
BASE = int(os.environ.get("BENCH_PORT_BASE", "18100"))
PORT_ORIGIN = BASE          # nginx
PORT_PEER = BASE + 1        # the peer's public API
PORT_PG = BASE + 2
PORT_REDIS = BASE + 3
PORT_HOOK = BASE + 4        # webhook sink

KIB, MIB, GIB = 1024, 1024**2, 1024**3
SIZES = {"1k": KIB, "100k": 100 * KIB, "10m": 10 * MIB, "1g": GIB}


def setup() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    WORK.chmod(0o755)  # the postgres user has to reach its data folder below
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def fresh(name: str) -> pathlib.Path:
    path = SMALL_OUT if name == "out-small" else WORK / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


_held = False
QUIET = float(os.environ.get("BENCH_QUIET", "0"))  # how long to wait for other processes to calm down, seconds


def _load(seconds: float) -> float:
    """Share of all cores that is busy now (nothing of ours is, before a measurement)."""
    from . import procs
    busy, t = procs.machine_cpu()[0], time.time()
    time.sleep(seconds)
    return (procs.machine_cpu()[0] - busy) / (time.time() - t) / os.cpu_count()


@contextlib.contextmanager
def measuring():
    """Hold the machine-wide lock (when one is named) so that two benches never overlap; may be nested."""
    global _held
    if not LOCK or _held:
        yield
        return
    with open(LOCK, "a") as handle:
        give_up = time.time() + QUIET
        while True:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _load(0.5) < 0.2 or time.time() > give_up:
                break
            fcntl.flock(handle, fcntl.LOCK_UN)  # others may go first while we wait for a quiet machine
            time.sleep(1)
        _held = True
        try:
            yield
        finally:
            _held = False
            fcntl.flock(handle, fcntl.LOCK_UN)


def which(*names: str) -> str:
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise SystemExit(f"not installed: {names[0]}")

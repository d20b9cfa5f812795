"""Benchmarks/ledger: how it reads what its tools write, and the table that it prints."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "Benchmarks/ledger"))

import ledger

# One thread's dump: number 2 gets its name where it is first called, and `realloc` calls `malloc` by itself.
DUMP = """# callgrind format
part: 2
thread: 3
events: Ir
summary: 5120

fn=(1) work
10 20
cfn=(2) malloc
calls=3 0
* 60
cfn=(3) free
calls=9 0
* 90
fn=(4) realloc'2
cfn=(2)
calls=5 0
* 50
fn=(1)
cfn=(2)
calls=4 0
* 80
"""


def test_a_dump_gives_instructions_and_the_allocations_of_its_callers():
    assert ledger.callgrind_counts(DUMP) == (5120, 7)


def test_numbers_of_threads_are_read_from_the_state_of_valgrind():
    text = ("Thread 1: status = VgTs_WaitSys syscall 202 (lwpid 3689)\n   at 0x1: f\n"
            "Thread 12: status = VgTs_Runnable (lwpid 7)\n")
    assert ledger.scheduler_threads(text) == {1: 3689, 12: 7}


def test_an_interrupted_system_call_counts_once():
    lines = ["7 futex(0x1, FUTEX_WAIT <unfinished ...>\n", '8 read(4, ""..., 10) = 1\n', "7 <... futex resumed>) = 0\n",
             '7 openat(AT_FDCWD, ""..., O_RDONLY) = 5\n', "8 +++ exited with 0 +++\n"]
    assert ledger.strace_counts(lines) == {7: 2, 8: 1}


def test_statements_are_counted_when_they_are_executed_by_the_service():
    lines = ["ferry submissions\t-5\tLOG:  duration: 0.1 ms  parse s1: INSERT\n",
             "ferry submissions\t-5\tLOG:  duration: 0.1 ms  bind s1: INSERT\n", "\tINTO jobs\n",
             "ferry submissions\t-5\tLOG:  duration: 0.1 ms  execute s1: INSERT\n",
             "ferry dispatcher\t9\tLOG:  duration: 0.1 ms  statement: COMMIT\n",
             "psql\t9\tLOG:  duration: 0.1 ms  statement: SELECT 1\n"]
    assert ledger.log_counts(lines) == {("submissions", -5): 1, ("dispatcher", 9): 1}


def test_wal_of_a_statement_is_shared_by_the_stages_that_execute_it():
    counts = ledger.database_counts({("submissions", 1): 1, ("dispatcher", 1): 3, ("dispatcher", 2): 1},
                                    {1: 400, 2: 50, 3: 7}, 500)
    assert counts == {"Submissions": {"statements": 1, "wal_bytes": 100},
                      "Dispatcher": {"statements": 4, "wal_bytes": 350}, ledger.COMMITS: {"wal_bytes": 50}}


@pytest.mark.parametrize(("thread", "stage"), [
    ("MHD-worker", "HTTP threads"), ("ferry-curl-0", "Transfer loops"), ("ferry-file-11", "File threads"),
    ("events", "Event relay"), ("event-tail", "Other threads")])
def test_the_whole_name_of_a_thread_decides_its_stage(thread, stage):
    assert ledger.stage(thread) == stage


def test_the_table_of_a_recorded_sample_is_printed(tmp_path):
    sample = {"1": {"HTTP threads": {"instructions": 284_400, "allocations": 97.84, "system_calls": 8.95},
                    "Dispatcher": {"instructions": 99_600, "statements": 0.08, "wal_bytes": 1_521.4},
                    ledger.COMMITS: {"wal_bytes": 23}},
              "100": {"HTTP threads": {"instructions": 120_000, "allocations": 47, "system_calls": 0},
                      "Dispatcher": {"instructions": 143_000, "statements": 0.04, "wal_bytes": 1_664},
                      ledger.COMMITS: {"wal_bytes": 11.7}}}
    (tmp_path / "sample.json").write_text(json.dumps(sample))
    command = [sys.executable, REPOSITORY / "Benchmarks/ledger/ledger.py", "--table", tmp_path / "sample.json"]
    lines = subprocess.check_output(command, text=True).splitlines()
    assert lines[:3] == [
        "| Stage | Instructions, thousands | Allocations | System calls | SQL statements | WAL bytes |",
        "|---|---|---|---|---|---|",
        "| HTTP threads | 284 / 120 | 97.8 / 47.0 | 8.95 / 0 |  |  |"]
    assert lines[6] == "| Dispatcher | 100 / 143 |  |  | 0.08 / 0.04 | 1,521 / 1,664 |"
    assert lines[-1] == "| All | 384 / 263 | 97.8 / 47.0 | 8.95 / 0 | 0.08 / 0.04 | 1,544 / 1,676 |"
    assert len(lines) == 2 + len(ledger.STAGES) + 2


def test_a_missing_tool_is_an_error_that_names_its_package(tmp_path):
    command = [sys.executable, REPOSITORY / "Benchmarks/ledger/ledger.py"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "valgrind is not installed; install the Debian package valgrind\n"

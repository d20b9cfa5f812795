"""Benchmarks/ledger: how it reads what its tools write, and the table that it prints."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "Benchmarks/ledger"))

import budget
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


def test_an_interrupted_system_call_counts_once_by_its_beginning_and_its_result():
    lines = ["9 <... futex resumed>) = 0\n", "7 futex(0x1, FUTEX_WAIT <unfinished ...>\n",
             '8 read(4</a>, ""..., 10) = 1\n', "7 <... futex resumed>) = 0\n",
             '7 openat(AT_FDCWD, ""..., O_RDONLY) = 5\n', "7 recvfrom(6<socket:[1]>,  <unfinished ...>\n",
             "7 <... recvfrom resumed>0x7f, 10, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)\n",
             "8 +++ exited with 0 +++\n", "8 epoll_wait(3<anon_inode:[eventpoll]>,  <unfinished ...>\n"]
    assert ledger.strace_counts(lines) == {(7, True): 2, (7, False): 1, (8, False): 1, (8, True): 1}


@pytest.mark.parametrize(("call", "waits"), [
    ('write(5<anon_inode:[eventfd]>, ""..., 8) = 8', True), ('read(5<anon_inode:[eventfd]>, ""..., 8) = 8', True),
    ("futex(0x1, FUTEX_WAKE_PRIVATE, 1) = 1", True), ("clock_nanosleep(CLOCK_REALTIME, 0, 0x1, NULL) = 0", True),
    ('recvfrom(6<socket:[1]>, 0x1, 9, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)', True),
    ('recvfrom(6<socket:[1]>, ""..., 9, 0, NULL, NULL) = 9', False), ('write(5</data/file>, ""..., 8) = 8', False),
    ("fsync(5</data/EAGAIN>) = 0", False), ("connect(6<socket:[1]>, 0x1, 16) = -1 EINPROGRESS (Operation now in "
                                            "progress)", False)])
def test_a_call_that_only_waits_or_wakes_is_told_from_work(call, waits):
    assert ledger.is_wait(call) == waits


def test_statements_are_counted_when_they_are_executed_by_the_service():
    lines = ["ferry submissions\t-5\tLOG:  duration: 0.1 ms  parse s1: INSERT\n",
             "ferry submissions\t-5\tLOG:  duration: 0.1 ms  bind s1: INSERT\n", "\tINTO jobs\n",
             "ferry submissions\t-5\tLOG:  duration: 0.1 ms  execute s1: INSERT\n",
             "ferry dispatcher\t9\tLOG:  duration: 0.1 ms  statement: COMMIT\n",
             "psql\t9\tLOG:  duration: 0.1 ms  statement: SELECT 1\n"]
    assert ledger.log_counts(lines) == {("submissions", -5): 1, ("dispatcher", 9): 1}


def test_voluntary_context_switches_are_read_for_each_thread(tmp_path):
    for thread, switches in ((7, 12), (8, 0)):
        (tmp_path / f"task/{thread}").mkdir(parents=True)
        (tmp_path / f"task/{thread}/status").write_text(
            f"Name:\tferry\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t99\n")
    # A thread that has ended meanwhile.
    (tmp_path / "task/9").mkdir()
    (tmp_path / "task/9/status").symlink_to(tmp_path / "gone")
    assert ledger.voluntary_switches(tmp_path) == {7: 12, 8: 0}


def test_the_limit_of_connections_is_left_to_the_service_only_if_asked_for():
    assert ledger.limit_settings(True) == {}
    assert ledger.limit_settings(False) == {"FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": "none"}


@pytest.mark.parametrize("mode", ["--check", "--record-budget"])
def test_the_default_limit_is_not_compared_with_the_budget(mode):
    command = [sys.executable, REPOSITORY / "Benchmarks/ledger/ledger.py", mode, "--default-limit"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "it excludes --default-limit" in done.stderr


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
                    ledger.COMMITS: {"wal_bytes": 23}, ledger.WAITS: {"system_calls": 20},
                    ledger.SWITCHES: {"system_calls": 11}},
              "100": {"HTTP threads": {"instructions": 120_000, "allocations": 47, "system_calls": 0},
                      "Dispatcher": {"instructions": 143_000, "statements": 0.04, "wal_bytes": 1_664},
                      ledger.COMMITS: {"wal_bytes": 11.7}, ledger.WAITS: {"system_calls": 5},
                      ledger.SWITCHES: {"system_calls": 3.4}}}
    (tmp_path / "sample.json").write_text(json.dumps(sample))
    command = [sys.executable, REPOSITORY / "Benchmarks/ledger/ledger.py", "--table", tmp_path / "sample.json"]
    lines = subprocess.check_output(command, text=True).splitlines()
    assert lines[:3] == [
        "| Stage | Instructions, thousands | Allocations | System calls | SQL statements | WAL bytes |",
        "|---|---|---|---|---|---|",
        "| HTTP threads | 284 / 120 | 97.8 / 47.0 | 8.95 / 0 |  |  |"]
    assert lines[6] == "| Dispatcher | 100 / 143 |  |  | 0.08 / 0.04 | 1,521 / 1,664 |"
    assert lines[-3] == "| All | 384 / 263 | 97.8 / 47.0 | 8.95 / 0 | 0.08 / 0.04 | 1,544 / 1,676 |"
    assert lines[-2] == f"| {ledger.WAITS} |  |  | 20.0 / 5.00 |  |  |"
    assert lines[-1] == f"| {ledger.SWITCHES} |  |  | 11.0 / 3.40 |  |  |"
    assert len(lines) == 2 + len(ledger.STAGES) + 4


def test_a_missing_tool_is_an_error_that_names_its_package(tmp_path):
    command = [sys.executable, REPOSITORY / "Benchmarks/ledger/ledger.py"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "valgrind is not installed; install the Debian package valgrind\n"


def test_a_machine_that_does_not_allow_tracing_gives_the_words_of_strace():
    assert ledger.refusal_to_trace(("true",)) is None
    assert ledger.refusal_to_trace(("false",)) == "status 1"
    assert ledger.refusal_to_trace(("sh", "-c", "echo 'ptrace: not permitted' >&2; exit 1")) == "ptrace: not permitted"


# MARK: The budget

STAGES = ["one", "two"]


def sample(one: float, two: float, kind: str = "instructions") -> dict:
    """A sample whose requests with one job cost this; all other counts are the same in all samples."""
    rows = {stage: {"instructions": 500.0, "allocations": 10.0, "system_calls": 4.0} for stage in STAGES}
    changed = {stage: rows[stage] | {kind: value} for stage, value in zip(STAGES, (one, two))}
    return {"1": changed | {ledger.WAITS: {"system_calls": 9}}, "100": rows}


ALLOWED = budget.counts(sample(1_000, 100), STAGES)


@pytest.mark.parametrize(("one", "two", "above"), [
    (1_000, 100, []), (500, 50, []),
    # The sum is 1,100: 1,155 is 5 % above it.
    (1_055, 100, []), (1_056, 100, [budget.SUM]),
    # 2 % of the sum are 22, and 15 % of the stage are 15.
    (1_000, 116, []), (1_000, 122, []), (1_000, 123, ["two"]), (900, 200, ["two"]),
    # A large stage: 7 % of it are far more than 2 % of the sum, but no 15 %.
    (1_070, 30, []), (1_151, 0, ["one"])])
def test_the_sum_has_one_bound_and_each_stage_has_two(one, two, above):
    sentences = budget.excesses(budget.counts(sample(one, two), STAGES), ALLOWED)
    assert [sentence.partition(", ")[2].partition(":")[0] for sentence in sentences] == above
    assert all(sentence.startswith("1 a request, ") and " instructions per job, " in sentence for sentence in sentences)


def test_a_stage_that_had_no_cost_is_above_its_budget_by_a_part_of_the_sum():
    allowed = budget.counts(sample(1_000, 0), STAGES)
    assert not budget.excesses(budget.counts(sample(970, 20), STAGES), allowed)
    assert budget.excesses(budget.counts(sample(970, 21), STAGES), allowed)


def test_threads_that_work_by_the_clock_count_in_the_sum_only():
    stages = ["one", budget.BY_CLOCK]
    def counts(one: float, other: float) -> dict:
        rows = {"one": {"instructions": one}, budget.BY_CLOCK: {"instructions": other}}
        return budget.counts({"1": rows}, stages)
    assert not budget.excesses(counts(1_000, 50), counts(1_000, 5))
    above, = budget.excesses(counts(1_000, 56), counts(1_000, 5))
    assert budget.SUM in above


def test_waits_wake_ups_and_context_switches_have_no_budget():
    louder = sample(1_000, 100)
    louder["1"][ledger.WAITS]["system_calls"] = 900
    louder["1"][ledger.SWITCHES] = {"system_calls": 900}
    assert not budget.excesses(budget.counts(louder, STAGES), ALLOWED)


@pytest.mark.parametrize(("costs", "runs", "fails"), [
    ([1_000], 1, False), ([1_200, 1_000, 1_010], 3, False), ([1_200, 1_210, 1_000], 3, True),
    # Never more than three runs, and one that is below does not end them.
    ([1_300, 1_000, 1_300], 3, True)])
def test_a_sample_above_the_budget_is_followed_by_two_more_and_the_median_decides(costs, runs, fails):
    left = [sample(cost, 100) for cost in costs]
    samples, found = budget.judged(lambda: left.pop(0), ALLOWED)
    assert (len(samples), bool(found), left) == (runs, fails, [])


def test_a_written_budget_is_read_back_and_has_no_waits(tmp_path):
    path = tmp_path / "budget.json"
    budget.write(path, sample(1_000.00049, 100), STAGES, (1, 100), 300)
    assert budget.read(path, STAGES, (1, 100), 300) == ALLOWED
    assert ledger.WAITS not in path.read_text()


def test_the_median_of_three_samples_is_taken_count_by_count():
    samples = [sample(1, 9), sample(2, 8), sample(3, 7)]
    median = budget.median_sample(samples)
    assert (median["1"]["one"]["instructions"], median["1"]["two"]["instructions"]) == (2, 8)
    assert median["1"][ledger.WAITS] == {"system_calls": 9}
    assert budget.median_sample(samples[:1]) == samples[0]


def test_a_budget_that_is_missing_or_of_another_ledger_is_an_error_that_says_how_to_measure_it(tmp_path):
    path = tmp_path / "budget.json"
    with pytest.raises(SystemExit, match="does not exist; .*make record-budget"):
        budget.read(path, STAGES, (1, 100), 300)
    budget.write(path, sample(1_000, 100), STAGES, (1, 100), 300)
    with pytest.raises(SystemExit, match="for runs of 300 jobs, not 1000; .*make record-budget"):
        budget.read(path, STAGES, (1, 100), 1_000)
    with pytest.raises(SystemExit, match="other stages .*make record-budget"):
        budget.read(path, [*STAGES, "three"], (1, 100), 300)

"""scripts/run-stages: what it runs beside what, what it prints, and that nothing is left when it is stopped."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess

import pytest

from conftest import REPOSITORY, eventually

STAGES = ["build-tests", "prepare-outside", "lint-format", "test-swift", "release", "test-outside-waiting",
          "test-outside-others", "build-memory", "test-memory", "test-ledger"]


@pytest.fixture()
def stages(tmp_path):
    """Starts `run-stages test` in a folder whose Makefile has these recipes; all others print their names."""
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts/run-stages"
    text = (REPOSITORY / "scripts/run-stages").read_text()
    script.write_text(text.replace("STOPPING_SECONDS = 20", "STOPPING_SECONDS = 1"))
    script.chmod(0o755)
    started = []

    def start(**recipes: str) -> subprocess.Popen:
        recipes = {name.replace("_", "-"): recipe for name, recipe in recipes.items()}
        text = "".join(f"{name}:\n\t@{recipes.get(name, 'echo of ' + name)}\n" for name in STAGES)
        (tmp_path / "Makefile").write_text(text)
        environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
        started.append(subprocess.Popen([script, "test"], stdout=subprocess.PIPE, text=True, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def totals(folder: pathlib.Path, output: str) -> list[str]:
    (folder / "log").write_text(output)
    return subprocess.check_output([REPOSITORY / "scripts/test-totals", folder / "log"], text=True).splitlines()


def has_ended(pid: int) -> bool:
    """Or waits for its parent to ask for its status, as an orphan does for a moment."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_stages_that_pass_print_their_logs_the_slowest_tests_and_their_times(stages, tmp_path):
    write = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do printf '%s\\ttest %s\\n' $$n $$n >>$$FERRY_TEST_TIMES; done"
    process = stages(test_swift=write, test_outside_others="echo '3 passed, 1 skipped in 1.00s'")
    output, _ = process.communicate(timeout=60)
    lines = output.splitlines()
    assert process.returncode == 0, output
    assert lines.index("of build-tests") < lines.index("== test-swift begins")
    assert "|    12.0 s  test 12" in lines and "|     3.0 s  test 3" in lines and "|     2.0 s  test 2" not in lines
    for name in STAGES:
        assert any(line.startswith("|") and line.endswith(f" {name}: passed") for line in lines), name
    assert totals(tmp_path, output) == ["3 passed, 0 failed, 1 skipped"]


def test_the_builds_follow_each_other_and_the_tests_of_memory_and_the_ledger_run_alone(stages):
    process = stages()
    output, _ = process.communicate(timeout=60)
    lines = output.splitlines()
    for before, after in [("build-tests", "release"), ("release", "build-memory"), ("release", "test-outside-waiting"),
                          ("release", "test-outside-others")]:
        assert lines.index(f"of {before}") < lines.index(f"== {after} begins"), (before, after)
    for alone, later in [("test-memory", {"test-memory", "test-ledger"}), ("test-ledger", {"test-ledger"})]:
        begin = lines.index(f"== {alone} begins")
        assert all(lines.index(f"of {name}") < begin for name in STAGES if name not in later), alone


def test_a_stage_that_fails_ends_those_that_need_it_and_no_others(stages, tmp_path):
    process = stages(build_tests="echo 'a.swift:1:1: error: wrong'; exit 1")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    for name, verdict in [("build-tests", "failed"), ("test-swift", "not run"), ("test-memory", "not run"),
                          ("lint-format", "passed")]:
        assert f" {name}: {verdict}\n" in output, name
    found = totals(tmp_path, output)
    assert "| a.swift:1:1: error: wrong" in found
    assert "| scripts/run-stages: build-tests failed with status 2" in found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_of_any_stage(stages, tmp_path, number):
    # In a process group of its own as below timeout(1), and deaf to what asks it to end.
    deaf = f"timeout 600 sh -c 'trap \"\" INT TERM; echo $$$$ >{tmp_path}/pid; while :; do sleep 1; done'"
    process = stages(build_tests=deaf, lint_format="sleep 600")
    pid = int(eventually(60, lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "started"))
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and f"{number.name}: every stage is stopped" in output
    eventually(60, lambda: has_ended(pid), "the end of what a stage had started")
    assert " test-swift: not run\n" in output

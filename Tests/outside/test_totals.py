"""scripts/test-totals: whoever sees only the end of a log learns what failed and why."""
from __future__ import annotations

import pathlib
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

FAILED = """\
◇ Test run started.
◇ Test "one that was started and passed" started.
◇ Test "two" started.
◇ Test plain() started.
◇ Test "three" started.
◇ Test case passing 1 argument n → 1 to "three" started.
✔ Test "one that was started and passed" passed after 0.1 seconds.
✘ Test "two" recorded an issue at TwoTests.swift:7:9: Expectation failed: becomes(seconds: 9) {
                true == false
            }
↳ the comment
◇ Test case passing 1 argument n → 2 to "three" started.
✘ Test case passing 1 argument n → 2 to "three" failed after 0.2 seconds with 1 issue.
✘ Test "three" recorded an issue with 1 argument n → 2 at ThreeTests.swift:8:9: Caught error: .unavailable
✘ Test "two" failed after 1.5 seconds with 1 issue.
✘ Test "three" with 2 test cases failed after 1.5 seconds with 1 issue.
➜ Test "four" skipped: "No IPv6 here."
✔ Test plain() passed after 0.2 seconds.
✘ Test «unknown» recorded an issue at FiveTests.swift:9:9: Issue recorded
↳ it has begun
✘ Test run with 5 tests in 2 suites failed after 2.0 seconds with 3 issues.
make: *** [Makefile:24: test-swift] Error 1
"""

CRASHED = """\
◇ Test run started.
◇ Test "one" started.
◇ Test "two" started.
✔ Test "one" passed after 0.1 seconds.
FerryTests/TwoTests.swift:12: Fatal error: Index out of range

*** Signal 4: Backtracing from 0x7fa66a56df7f... done ***

*** Program crashed: Illegal instruction at 0x00007fa66a56df7f ***

Thread 3 crashed:

0      0x00007fa66a56df7f _assertionFailure(_:_:file:line:flags:) + 623 in libswiftCore.so
1 [ra] 0x000055a173f870c2 TwoTests.two() + 145 in ferryPackageTests.xctest at /somewhere/TwoTests.swift:12:29
error: Exited with unexpected signal code 4
"""

PYTEST = """\
=================================== FAILURES ===================================
______________________ test_schemathesis_finds_nothing[a] ______________________
test_openapi.py:64: in test_schemathesis_finds_nothing
    assert run.returncode == 0, found
E   AssertionError: it found something
E   assert 1 == 0
=========================== short test summary info ============================
FAILED Tests/outside/test_openapi.py::test_schemathesis_finds_nothing[a] - AssertionError: it...
ERROR Tests/outside/test_docs.py::test_other - Failed: it is not built
1 failed, 40 passed, 2 skipped, 1 error in 99.12s (0:01:39)
"""


def totals(tmp_path, text: str) -> list[str]:
    log = tmp_path / "log"
    log.write_text(text)
    return subprocess.run([REPOSITORY / "scripts/test-totals", log], capture_output=True, text=True,
                          check=True).stdout.splitlines()


def test_each_failed_test_is_named_with_its_issues(tmp_path):
    lines = totals(tmp_path, FAILED)
    assert lines == [
        '| ✘ "two"',
        "|     at TwoTests.swift:7:9: Expectation failed: becomes(seconds: 9) {",
        "|                     true == false",
        "|                 }",
        "|     ↳ the comment",
        '| ✘ "three"',
        "|     with 1 argument n → 2 at ThreeTests.swift:8:9: Caught error: .unavailable",
        "| ✘ «unknown»",
        "|     at FiveTests.swift:9:9: Issue recorded",
        "|     ↳ it has begun",
        "2 passed, 3 failed, 1 skipped",
    ]
    assert totals(tmp_path, FAILED + "\n".join(lines) + "\n") == lines, "a summary is not counted again"


def test_a_crash_says_where_and_what_had_no_verdict(tmp_path):
    assert totals(tmp_path, CRASHED) == [
        "| FerryTests/TwoTests.swift:12: Fatal error: Index out of range",
        "| *** Program crashed: Illegal instruction at 0x00007fa66a56df7f ***",
        "|     TwoTests.two() + 145 in ferryPackageTests.xctest at /somewhere/TwoTests.swift:12:29",
        "| error: Exited with unexpected signal code 4",
        "| no verdict on 1 tests, lastly started:",
        '|     "two"',
        "1 passed, 0 failed, 0 skipped",
    ]


def test_checks_by_pytest_are_named_with_their_assertions(tmp_path):
    lines = totals(tmp_path, PYTEST)
    assert lines[:3] == ["| ✘ test_schemathesis_finds_nothing[a]", "|     AssertionError: it found something",
                         "|     assert 1 == 0"]
    assert "| ✘ test_other" in lines and lines[-1] == "40 passed, 2 failed, 2 skipped"


def test_of_many_failures_the_first_are_shown_and_the_others_named(tmp_path):
    text = "".join(
        f'✘ Test "t{number}" recorded an issue at T.swift:{number}:1: wrong\n'
        + "".join(f"    line {line}\n" for line in range(20))
        + f'✘ Test "t{number}" failed after 1.0 seconds with 1 issue.\n' for number in range(80))
    lines = totals(tmp_path, text)
    assert len(lines) <= 60 and '| ✘ "t0"' in lines and '| ✘ "t12"' in lines
    assert lines[-1] == "0 passed, 80 failed, 0 skipped"

"""examples/nightly.py of docs/guides/nightly.md, run as the page says."""
from __future__ import annotations

import os
import re
import subprocess
import sys

from conftest import REPOSITORY, binary, free_port


def night(ferry, name: str, *urls: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"FERRY_URL": ferry.url, "FERRY_KEY": ferry.key, "NIGHT": name}
    return subprocess.run([sys.executable, REPOSITORY / "examples/nightly.py", str(free_port()), *urls],
                          env=environment, capture_output=True, text=True, timeout=300)


def test_a_night_retries_what_has_failed_and_ends_when_all_is_done(ferry, receiver):
    receiver.files |= {"/a": b"first", "/b": b"second"}
    statuses = {"/late": 2}

    # Its first attempts fail: those of round 1. Round 2 gets the file.
    handler = receiver.RequestHandlerClass
    found = handler.do_GET

    def late(self):
        with self.server.lock:
            left = statuses.get(self.path, 0)
            statuses[self.path] = left - 1
        if left > 0:
            return self.answer(503, b"")
        return self.answer(200, b"third") if self.path == "/late" else found(self)

    handler.do_GET = late
    try:
        said = night(ferry, "night-1", *[receiver.url + path for path in ("/a", "/b", "/late")])
    finally:
        handler.do_GET = found
    assert said.returncode == 0, said.stdout + said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] == "round 1: 2 succeeded, 1 open failures"
    assert re.fullmatch(rf"  job_\w+ unacceptable_status {receiver.url}/late", lines[1]), lines
    assert lines[2:] == ["round 2: 3 succeeded, 0 open failures"]
    for number, content in enumerate([b"first", b"second", b"third"]):
        assert (ferry.data / f"files/night-1/{number:05}").read_bytes() == content
    group = ferry.call("GET", "/v1/job_groups/night-1").json()
    assert group["round"] == 2 and group["counts"]["failed"] == 1, group


def test_a_night_with_a_file_that_does_not_exist_leaves_an_open_failure(ferry, receiver):
    receiver.files["/a"] = b"first"
    said = night(ferry, "night-2", f"{receiver.url}/a", f"{receiver.url}/missing")
    assert said.returncode == 1, said.stdout + said.stderr
    assert said.stdout.count("1 open failures") == 3
    assert said.stdout.splitlines()[-1] == "open failures are left: ferry failures --group night-2"
    shown = subprocess.run([binary(), "failures", "--group", "night-2"], capture_output=True, text=True, timeout=60,
                           env=os.environ | {"FERRY_URL": ferry.url, "FERRY_KEY": ferry.key})
    assert shown.returncode == 0 and shown.stdout.startswith("1\t"), shown.stdout + shown.stderr
    assert "unacceptable_status" in shown.stdout


def test_the_page_shows_the_program():
    page = (REPOSITORY / "docs/guides/nightly.md").read_text()
    program = (REPOSITORY / "examples/nightly.py").read_text()
    paths = re.findall(r"(?m)^(?:GET|POST) (/v1/[^ ?\n]+)", page)
    assert len(paths) == 4
    assert [path for path in paths if path.replace("night-2026-11-29", "{group}") not in program] == []

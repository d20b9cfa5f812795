"""The README's first job, its commands taken from the page and run as they stand there."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess

from conftest import REPOSITORY, eventually, free_port


def blocks(heading: str) -> list[str]:
    text = (REPOSITORY / "README.md").read_text()
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_the_first_job_of_the_readme(ferry, tmp_path):
    start, receive, submit = blocks("First job")
    assert "make run" in start
    port = free_port()
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    # The page's addresses are where a user's own service and receiver are, and its patience is a person's.
    def here(script: str) -> str:
        script = script.replace("127.0.0.1:8080", ferry.url.removeprefix("http://")).replace("9000", str(port))
        return script.replace("wait=10'", "wait=60'")

    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    output = tmp_path / "received"
    with open(output, "wb") as sink:
        receiver = subprocess.Popen(["sh", "-ec", "exec " + here(receive).strip()], cwd=tmp_path, env=environment,
                                    stdout=sink, stderr=subprocess.STDOUT)
    try:
        eventually(120, lambda: "listens" in output.read_text(), "the receiver")
        script = re.sub(r"FERRY_KEY=\S+", f"FERRY_KEY={ferry.key}", here(submit))
        run = subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
                             timeout=120)
        assert run.returncode == 0, run.stdout + run.stderr
        assert '"state":"succeeded"' in run.stdout.replace('": "', '":"'), run.stdout
        eventually(120, lambda: "job.succeeded" in output.read_text(), "the webhook")
        assert "the signature is right" in output.read_text()
    finally:
        receiver.terminate()
        receiver.wait()
    assert "hello" in (ferry.data / "files" / "hello.txt").read_text()
    assert pathlib.Path(tmp_path / "copy.txt").read_bytes() == (ferry.data / "files" / "hello.txt").read_bytes()

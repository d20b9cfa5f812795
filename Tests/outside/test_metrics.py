"""/metrics, judged by Prometheus' own linter."""
from __future__ import annotations

import shutil
import subprocess

from conftest import missing


def test_promtool_finds_nothing(ferry, receiver):
    receiver.files["/file"] = b"x" * 1000
    job = ferry.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": "download", "request": {"url": receiver.url + "/file"}, "destination": {"path": "metrics"}})
    assert job.json()["state"] == "succeeded", job.text
    answer = ferry.call("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "ferry_" in answer.text and ferry.key not in answer.text
    tool = shutil.which("promtool")
    if not tool:
        missing("promtool")
    verdict = subprocess.run([tool, "check", "metrics"], input=answer.text, capture_output=True, text=True)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr

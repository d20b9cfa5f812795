"""Client generators accept /openapi.json, and what they generate submits and reads a job."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import requests

TOOLS = pathlib.Path(sys.executable).parent

HTTPX_CLIENT = '''
import importlib, pkgutil, sys, time
import ferry_client
from ferry_client import AuthenticatedClient, models
from ferry_client.api.events import list_job_events
from ferry_client.api.jobs import read_job, submit_job

for module in pkgutil.walk_packages(ferry_client.__path__, "ferry_client."):
    importlib.import_module(module.name)
for name in ("Job", "DownloadRequest", "UploadRequest", "DataRequest", "JobPatch", "SessionRequest", "Webhook",
             "Event", "EventList", "LoggedEvent", "DeletedJob"):
    assert hasattr(models, name), name
url, key, target = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)
body = models.DataRequest.from_dict(
    {"kind": "data", "request": {"url": target, "headers": {"X-Name": "a"}}, "metadata": {"a": "b"}})
job = submit_job.sync(client=client, body=body, prefer="wait=30")
assert isinstance(job, models.Job), job
job = read_job.sync(client=client, id=job.id)
assert job.state == models.JobState.SUCCEEDED, job
assert job.request.headers["X-Name"] == "a" and job.metadata["a"] == "b", job
assert job.result.body == "generated", job.result
for _ in range(600):
    # The relay may still have to number the last event.
    events = list_job_events.sync(job.id, client=client)
    assert isinstance(events, models.EventList), events
    if models.AnyEventType.JOB_SUCCEEDED in [event.type_ for event in events.data]:
        break
    time.sleep(0.05)
else:
    raise AssertionError(events)
assert all(isinstance(event.data.job, models.Job) for event in events.data), events
'''

PYDANTIC_MODELS = '''
import json, sys, urllib.request
import models

url, key, target = sys.argv[1:]
body = models.DataRequest.model_validate(
    {"kind": "data", "request": {"url": target}, "schedule": {"priority": 0.7}})
request = urllib.request.Request(
    url + "/v1/jobs", body.model_dump_json(exclude_unset=True).encode(),
    {"Authorization": "Bearer " + key, "Content-Type": "application/json", "Prefer": "wait=30"})
with urllib.request.urlopen(request, timeout=60) as response:
    job = models.Job.model_validate(json.load(response))
assert job.state.value == "succeeded" and job.schedule.priority == 0.7, job
'''


@pytest.fixture(scope="module")
def document(ferry, tmp_path_factory):
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(requests.get(ferry.url + "/openapi.json", timeout=60).content)
    return path


def run(command, folder):
    """Runs a tool or a program in a folder and returns its output."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(folder)})
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]
    return done.stdout + done.stderr


def test_openapi_python_client_runs_a_job(ferry, receiver, document, tmp_path):
    receiver.files["/generated"] = b"generated"
    said = run(
        [TOOLS / "openapi-python-client", "generate", "--path", document, "--meta", "none",
         "--output-path", tmp_path / "ferry_client"], tmp_path)
    assert "Unable to process schema" not in said and "removal of" not in said, said[-6_000:]
    (tmp_path / "program.py").write_text(HTTPX_CLIENT)
    run([sys.executable, "program.py", ferry.url, ferry.key, receiver.url + "/generated"], tmp_path)


def test_datamodel_code_generator_runs_a_job(ferry, receiver, document, tmp_path):
    receiver.files["/generated"] = b"generated"
    run(
        [TOOLS / "datamodel-codegen", "--input", document, "--input-file-type", "openapi",
         "--output", tmp_path / "models.py", "--output-model-type", "pydantic_v2.BaseModel"], tmp_path)
    (tmp_path / "program.py").write_text(PYDANTIC_MODELS)
    run([sys.executable, "program.py", ferry.url, ferry.key, receiver.url + "/generated"], tmp_path)

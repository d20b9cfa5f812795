"""/openapi.json: valid, about what is there, and true under schemathesis."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import openapi_spec_validator
import pytest
import requests

HERE = pathlib.Path(__file__).resolve().parent
LONG = "FERRY_TEST_LONG" in os.environ
# Cases that fuzzing makes for each operation and each kind of data.
EXAMPLES = 40 if LONG else 8
# Coverage makes 9,000 cases, which take a quiet machine 75 s and a busy one ten minutes.
PHASES = ["Examples", "Fuzzing", "Stateful"] + (["Coverage"] if LONG else [])


@pytest.fixture(scope="module")
def document(ferry):
    answer = requests.get(ferry.url + "/openapi.json", timeout=60)
    assert answer.status_code == 200, "the document needs no key"
    assert answer.headers["Content-Type"].split(";")[0] in ("application/json", "application/vnd.oai.openapi+json")
    return answer.json()


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in ("get", "put", "post", "delete", "options", "head", "patch", "trace"):
                yield path, method, operation


def test_the_document_is_valid(document):
    assert document["openapi"].startswith("3.1")
    openapi_spec_validator.validate(document)


def members(value, name):
    """The values of all members with this name, at every depth."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key == name:
                yield member
            yield from members(member, name)
    elif isinstance(value, list):
        for element in value:
            yield from members(element, name)


def test_schema_names_are_unique_and_have_letters_and_digits_only(ferry, document):
    def unique(pairs):
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), f"a name occurs twice: {names}"
        return dict(pairs)

    # A parser keeps the last of equal names and says nothing.
    text = requests.get(ferry.url + "/openapi.json", timeout=60).text
    schemas = json.loads(text, object_pairs_hook=unique)["components"]["schemas"]
    assert {"Event", "EventList", "Job", "JobList"} <= schemas.keys()
    assert [name for name in schemas if not re.fullmatch("[A-Z][A-Za-z0-9]*", name)] == []


def test_every_reference_has_its_target(document):
    references = set(members(document, "$ref"))
    assert len(references) > 100
    for reference in references:
        target = document
        for step in reference.removeprefix("#/").split("/"):
            assert step in target, reference
            target = target[step]


def test_patterns_need_no_look_around(document):
    patterns = [pattern for pattern in members(document, "pattern") if isinstance(pattern, str)]
    assert len(patterns) > 20
    assert [pattern for pattern in patterns if "(?" in pattern] == []


def test_every_operation_has_a_name_and_says_how_it_fails(document):
    names = [operation.get("operationId") for _, _, operation in operations(document)]
    assert all(names) and len(names) == len(set(names))
    for path, method, operation in operations(document):
        if path.startswith("/v1/"):
            assert "401" in operation["responses"], f"{method} {path}"


def test_every_operation_needs_a_key_unless_it_says_not(ferry, document):
    for path, method, operation in operations(document):
        is_open = operation.get("security", document.get("security")) in ([], None)
        address = ferry.url + path.replace("{", "").replace("}", "")
        status = requests.request(method, address, timeout=60).status_code
        assert (status == 401) != is_open, f"{method} {path} answers {status} without a key"


def test_schemathesis_finds_nothing(ferry, receiver, document, tmp_path):
    """All checks; schemathesis.toml says what it is told. A count of cases ends it, however slow the machine is."""
    keys = ferry.call("GET", "/v1/admin/keys").json()["data"]
    own = next(key["id"] for key in keys if key["name"] == "FERRY_ADMIN_KEY")
    command = [
        pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / "schemathesis.toml",
        "run", ferry.url + "/openapi.json", "--header", f"Authorization: Bearer {ferry.key}", "--checks", "all",
        "--phases", ",".join(PHASES).lower(), "--max-examples", EXAMPLES]
    run = subprocess.run(list(map(str, command)), cwd=HERE, capture_output=True, text=True,
                         env=os.environ | {"FERRY_OWN_KEY": own})
    (tmp_path / "schemathesis.log").write_text(run.stdout + run.stderr)
    found = run.stdout.partition("= FAILURES =")[2].partition("= SUMMARY =")[0] or run.stdout[-4_000:]
    assert run.returncode == 0, found[:12_000] + run.stderr[-4_000:]
    for phase in PHASES:
        assert f"✅  {phase}" in run.stdout or f"✅ {phase}" in run.stdout, f"{phase}:\n{run.stdout[-4_000:]}"
    assert ferry.process.poll() is None, ferry.log()
    # It may have had the service held and its node drained.
    assert ferry.call("POST", "/v1/admin/resume", json={}).status_code == 200
    for node in ferry.call("GET", "/v1/admin/nodes").json()["data"]:
        assert ferry.call("POST", f"/v1/admin/nodes/{node['id']}/resume", json={}).status_code == 200
    # Whatever that was, a job that is in order is still done.
    receiver.files["/file"] = b"after the storm"
    job = ferry.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": "data", "schedule": {"priority": 1}, "request": {"url": receiver.url + "/file"}})
    assert job.json()["state"] == "succeeded", job.text

"""The examples of docs/urlsession.md, sent as they are to a server of the check."""
from __future__ import annotations

import json
import re

from conftest import REPOSITORY
from copy_servers import serving
from object_jobs import ended

PAGE = (REPOSITORY / "docs/urlsession.md").read_text()


def requests_of_page() -> list[tuple[str, str, dict]]:
    """Method, path and body of each request, in their order."""
    found = []
    for block in re.findall(r"```http\n(.*?)```", PAGE, re.DOTALL):
        for head, body in re.findall(r"(?m)^((?:PUT|POST) \S+)\n(.*?)(?=\n\n(?:PUT|POST)|\Z)", block, re.DOTALL):
            method, path = head.split(" ")
            found.append((method, path, json.loads(body)))
    return found


def test_the_examples_do_what_the_page_says(ferry):
    requests = requests_of_page()
    assert len(requests) >= 7
    with serving() as server:
        server.files = {"/a.csv": b"1,2\n", "/a": b"x", "/inbox": b""}
        for method, path, body in requests:
            text = json.dumps(body).replace("https://server.example", server.url)
            made = ferry.call(method, path, data=text, headers={"Content-Type": "application/json"})
            assert made.status_code in (200, 201), made.text
            if path == "/v1/jobs":
                job = ended(ferry, made.json()["id"])
                assert job["state"] == "succeeded", job["error"]


def test_the_names_of_the_page_exist(ferry):
    """Fields of sessions and jobs that the page names in its tables are in the reference."""
    reference = (REPOSITORY / "docs/fields.md").read_text()
    names = {"redirects.policy", "on_challenge", "schedule.confirm_before_begin", "http_cookie_accept_policy",
             "request.main_document_url", "schedule.earliest_begin_at", "request.tls.pins"}
    for name in names:
        assert f"`{name}`" in reference and name.split(".")[-1] in PAGE, name

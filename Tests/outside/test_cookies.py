"""Cookies of sessions: kept from responses, sent by later jobs on any node, read and changed over the API."""
from __future__ import annotations

import http.server
import subprocess
import threading
import time

import pytest

from conftest import Ferry, eventually, killed_and_started, running
from object_jobs import content, ended, submit, succeeded
from copy_servers import serving
from test_content_store import second_node

SOON = {"initial_delay": 0.05, "max_delay": 0.1, "max_attempts": 3}


class Server(http.server.ThreadingHTTPServer):
    """Answers with the Cookie field of each request. `sets`: the Set-Cookie fields of a path; `statuses`: its
    statuses, one after the other; `places`: where it redirects to."""
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.named = f"http://localhost:{self.server_port}"
        self.sets: dict[str, list[bytes]] = {}
        self.statuses: dict[str, list[int]] = {}
        self.places: dict[str, str] = {}
        self.challenges: dict[str, bytes] = {}
        self.got: list[tuple[str, bytes | None]] = []
        self.connections = 0
        self.is_quiet = False

    def get_request(self):
        self.connections += 1
        return super().get_request()

    def handle_error(self, *_):
        pass

    def sent(self, path: str) -> list[bytes | None]:
        return [cookie for one, cookie in self.got if one == path]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self):
        path, server = self.path.split("?")[0], self.server
        cookie = self.headers.get("Cookie")
        cookie = cookie.encode("latin-1") if cookie is not None else None
        server.got.append((path, cookie))
        statuses = server.statuses.get(path)
        status = statuses.pop(0) if statuses else 302 if path in server.places else 200
        if path in server.challenges and "Authorization" not in self.headers:
            status = 401
        body = b"" if server.is_quiet else cookie or b""
        lines = [f"HTTP/1.1 {status} x".encode(), b"Content-Length: %d" % len(body)]
        lines += [b"Set-Cookie: " + one for one in server.sets.get(path, [])]
        if status == 401:
            lines.append(b"WWW-Authenticate: " + server.challenges[path])
        if status // 100 == 3:
            lines.append(b"Location: " + server.places[path].encode())
        self.wfile.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    def log_message(self, *_):
        pass


@pytest.fixture()
def server():
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture()
def session(ferry):
    name = f"cookies-{time.monotonic_ns()}"
    made = ferry.call("PUT", f"/v1/sessions/{name}", json={})
    assert made.status_code == 201, made.text
    assert made.json()["http_should_set_cookies"] is True
    assert made.json()["http_cookie_accept_policy"] == "only_from_main_document_domain"
    return name


def get(url: str, session: str = "default", **request) -> dict:
    return {"kind": "data", "session": session, "request": {"url": url} | request, "retry": SOON}


def sent(ferry: Ferry, *arguments, **request) -> bytes:
    """The Cookie field that the server has got."""
    return content(ferry, succeeded(ferry, get(*arguments, **request)))


def jar(ferry: Ferry, session: str, **query) -> list[dict]:
    found = ferry.call("GET", f"/v1/sessions/{session}/cookies", params=query)
    assert found.status_code == 200, found.text
    return found.json()["data"]


def test_later_jobs_send_what_a_job_was_given(ferry, session, server):
    server.sets["/login"] = [b"sid=abc; Path=/; HttpOnly", b"theme=dark; Max-Age=3600", b"=nameless", b"x=1; Path=/sub"]
    assert sent(ferry, f"{server.url}/login", session) == b""
    assert sent(ferry, f"{server.url}/", session) == b"sid=abc; theme=dark; nameless"
    assert sent(ferry, f"{server.url}/sub/a", session) == b"x=1; sid=abc; theme=dark; nameless"
    # Another host, and another session, get none.
    assert sent(ferry, f"{server.named}/", session) == b""
    assert sent(ferry, f"{server.url}/") == b""
    shown = {one["name"]: one for one in jar(ferry, session)}
    assert set(shown) == {"sid", "theme", "", "x"}
    sid = shown["sid"]
    assert (sid["value"], sid["domain"], sid["path"], sid["expires_at"]) == ("abc", "127.0.0.1", "/", None)
    assert (sid["secure"], sid["http_only"], sid["same_site"], sid["host_only"]) == (False, True, None, True)
    assert sid["created_at"] <= sid["last_access_at"]
    assert shown["theme"]["expires_at"] is not None
    server.sets["/logout"] = [b"sid=; Max-Age=0; Path=/"]
    assert b"sid=abc" in sent(ferry, f"{server.url}/logout", session)
    assert b"sid" not in sent(ferry, f"{server.url}/", session)


def test_implicit_sessions_keep_cookies_within_one_job(ferry, server):
    server.sets["/a"], server.places["/a"] = [b"gate=open; Path=/"], "/b"
    name = f"implicit-{time.monotonic_ns()}"
    for session in ("default", name):
        assert sent(ferry, f"{server.url}/a", session) == b"gate=open"
        assert sent(ferry, f"{server.url}/b", session) == b""
    # Not even that if the request is to handle none.
    assert sent(ferry, f"{server.url}/a", name, http_should_handle_cookies=False) == b""

    def answer():
        return ferry.call("GET", f"/v1/sessions/{name}/cookies")

    # The service knows an implicit session once its first event is numbered.
    eventually(60, lambda: answer().status_code == 409, "the session is known")
    assert answer().json()["code"] == "session_not_configured"
    assert ferry.call("GET", "/v1/sessions/never-used-one/cookies").status_code == 404


def test_every_answer_is_taken(ferry, session, server):
    server.sets |= {"/first": [b"hop=1; Path=/"], "/fails": [b"failed=1; Path=/"], "/same": [b"same=1; Path=/"]}
    server.places["/first"] = "/second"
    assert sent(ferry, f"{server.url}/first", session) == b"hop=1"
    only = {"accept": {"status": ["2xx"]}}
    server.statuses["/fails"] = [503, 200]
    assert content(ferry, succeeded(ferry, get(f"{server.url}/fails", session) | only)) == b"hop=1; failed=1"
    server.statuses["/same"] = [404]
    assert ended(ferry, submit(ferry, get(f"{server.url}/same", session) | only)["id"])["state"] == "failed"
    assert sent(ferry, f"{server.url}/", session) == b"hop=1; failed=1; same=1"


def test_a_challenge_that_is_answered_is_taken(ferry, session, server):
    server.challenges["/digest"] = b'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'
    server.sets["/digest"] = [b"seen=1; Path=/"]
    login = {"type": "digest", "user": "u", "password": "p"}
    succeeded(ferry, get(f"{server.url}/digest", session, auth=login))
    assert len(server.sent("/digest")) == 2
    assert sent(ferry, f"{server.url}/", session) == b"seen=1"


@pytest.mark.parametrize("segments", [1, 2])
def test_parts_send_and_keep_them(ferry, session, segments):
    with serving() as files:
        files.files["/a"] = b"x" * 3_000_000
        files.fields = {"Set-Cookie": "part=1; Path=/"}
        job = {"kind": "download", "session": session, "request": {"url": f"{files.url}/a"}, "segments": segments}
        succeeded(ferry, job)
        first = len(files.got)
        succeeded(ferry, job)
        later = files.got[first:]
        assert len(later) >= segments and {one.headers.get("cookie") for one in later} == {"part=1"}


def test_a_field_of_the_job_replaces_the_jar_at_its_origin(ferry, session, server):
    server.sets["/a"] = [b"a=1; Path=/"]
    server.places["/a"] = f"{server.named}/b"
    server.sets["/b"] = [b"b=2; Path=/"]
    own = {"Cookie": "mine=1"}
    assert sent(ferry, f"{server.url}/a", session, headers=own) == b""
    assert server.sent("/a") == [b"mine=1"]
    assert {one["name"] for one in jar(ferry, session)} == {"a", "b"}
    assert sent(ferry, f"{server.url}/c", session, headers=own) == b"mine=1"
    assert sent(ferry, f"{server.url}/c", session) == b"a=1"


def test_what_the_session_and_the_request_say(ferry, session, server):
    server.sets["/a"] = [b"a=1; Path=/"]
    shown = succeeded(ferry, get(f"{server.url}/a", session, http_should_handle_cookies=False))
    assert shown["request"]["http_should_handle_cookies"] is False and jar(ferry, session) == []
    place = f"/v1/sessions/{session}"

    def change(**fields):
        tag = ferry.call("GET", place).headers["ETag"]
        answer = ferry.call("PUT", place, json=fields, headers={"If-Match": tag})
        assert answer.status_code == 200, answer.text

    change(http_cookie_accept_policy="never")
    sent(ferry, f"{server.url}/a", session)
    assert jar(ferry, session) == []
    change(http_should_set_cookies=False)
    sent(ferry, f"{server.url}/a", session)
    assert [one["name"] for one in jar(ferry, session)] == ["a"]
    assert sent(ferry, f"{server.url}/", session) == b""
    change()
    assert sent(ferry, f"{server.url}/", session) == b"a=1"
    # A document of another site: nothing of it is kept, and no strict cookie is sent there.
    server.sets["/b"] = [b"b=1; Path=/"]
    other = "http://other.example/page"
    assert sent(ferry, f"{server.url}/b", session, main_document_url=other) == b""
    assert [one["name"] for one in jar(ferry, session)] == ["a"]
    answer = ferry.call("POST", "/v1/jobs", json=get(f"{server.url}/a", session, main_document_url="nonsense"))
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == "#/request/main_document_url"


def test_octets_are_sent_back_as_they_came(ferry, session, server):
    server.sets["/a"] = [b"one=\xe9\xff; Path=/", "two=ü; Path=/".encode()]
    sent(ferry, f"{server.url}/a", session)
    assert sent(ferry, f"{server.url}/", session) == b"one=\xe9\xff; two=\xc3\xbc"
    shown = {one["name"]: one for one in jar(ferry, session)}
    assert shown["two"]["value"] == "ü" and shown["one"]["value_base64"] == "6f8="


def test_the_jar_is_read_and_changed(ferry, session, server):
    place = f"/v1/sessions/{session}/cookies"
    host = "127.0.0.1"
    first = {"data": [
        {"name": f"n{index:02}", "value": str(index), "domain": host, "path": "/"} for index in range(12)
    ] + [{"name": "far", "value": "1", "domain": ".shop.example", "path": "/p", "secure": True, "host_only": False,
          "expires_at": "2027-01-01T00:00:00Z", "same_site": "strict"}]}
    answer = ferry.call("PUT", place, json=first)
    assert answer.status_code == 200, answer.text
    assert sent(ferry, f"{server.url}/", session).startswith(b"n00=0; n01=1; ")
    pages, cursor = [], None
    while True:
        page = ferry.call("GET", place, params={"limit": 5} | ({"cursor": cursor} if cursor else {})).json()
        pages.append(page["data"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [len(page) for page in pages] == [5, 5, 3]
    everything = sum(pages, [])
    assert len({(one["name"], one["domain"]) for one in everything}) == 13
    far = jar(ferry, session, domain="www.shop.example")
    assert [(one["name"], one["same_site"], one["host_only"]) for one in far] == [("far", "strict", False)]
    assert jar(ferry, session, domain="example") == []
    assert [one["value"] for one in jar(ferry, session, name="n03")] == ["3"]
    # What is read can be written: the same jar.
    assert ferry.call("PUT", place, json={"data": everything}).status_code == 200
    assert jar(ferry, session, limit=500) == sorted(everything, key=lambda one: everything.index(one))
    more = {"data": [{"name": "n00", "value": "new", "domain": host}]}
    assert ferry.call("POST", place, json=more).status_code == 200
    assert [one["value"] for one in jar(ferry, session, name="n00")] == ["new"]
    assert len(jar(ferry, session)) == 13
    assert ferry.call("DELETE", place, params={"name": "n01"}).status_code == 204
    assert ferry.call("DELETE", place, params={"domain": "www.shop.example"}).status_code == 204
    assert len(jar(ferry, session)) == 11
    assert ferry.call("DELETE", place, params={"since": "2099-01-01T00:00:00Z"}).status_code == 204
    assert len(jar(ferry, session)) == 11
    assert ferry.call("PUT", place, json={"data": []}).status_code == 200
    assert jar(ferry, session) == [] and sent(ferry, f"{server.url}/", session) == b""


def test_the_format_of_netscape(ferry, session, server):
    place = f"/v1/sessions/{session}/cookies"
    text = ("# Netscape HTTP Cookie File\n"
            "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\tabc\n"
            ".shop.example\tTRUE\t/p\tTRUE\t1893456000\tfar\tx y\n")
    answer = ferry.call("PUT", place, data=text, headers={"Content-Type": "text/plain"})
    assert answer.status_code == 200, answer.text
    shown = {one["name"]: one for one in jar(ferry, session)}
    assert shown["sid"]["http_only"] and shown["sid"]["host_only"] and shown["sid"]["expires_at"] is None
    assert (shown["far"]["secure"], shown["far"]["host_only"], shown["far"]["value"]) == (True, False, "x y")
    assert sent(ferry, f"{server.url}/", session) == b"sid=abc"
    written = ferry.call("GET", place, headers={"Accept": "text/plain"})
    assert written.headers["Content-Type"].startswith("text/plain")
    assert "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\tabc" in written.text.split("\n")
    again = ferry.call("PUT", place, data=written.content, headers={"Content-Type": "text/plain"})
    assert again.status_code == 200 and {one["name"] for one in jar(ferry, session)} == {"sid", "far"}
    wrong = ferry.call("POST", place, data="a\tb\n", headers={"Content-Type": "text/plain"})
    assert wrong.status_code == 422 and "1" in wrong.text, wrong.text
    assert ferry.call("POST", place, data="a", headers={"Content-Type": "text/html"}).status_code == 415


@pytest.mark.parametrize("cookie, pointer", [
    ({"value": "1", "domain": "a.example"}, "#/data/0/name"), ({"name": "a", "value": "1"}, "#/data/0/domain"),
    ({"name": "a", "value": "1", "domain": "com", "host_only": False}, "#/data/0/host_only"),
    ({"name": "a;b", "value": "1", "domain": "a.example"}, "#/data/0/name"),
    ({"name": "a", "value": "1\n", "domain": "a.example"}, "#/data/0/name"),
    ({"name": "a", "value": 1, "domain": "a.example"}, "#/data/0/value"),
    ({"name": "a", "value": "1", "domain": "a.example", "path": "p"}, "#/data/0/path"),
    ({"name": "a", "value": "1", "domain": "a.example", "color": 1}, "#/data/0/color"),
    ({"name": "a", "value": "x" * 5_000, "domain": "a.example"}, "#/data/0"),
    ({"name": "__Host-a", "value": "1", "domain": "a.example"}, "#/data/0"),
])
def test_wrong_cookies(ferry, session, cookie, pointer):
    fine = {"name": "fine", "value": "1", "domain": "a.example"}
    for method in ("PUT", "POST"):
        answer = ferry.call(method, f"/v1/sessions/{session}/cookies", json={"data": [cookie, fine]})
        assert answer.status_code == 422, answer.text
        assert any(one["pointer"].startswith(pointer) for one in answer.json()["errors"]), answer.text
    assert jar(ferry, session) == []


def test_viewers_see_no_values(ferry, session):
    place = f"/v1/sessions/{session}/cookies"
    ferry.call("PUT", place, json={"data": [{"name": "a", "value": "secret-value", "domain": "a.example"}]})
    made = ferry.call("POST", "/v1/admin/keys", json={"name": "cookies", "role": "viewer"}).json()
    viewer = Ferry(ferry.url, made["key"], ferry.data, ferry.process)
    assert [(one["name"], one["value"]) for one in jar(viewer, session)] == [("a", None)]
    text = viewer.call("GET", place, headers={"Accept": "text/plain"})
    assert "secret-value" not in text.text
    for method in ("PUT", "POST", "DELETE"):
        assert viewer.call(method, place, json={"data": []}).status_code == 403


def test_reset_and_flush(ferry, session, server):
    server.sets["/a"] = [b"a=1; Path=/"]
    sent(ferry, f"{server.url}/a", session)
    before = server.connections
    sent(ferry, f"{server.url}/", session)
    assert server.connections == before
    flushed = ferry.call("POST", f"/v1/sessions/{session}/flush")
    assert flushed.status_code == 200 and flushed.json()["identifier"] == session
    assert sent(ferry, f"{server.url}/", session) == b"a=1"
    assert server.connections == before + 1
    reset = ferry.call("POST", f"/v1/sessions/{session}/reset")
    assert reset.status_code == 200 and reset.json()["identifier"] == session
    assert jar(ferry, session) == [] and sent(ferry, f"{server.url}/", session) == b""
    for verb in ("reset", "flush"):
        assert ferry.call("POST", f"/v1/sessions/never-used-one/{verb}").status_code == 404
        answer = ferry.call("POST", f"/v1/sessions/{session}/{verb}", json={"x": 1})
        assert answer.status_code == 422, answer.text


def test_a_session_of_the_same_name_begins_without_cookies(ferry, server):
    name = f"again-{time.monotonic_ns()}"
    server.sets["/a"] = [b"a=1; Path=/"]
    for _ in range(2):
        assert ferry.call("PUT", f"/v1/sessions/{name}", json={}).status_code == 201
        assert jar(ferry, name) == []
        assert sent(ferry, f"{server.url}/a", name) == b""
        assert len(jar(ferry, name)) == 1
        ferry.call("POST", f"/v1/sessions/{name}/invalidate", json={"mode": "finish"})
        eventually(60, lambda: ferry.call("GET", f"/v1/sessions/{name}").json()["ended_at"], "the session ends")
        assert ferry.call("DELETE", f"/v1/sessions/{name}").status_code == 204


def test_a_thousand_jobs_at_once(ferry, session, server):
    for index in range(50):
        server.sets[f"/{index}"] = [f"c{index}={index}; Path=/".encode()]
    jobs = [get(f"{server.url}/{index % 50}?{index}", session) for index in range(1_000)]
    made = ferry.call("POST", "/v1/jobs/batch", json={"jobs": jobs})
    assert made.status_code == 201, made.text
    for one in made.json()["data"]:
        assert ended(ferry, one["id"])["state"] == "succeeded"
    assert len(jar(ferry, session, limit=500)) == 50
    assert len(sent(ferry, f"{server.url}/", session).split(b"; ")) == 50


def test_any_node_sends_them(server):
    """After each job of one node, the next job runs at the other one, and sends what the first was given."""
    with running() as first, second_node(first) as second:
        assert first.call("PUT", "/v1/sessions/s", json={}).status_code == 201
        server.sets |= {f"/{index}": [f"last={index}; Path=/".encode()] for index in range(40)}
        for index in range(40):
            node = (first, second)[index % 2]
            expected = b"" if index == 0 else f"last={index - 1}".encode()
            assert sent(node, f"{server.url}/{index}", "s") == expected, index
        assert first.call("DELETE", "/v1/sessions/s/cookies").status_code == 204
        assert sent(second, f"{server.url}/", "s") == b"" and jar(second, "s") == []
        second.call("POST", "/v1/sessions/s/cookies",
                    json={"data": [{"name": "k", "value": "v", "domain": "127.0.0.1"}]})
        assert sent(first, f"{server.url}/", "s") == b"k=v"


def test_cookies_survive_a_kill_and_are_stored_encrypted(server):
    with running(status=-9, FERRY_LOG_LEVEL="debug") as ferry:
        assert ferry.call("PUT", "/v1/sessions/s", json={}).status_code == 201
        secret = "Zq8TreasureIsland"
        server.sets["/a"], server.is_quiet = [f"sid={secret}; Path=/".encode()], True
        sent(ferry, f"{server.url}/a", "s")
        second = killed_and_started(ferry)
        try:
            sent(ferry, f"{server.url}/", "s")
            assert server.sent("/") == [f"sid={secret}".encode()]
            assert [one["value"] for one in jar(ferry, "s")] == [secret]
        finally:
            second.kill()
            second.wait()
        found = subprocess.run(["grep", "-rla", secret, str(ferry.data)], capture_output=True, text=True)
        # The database may remove files of its own meanwhile.
        assert found.stdout == ""

"""Credentials of sessions: nginx and Apache ask for them, and scripted origins note what they get."""
from __future__ import annotations

import base64
import contextlib
import http.server
import pathlib
import shutil
import subprocess
import threading

import pytest

from conftest import Ferry, eventually, free_port, killed_and_started, made_folder, missing, running
from object_jobs import content, ended, failed, submit, succeeded
from origins import APACHE_MODULES, _process
from test_content_store import second_node

PASSWORD = "an-unusual-pass-phrase"
BASIC = "Basic " + base64.b64encode(f"anna:{PASSWORD}".encode()).decode()


class Origin(http.server.ThreadingHTTPServer):
    """Demands Basic authentication of anna below /p/; notes path and Authorization of each request. `/to/URL`
    redirects."""
    daemon_threads = True
    password = PASSWORD

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str | None]] = []
        self.lock = threading.Lock()

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sent(self) -> list[str | None]:
        """The Authorization fields since the last call."""
        with self.lock:
            seen, self.seen = self.seen, []
        return [field for _, field in seen]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        field = self.headers.get("Authorization")
        with self.server.lock:
            self.server.seen.append((self.path, field))
        right = "Basic " + base64.b64encode(f"anna:{self.server.password}".encode()).decode()
        if "/to/" in self.path:
            return self.answer(302, b"", Location=self.path.split("/to/", 1)[1])
        if self.path.startswith("/p/") and field != right:
            return self.answer(401, b"who?", **{"WWW-Authenticate": 'Basic realm="files"'})
        self.answer(200, b"welcome")

    def answer(self, status: int, body: bytes, **fields: str):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    server = Origin()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture()
def origin():
    with serving() as server:
        yield server


@pytest.fixture()
def other():
    with serving() as server:
        yield server


def space(port: int, **members) -> dict:
    return {"scheme": "http", "host": "127.0.0.1", "port": port} | members


def put(service: Ferry, session: str, name: str, port: int, password: str = PASSWORD, **members) -> dict:
    made = service.call("PUT", f"/v1/sessions/{session}", json={})
    assert made.status_code in (200, 201), made.text
    body = {"protection_space": space(port), "user": "anna", "password": password} | members
    stored = service.call("PUT", f"/v1/sessions/{session}/credentials/{name}", json=body)
    assert stored.status_code in (200, 201), stored.text
    return stored.json()


def get(url: str, session: str, **fields) -> dict:
    return {"kind": "download", "session": session, "request": {"url": url}} | fields


def test_a_challenge_is_answered_and_later_jobs_are_not_asked(ferry, origin):
    put(ferry, "one", "files", origin.port, protection_space=space(origin.port, realm="files"))
    job = succeeded(ferry, get(f"{origin.url}/p/a/x", "one"))
    assert content(ferry, job) == b"welcome" and job["attempt"] == 1
    assert origin.sent() == [None, BASIC]
    succeeded(ferry, get(f"{origin.url}/p/a/b/y", "one"))
    succeeded(ferry, get(f"{origin.url}/open", "one"))
    assert origin.sent() == [BASIC, None]
    failed(ferry, get(f"{origin.url}/p/a/x", "default"), "authentication_required", "401")
    assert origin.sent() == [None]


def test_no_other_origin_gets_the_credential(ferry, origin, other):
    put(ferry, "two", "files", origin.port)
    succeeded(ferry, get(f"{origin.url}/p/x", "two"))
    assert origin.sent() == [None, BASIC]
    for sends in (False, True):
        job = get(f"{origin.url}/p/to/{other.url}/p/x", "two", redirects={"send_credentials_across_origins": sends})
        failed(ferry, job, "authentication_required", "401")
    succeeded(ferry, get(f"{origin.url}/p/y", "two", mirrors=[f"{other.url}/p/y"]))
    assert other.sent() and set(other.sent()) <= {None}
    localhost = get(f"http://localhost:{origin.port}/p/x", "two")
    origin.sent()
    failed(ferry, localhost, "authentication_required", "401")
    assert origin.sent() == [None]


def test_changes_hold_for_the_next_job(ferry, origin):
    put(ferry, "three", "files", origin.port, password="wrong")
    failed(ferry, get(f"{origin.url}/p/x", "three"), "authentication_required", "401")
    assert len(origin.sent()) == 2
    put(ferry, "three", "files", origin.port)
    succeeded(ferry, get(f"{origin.url}/p/x", "three"))
    origin.sent()
    assert ferry.call("DELETE", "/v1/sessions/three/credentials/files").status_code == 204
    failed(ferry, get(f"{origin.url}/p/x", "three"), "authentication_required", "401")
    assert origin.sent() == [None]


def test_the_jobs_own_credential_wins(ferry, origin):
    put(ferry, "four", "files", origin.port)
    own = {"url": f"{origin.url}/p/x", "auth": {"type": "basic", "user": "anna", "password": "own"}}
    failed(ferry, {"kind": "download", "session": "four", "request": own}, "authentication_required", "401")
    assert origin.sent() == ["Basic " + base64.b64encode(b"anna:own").decode()]


def test_a_refused_credential_is_proposed(ferry, origin):
    put(ferry, "five", "files", origin.port, password="wrong")
    job = submit(ferry, get(f"{origin.url}/p/x", "five", on_challenge="ask"))

    def look():
        shown = ferry.call("GET", f"/v1/jobs/{job['id']}").json()
        return shown if shown["waiting_for"] == "challenge" else None

    challenge = eventually(30, look, "the job asks")["question"]["challenge"]
    assert challenge["proposed_credential"] == {"name": "files", "user": "anna"}
    assert challenge["previous_failure_count"] == 1
    answer = {"disposition": "use_credential", "credential": {"user": "anna", "password": PASSWORD}}
    assert ferry.call("POST", f"/v1/jobs/{job['id']}/challenge", json=answer).status_code == 200
    assert ended(ferry, job["id"])["state"] == "succeeded"


def test_credentials_outlast_a_crash_and_are_nowhere_in_plain(origin):
    with running(status=-9, FERRY_LOG_LEVEL="trace") as service:
        put(service, "kept", "files", origin.port)
        listed = service.call("GET", "/v1/sessions/kept/credentials")
        assert PASSWORD not in listed.text and listed.json()["data"][0]["password"] == {"set": True}
        succeeded(service, get(f"{origin.url}/p/x", "kept"))
        origin.sent()
        second = killed_and_started(service)
        try:
            succeeded(service, get(f"{origin.url}/p/x", "kept"))
            assert origin.sent() == [None, BASIC]
            shown = service.call("GET", "/v1/sessions/kept/credentials/files")
            assert shown.status_code == 200 and PASSWORD not in shown.text
        finally:
            second.terminate()
            second.wait(60)
        secrets = [PASSWORD.encode(), BASIC.split(" ")[1].encode()]
        for path in service.data.rglob("*"):
            if path.is_file():
                assert not any(secret in path.read_bytes() for secret in secrets), path


def test_permanent_credentials_outlast_their_session(ferry, origin):
    put(ferry, "six", "brief", origin.port)
    put(ferry, "six", "files", origin.port, persistence="permanent")
    assert ferry.call("POST", "/v1/sessions/six/invalidate", json={"mode": "finish"}).status_code == 200
    eventually(30, lambda: ferry.call("GET", "/v1/sessions/six").json()["ended_at"], "the session ends")
    assert ferry.call("DELETE", "/v1/sessions/six").status_code == 204
    assert ferry.call("GET", "/v1/sessions/six/credentials/files").status_code == 404
    assert ferry.call("PUT", "/v1/sessions/six", json={}).status_code == 201
    names = [one["name"] for one in ferry.call("GET", "/v1/sessions/six/credentials").json()["data"]]
    assert names == ["files"]
    succeeded(ferry, get(f"{origin.url}/p/x", "six"))


def test_another_node_uses_what_is_stored_at_the_submission(origin):
    """The second node hears of no change: it learns of it with the job that it leases."""
    with running(FERRY_ROLES="api,webhooks") as first, \
            second_node(first, FERRY_ROLES="worker", FERRY_NOTIFY="off"):
        for _ in range(3):
            put(first, "s", "files", origin.port)
            succeeded(first, get(f"{origin.url}/p/x", "s"))
            assert origin.sent()[-1] == BASIC
            assert first.call("DELETE", "/v1/sessions/s/credentials/files").status_code == 204
            failed(first, get(f"{origin.url}/p/x", "s"), "authentication_required", "401")
            assert set(origin.sent()) == {None}


@contextlib.contextmanager
def _nginx(folder: pathlib.Path):
    """Basic authentication below /b/. Gives the port."""
    port = free_port()
    folder.chmod(0o755)
    (folder / "b").mkdir()
    (folder / "b" / "x").write_text("nginx")
    words = subprocess.run(["openssl", "passwd", "-apr1", PASSWORD], check=True, capture_output=True, text=True)
    (folder / "users").write_text(f"anna:{words.stdout}")
    paths = "\n".join(f"{name}_temp_path {folder}/{name};" for name in
                      ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(f"""
        daemon off; master_process off; pid {folder}/pid; events {{ worker_connections 64; }}
        http {{ access_log off; {paths}
          server {{ listen 127.0.0.1:{port}; root {folder};
            location /b/ {{ auth_basic "nginx"; auth_basic_user_file {folder}/users; }} }} }}
        """)
    with _process(["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"], port):
        yield port


@contextlib.contextmanager
def _apache(folder: pathlib.Path):
    """Digest authentication below /d/; notes requests in `access`. Gives the port, or None without Apache."""
    program = shutil.which("apache2")
    if not program or not APACHE_MODULES.exists():
        yield None
        return
    port = free_port()
    folder.chmod(0o755)
    (folder / "files" / "d").mkdir(parents=True)
    (folder / "files" / "d" / "x").write_text("apache")
    digest = subprocess.run(["md5sum"], input=f"anna:apache:{PASSWORD}", check=True, capture_output=True, text=True)
    (folder / "users").write_text(f"anna:apache:{digest.stdout.split()[0]}\n")
    modules = "\n".join(f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so" for name in (
        "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_digest"))
    (folder / "httpd.conf").write_text(f"""
        {modules}
        ServerRoot {folder}
        ServerName localhost
        PidFile {folder}/pid
        ErrorLog {folder}/error.log
        LogFormat "%>s" status
        CustomLog {folder}/access status
        User www-data
        Group www-data
        Listen 127.0.0.1:{port}
        DocumentRoot {folder}/files
        <Directory {folder}/files>
          Require all granted
        </Directory>
        <Location /d/>
          AuthType Digest
          AuthName apache
          AuthDigestDomain /d/
          AuthUserFile {folder}/users
          Require valid-user
        </Location>
        """)
    with _process([program, "-D", "FOREGROUND", "-f", f"{folder}/httpd.conf"], port):
        yield port


def test_nginx_asks_for_basic(ferry):
    folder = made_folder()
    with _nginx(folder) as port:
        put(ferry, "nginx", "web", port)
        for _ in range(2):
            assert content(ferry, succeeded(ferry, get(f"http://127.0.0.1:{port}/b/x", "nginx"))) == b"nginx"
    shutil.rmtree(folder, ignore_errors=True)


def test_apache_asks_for_digest_once(ferry):
    folder = made_folder()
    with _apache(folder) as port:
        if port is None:
            missing("apache2")
        put(ferry, "apache", "web", port, protection_space=space(port, realm="apache", method="digest"))
        for _ in range(3):
            job = succeeded(ferry, get(f"http://127.0.0.1:{port}/d/x", "apache"))
            assert content(ferry, job) == b"apache"
            attempts = ferry.call("GET", f"/v1/jobs/{job['id']}/attempts").json()["data"]
            assert len(attempts) == 1
        statuses = (folder / "access").read_text().split()
        assert statuses == ["401", "200", "200", "200"]
    shutil.rmtree(folder, ignore_errors=True)

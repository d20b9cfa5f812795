"""docker-compose.yml, the Dockerfile and the proxy's configuration, without a Docker daemon."""
from __future__ import annotations

import base64
import fnmatch
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest
import yaml

from conftest import REPOSITORY, binary, eventually, free_port, missing


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())


@pytest.fixture(scope="module")
def dockerfile():
    text = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_start_order(compose):
    services = compose["services"]
    assert services["migrate"]["command"] == ["migrate"]
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["ferry"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["proxy"]["depends_on"]["ferry"]["condition"] == "service_healthy"
    assert "healthcheck" in services["postgres"] and services["migrate"]["restart"] == "no"


@pytest.mark.parametrize("name", ["ferry", "migrate", "proxy"])
def test_services_are_closed(compose, name):
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service and service.get("network_mode") != "host"


def test_only_the_proxy_is_published_and_only_here(compose):
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert published == {"proxy": ["127.0.0.1:8080:8080"]}
    assert compose["networks"]["database"]["internal"] is True
    assert "database" not in compose["services"]["proxy"]["networks"]


def test_secrets_come_from_files_that_git_does_not_know(compose):
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|KEY|SECRET|DATABASE_URL", variable):
                assert variable.endswith("_FILE") and value.startswith("/run/secrets/"), f"{name}: {variable}"
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    for secret in compose["secrets"].values():
        assert secret["file"].startswith("./deploy/secrets/")
    assert "secrets/" in (REPOSITORY / "deploy/.gitignore").read_text().splitlines()


def test_every_secret_is_one_that_ferry_reads_from_a_file(compose):
    source = (REPOSITORY / "Sources/FerryServer/Configuration/Configuration.swift").read_text()
    handed_over = compose["services"]["ferry"]["environment"]
    assert handed_over["FERRY_WEBHOOK_SECRET_FILE"] == "/run/secrets/webhook_secret", "nobody would ever be shown it"
    for variable in handed_over:
        if variable.endswith("_FILE"):
            name = variable.removesuffix("_FILE")
            assert re.search(rf'Setting\(\s*"{name}"(?:(?!Setting\().)*?isSecret: true', source, re.DOTALL), name


def test_make_secrets_makes_what_compose_hands_over(compose, tmp_path):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(REPOSITORY / "scripts/make-secrets", tmp_path / "scripts")
    folder = tmp_path / "deploy/secrets"

    def made() -> dict[str, str]:
        subprocess.run([script], check=True, capture_output=True)
        return {path.name: path.read_text() for path in folder.iterdir()}

    first = made()
    assert set(first) == {pathlib.Path(secret["file"]).name for secret in compose["secrets"].values()}
    prefix, key = first["webhook_secret"].strip().split("_")
    assert prefix == "whsec" and len(base64.b64decode(key, validate=True)) == 32
    assert made() == first, "what is there stays"
    # Of an installation that is older than this secret.
    (folder / "webhook_secret").unlink()
    second = made()
    assert second.pop("webhook_secret") != first.pop("webhook_secret") and second == first


def said(path: str, pattern: str) -> list[float]:
    """The numbers that a source names in this place, which it has once."""
    target, _, name = path.partition("/")
    source, = (REPOSITORY / "Sources" / target).rglob(name)
    found = re.findall(pattern, source.read_text())
    assert len(found) == 1, f"{path}: {pattern}"
    return [float(number) for number in ([found[0]] if isinstance(found[0], str) else found[0])]


def test_there_is_time_to_stop(compose):
    """After its drain the parts end, one after the other (`Application.end`), each with a limit of its own; what hangs
    is given up when they should all be through (`ShutdownWatchdog`). The private PostgreSQL ends last, and then the log."""
    drain, = said("FerryServer/Configuration.swift", r'"FERRY_DRAIN_SECONDS", "[^"]*", "(\d+)"')
    serve = "FerryServer/Serve.swift"
    parts, = said(serve, r"stopSeconds = ([\d.]+)")
    assert parts > sum(
        said("FerryEngine/Engine.swift", r"releaseSeconds = ([\d.]+)")
        + said("FerryWebhooks/WebhookSender.swift", r"graceSeconds: Double = (\d+)")
        + said("FerryServer/Application.swift", r"server\.drain\(seconds: (\d+)\)")
        + said("FerryEngine/FileThreadPool.swift", r"func stop\(seconds: Double = (\d+)\)")
        + said("HTTPServer/Server.swift", r"func stop\(seconds: Double = (\d+)\)"))
    postgres, = said("FerryServer/PrivatePostgres.swift", r"stopSeconds: Int64 = (\d+)")
    assert postgres >= sum(said("FerryServer/PrivatePostgresOwner.swift",
                                r"\(SIGINT, Int64\((\d+)\)\), \(SIGQUIT, (\d+)\), \(SIGKILL, (\d+)\)"))
    log, = said(serve, r"logMilliseconds: Int32 = (\d+)_000")
    most = drain + parts + postgres + log
    unit = (REPOSITORY / "deploy/ferry.service").read_text()
    assert float(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[1]) > most

    def grace(name: str) -> float:
        return float(compose["services"][name]["stop_grace_period"].removesuffix("s"))

    assert grace("ferry") > most
    # It only waits for its clients: those that listen to events would stay for ever.
    assert grace("proxy") > drain


def test_no_log_grows_without_end(compose):
    for name, service in compose["services"].items():
        assert {"max-size", "max-file"} <= set(service["logging"]["options"]), name


def test_every_name_that_is_used_is_defined(compose):
    for service in compose["services"].values():
        assert set(service["networks"]) <= set(compose["networks"])
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (REPOSITORY / source).exists() if source.startswith(".") else source in compose["volumes"]


def test_the_image_is_small_and_unprivileged(dockerfile):
    stages = [line.split()[1] for line in dockerfile if line.startswith("FROM ")]
    assert stages == ["swift:6.3-bookworm", "debian:bookworm-slim"]
    final = dockerfile[max(i for i, line in enumerate(dockerfile) if line.startswith("FROM ")):]
    user = next(line for line in final if line.startswith("USER "))
    assert user.split()[1].split(":")[0] not in ("root", "0")
    assert 'ENTRYPOINT ["ferry"]' in final and 'CMD ["serve"]' in final and "STOPSIGNAL SIGTERM" in final
    health = next(line for line in final if line.startswith("HEALTHCHECK"))
    assert health.endswith('CMD ["ferry", "healthcheck"]')
    # Every file that is copied is let through to the daemon.
    let_through = (REPOSITORY / ".dockerignore").read_text().split()
    for line in dockerfile:
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert f"!{source}" in let_through and (REPOSITORY / source).exists()


def is_let_through(path: str) -> bool:
    """What .dockerignore says of a path: the last line that names it, or a folder above it, decides."""
    parts, verdict = path.split("/"), True
    for line in (REPOSITORY / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!").split("/")
        named = len(pattern) <= len(parts) and all(map(fnmatch.fnmatchcase, parts, pattern))
        verdict = line.startswith("!") if named else verdict
    return verdict


def test_the_package_is_whole_in_the_image(dockerfile, tmp_path):
    """The recipe's COPY lines before the build bring every target's folder: SwiftPM refuses anything less."""
    build = next(i for i, line in enumerate(dockerfile) if line.startswith("RUN swift build"))
    copies = [line.split()[1:] for line in dockerfile[:build] if line.startswith("COPY ")]
    for *sources, destination in copies:
        for source in sources:
            target = tmp_path / destination / (pathlib.Path(source).name if destination.endswith("/") else "")
            if (REPOSITORY / source).is_file():
                assert is_let_through(source), f"{source} does not reach the daemon"
                shutil.copy(REPOSITORY / source, target)
                continue
            shutil.copytree(REPOSITORY / source, target, symlinks=True, ignore=lambda folder, names: [
                name for name in names
                if not is_let_through(str((pathlib.Path(folder) / name).relative_to(REPOSITORY)))])
    said = subprocess.run(["swift", "package", "describe"], cwd=tmp_path, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "Name: ferry" in said.stdout


def test_the_image_has_the_libraries_of_the_build(dockerfile):
    installs = " ".join(line for line in dockerfile if "apt-get install" in line)
    for development, runtime in {"libmicrohttpd-dev": "libmicrohttpd12", "libcurl4-openssl-dev": "libcurl4",
                                 "libpq-dev": "libpq5", "libssl-dev": "libssl3",
                                 "zlib1g-dev": "zlib1g", "libbrotli-dev": "libbrotli1",
                                 "libidn2-dev": "libidn2-0", "libpsl-dev": "libpsl5"}.items():
        assert development in installs and runtime in installs
        assert development in (REPOSITORY / "scripts/install-system-packages").read_text()


def test_the_unit_is_hardened():
    unit = (REPOSITORY / "deploy/ferry.service").read_text()
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "User=ferry", "KillMode=mixed"):
        assert line in unit.splitlines()


def test_the_unit_starts_ferry_again_however_long_the_database_is_away():
    unit = (REPOSITORY / "deploy/ferry.service").read_text()
    sections = {section: body.splitlines() for section, body in re.findall(r"^\[(\w+)\]\n([^[]*)", unit, re.MULTILINE)}
    assert "StartLimitIntervalSec=0" in sections["Unit"]
    assert {"Restart=on-failure", "RestartPreventExitStatus=2"} <= set(sections["Service"])

    def ends_with(**settings: str) -> int:
        with tempfile.TemporaryDirectory() as data:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("FERRY_")}
            return subprocess.run([binary(), "serve"], env=environment | {"FERRY_DATA_DIR": data} | settings,
                                  capture_output=True, timeout=120).returncode

    assert ends_with(FERRY_DATABASE_URL=f"postgresql://127.0.0.1:{free_port()}/none") == 1, "it is tried again"
    assert ends_with(FERRY_LISTEN="nowhere") == 2, "it is not"


def test_the_unit_lets_ferry_ask_for_its_own_addresses():
    """getifaddrs(3) needs AF_NETLINK; without it every address counts as the service's own."""
    unit = (REPOSITORY / "deploy/ferry.service").read_text()
    families = re.search(r"^RestrictAddressFamilies=(.*)$", unit, re.MULTILINE)[1].split()
    assert set(families) == {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}


def test_the_unit_says_how_to_write_elsewhere():
    unit, page = (REPOSITORY / "deploy/ferry.service").read_text(), (REPOSITORY / "docs/operations.md").read_text()
    lines = ["[Service]", "ReadWritePaths=/srv/ferry"]
    assert "\n".join(f"#   {line}" for line in lines) in unit
    assert "\n".join(f"  {line}" for line in lines) in page


def test_the_proxy_lets_fewer_requests_through_than_ferry_has_connections():
    text = (REPOSITORY / "deploy/nginx.conf").read_text()

    def number(directive: str) -> int:
        found = re.findall(rf"^\s*{directive} (\d+);", text, re.MULTILINE)
        assert len(found) == 1, directive
        return int(found[0])

    requests, idle = number("limit_conn service"), number("keepalive")
    settings = (REPOSITORY / "Sources/FerryServer/Configuration/Configuration.swift").read_text()
    connections = int(re.search(r'"FERRY_HTTP_CONNECTIONS", "[^"]*", "(\d+)"', settings)[1])
    limits = next(REPOSITORY.glob("Sources/FerryCore/**/Limits.swift")).read_text()
    streams = int(re.search(r"eventListenerCountMax = ([\d_]+)", limits)[1])
    assert streams < requests < connections - number("worker_processes") * idle
    # Two of each request, and what is kept; one worker may have them all.
    assert 2 * requests + idle <= number("worker_connections") <= number("worker_rlimit_nofile")
    assert f"{requests:,} (`limit_conn`)" in (REPOSITORY / "docs/limits.md").read_text()
    # All clients of the compose file have one address.
    assert re.findall(r"^\s*limit_conn_zone (\S+)", text, re.MULTILINE) == ["ferry"]


# The proxy, running.

# That many are under way at most: a few instead of 1,800.
REQUESTS = 8
NO_KEY = "Bearer none"


class Upstream(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), UpstreamHandler)
        self.seen = []
        self.is_away = False
        # The end of all streams.
        self.ending = threading.Event()


class UpstreamHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.server.is_away:
            self.close_connection = True
            return None
        self.server.seen.append((self.path, self.headers))
        if self.path == "/v1/events":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.server.ending.wait(600)
            self.wfile.write(b"0\r\n\r\n")
            return None
        if self.path == "/v1/jobs/none":
            return self.answer(404, b'{"code":"not_found","detail":"ours"}', "application/problem+json")
        self.answer(200, b"{}", "application/json")

    def do_POST(self):
        if self.server.is_away:
            self.close_connection = True
            return None
        if self.headers["Authorization"] == NO_KEY:
            # As Ferry does it: before the body is there.
            self.rfile.read(1)
            self.close_connection = True
            return self.answer(401, b'{"code":"unauthorized"}', "application/problem+json")
        self.server.seen.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(201, b"{}", "application/json")

    do_PUT = do_POST

    def answer(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if not nginx:
        missing("nginx")
    folder, port, upstream = tmp_path_factory.mktemp("nginx"), free_port(), Upstream()
    threading.Thread(target=upstream.serve_forever, args=(0.02,), daemon=True).start()
    text = (REPOSITORY / "deploy/nginx.conf").read_text()
    for name, here in {"server ferry:8080": f"server 127.0.0.1:{upstream.server_port}", "/tmp/": f"{folder}/",
                       "listen 8080": f"listen 127.0.0.1:{port}", "/dev/stdout": f"{folder}/access.log",
                       "error_log stderr": f"error_log {folder}/error.log",
                       "limit_conn service 1800": f"limit_conn service {REQUESTS}"}.items():
        assert name in text
        text = text.replace(name, here)
    configuration = folder / "nginx.conf"
    # As root the workers would run as another user, for whom pytest's folder is closed.
    configuration.write_text(text + ("\nuser root;\n" if folder.owner() == "root" else ""))
    check = subprocess.run([nginx, "-t", "-c", configuration], capture_output=True, text=True)
    assert check.returncode == 0 and "[warn]" not in check.stderr, check.stderr
    process = subprocess.Popen([nginx, "-c", configuration, "-g", "daemon off;"], stderr=subprocess.DEVNULL)

    def is_open():
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(120, is_open, "nginx")
        yield port, upstream
    finally:
        process.terminate()
        process.wait()
        upstream.shutdown()


def exchange(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(request)
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), fields, body


HEAD = b"Host: ferry\r\nConnection: close\r\n"
BATCH = b"x" * (2 << 20)
# Whatever the proxy refuses for reasons of its own, small and large.
REQUESTS_OF_ALL_SIZES = [
    b"GET /v1/jobs HTTP/1.1\r\n" + HEAD + b"\r\n",
    b"POST /v1/jobs/batch HTTP/1.1\r\nContent-Length: %d\r\n" % len(BATCH) + HEAD + b"\r\n" + BATCH,
]


def test_requests_arrive_as_they_were_sent(proxy):
    port, upstream = proxy
    status, _, _ = exchange(port, b"GET /v1/jobs/a%2Fb//c?x=%20 HTTP/1.1\r\nX-Forwarded-For: 6.6.6.6\r\n" + HEAD + b"\r\n")
    assert status == 200
    path, headers = upstream.seen[-1]
    assert path == "/v1/jobs/a%2Fb//c?x=%20"
    assert headers["X-Forwarded-For"] == "127.0.0.1" and headers["Host"] == "ferry"


def test_ferrys_own_problems_pass(proxy):
    status, fields, body = exchange(proxy[0], b"GET /v1/jobs/none HTTP/1.1\r\n" + HEAD + b"\r\n")
    assert (status, json.loads(body)["detail"]) == (404, "ours")


@pytest.mark.parametrize("name, request_bytes, status, code", [
    ("both framings", b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + HEAD
     + b"\r\n0\r\n\r\n", 400, "malformed_request"),
    ("two lengths", b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + HEAD + b"\r\nxx",
     400, "malformed_request"),
    ("unknown coding", b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" + HEAD + b"\r\n", 501,
     "unknown_transfer_encoding"),
    ("no host", b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "malformed_request"),
    ("two hosts", b"GET / HTTP/1.1\r\nHost: a\r\n" + HEAD + b"\r\n", 400, "malformed_request"),
    ("NUL in the target", b"GET /a%00b HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "malformed_request"),
    ("long line", b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 20_000 + b"\r\n" + HEAD + b"\r\n", 431,
     "headers_too_large"),
    ("long target", b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 414, "uri_too_long"),
    ("large body", b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 2000000\r\n" + HEAD + b"\r\n", 413,
     "body_too_large"),
    ("trace", b"TRACE / HTTP/1.1\r\n" + HEAD + b"\r\n", 405, "method_not_allowed"),
    ("other version", b"GET / HTTP/2.0\r\n" + HEAD + b"\r\n", 505, "http_version_not_supported"),
    ("its own path", b"GET /.problem HTTP/1.1\r\n" + HEAD + b"\r\n", 404, "not_found"),
], ids=lambda value: value if isinstance(value, str) and " " in value else "")
def test_what_is_refused_is_a_problem(proxy, name, request_bytes, status, code):
    port, upstream = proxy
    before = len(upstream.seen)
    answer, fields, body = exchange(port, request_bytes)
    assert answer == status, body
    problem = json.loads(body)
    assert fields["content-type"] == "application/problem+json"
    assert problem["code"] == code and problem["status"] == status
    assert problem["request_id"] == fields["x-request-id"]
    assert problem["title"] and problem["detail"].endswith(".")
    assert "retry-after" not in fields, "asking again does not help"
    assert len(upstream.seen) == before, "it must not reach Ferry"


def test_a_batch_may_be_large(proxy):
    port, upstream = proxy
    status, _, _ = exchange(port, REQUESTS_OF_ALL_SIZES[1])
    assert status == 201 and upstream.seen[-1] == ("/v1/jobs/batch", BATCH)


def test_an_upload_has_any_size_and_is_not_gathered(proxy):
    """The upstream answers after the first byte: no proxy that gathers a body passes that on before the rest is there."""
    status, _, body = exchange(proxy[0], b"PUT /v1/uploads/x HTTP/1.1\r\nContent-Length: %d\r\nAuthorization: %s\r\n"
                               % (1 << 40, NO_KEY.encode()) + HEAD + b"\r\nx")
    assert (status, json.loads(body)["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("path, length", [("/v1/jobs", 1 << 20), ("/v1/jobs/batch", 32 << 20)])
def test_a_body_is_refused_before_it_is_there(proxy, path, length):
    """Nobody without a key has a place for a body, in Ferry or in the proxy: this one never comes."""
    status, _, body = exchange(proxy[0], b"POST %s HTTP/1.1\r\nContent-Length: %d\r\nAuthorization: %s\r\n"
                               % (path.encode(), length, NO_KEY.encode()) + HEAD + b"\r\nx")
    assert (status, json.loads(body)["code"]) == (401, "unauthorized")


def test_what_is_beyond_the_limit_is_told_when_to_come_back(proxy):
    port, upstream = proxy
    streams = []
    try:
        for _ in range(REQUESTS):
            streams.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            streams[-1].sendall(b"GET /v1/events HTTP/1.1\r\nHost: ferry\r\n\r\n")
            assert streams[-1].recv(65536).startswith(b"HTTP/1.1 200 "), "the limit lets it through"
        for request in REQUESTS_OF_ALL_SIZES:
            status, fields, body = exchange(port, request)
            problem = json.loads(body)
            assert (status, problem["code"], fields["retry-after"]) == (503, "unavailable", "1")
            assert problem["status"] == 503 and problem["detail"].endswith(".")
    finally:
        upstream.ending.set()
        for stream in streams:
            stream.close()
    eventually(120, lambda: exchange(port, REQUESTS_OF_ALL_SIZES[0])[0] == 200, "room again")


@pytest.mark.parametrize("request_bytes", REQUESTS_OF_ALL_SIZES, ids=["small", "large"])
def test_a_ferry_that_is_away_is_a_problem_too(proxy, request_bytes):
    port, upstream = proxy
    upstream.is_away = True
    status, fields, body = exchange(port, request_bytes)
    problem = json.loads(body)
    assert (status, problem["code"], fields["retry-after"]) == (502, "bad_gateway", "1")
    assert fields["content-type"] == "application/problem+json" and problem["detail"].endswith(".")

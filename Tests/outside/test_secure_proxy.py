"""A proxy that is spoken to over TLS: its certificate, its credentials, and what passes it."""
from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading

import pytest

from origins import Authority, nginx

CREDENTIALS = b"Basic " + base64.b64encode("user:pass wörd".encode())


class Proxy:
    """CONNECT only, over TLS, for one user."""

    def __init__(self, authority: Authority):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(authority.folder / "server.pem", authority.folder / "server.key")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self.listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain: socket.socket):
        with contextlib.suppress(OSError), plain, self.context.wrap_socket(plain, server_side=True) as client:
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(65_536)
                if not more:
                    return
                head += more
            line = head.split(b"\r\n")[0]
            self.requests.append(line)
            if b"Proxy-Authorization: " + CREDENTIALS not in head:
                client.sendall(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
                return
            host, port = line.split(b" ")[1].decode().rsplit(":", 1)
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=self.pump, args=(server, client), daemon=True)
                back.start()
                self.pump(client, server)
                back.join()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while block := source.recv(65_536):
                sink.sendall(block)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture()
def proxy(authority):
    proxy = Proxy(authority)
    yield proxy
    proxy.listener.close()


@pytest.fixture(scope="module")
def port(authority, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nginx")
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    (folder / "file").write_bytes(b"x" * 3_000_000)
    with nginx(authority, folder, 1) as port:
        yield port


def run(ferry, url: str, authority: Authority, proxy: dict) -> dict:
    answer = ferry.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": "download", "retry": {"max_attempts": 1},
        "request": {"url": url, "tls": {"ca": authority.pem}, "proxy": proxy}})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_file_passes(ferry, authority, proxy, port):
    job = run(ferry, f"https://127.0.0.1:{port}/file", authority, {
        "url": proxy.url, "ca": authority.pem, "user": "user", "password": "pass wörd"})
    assert job["state"] == "succeeded" and job["result"]["size"] == 3_000_000, job
    assert proxy.requests == [f"CONNECT 127.0.0.1:{port} HTTP/1.1".encode()]
    assert job["request"]["proxy"] == {
        "url": proxy.url, "user": "user", "password": {"set": True}, "type": "basic", "ca": {"set": True},
        "no_proxy": []}


def test_its_certificate_counts(ferry, authority, proxy, port):
    job = run(ferry, f"https://127.0.0.1:{port}/file", authority, {
        "url": proxy.url, "user": "user", "password": "pass wörd"})
    assert job["error"]["code"] == "certificate_invalid" and job["error"]["phase"] == "connecting", job
    assert "proxy" in job["error"]["message"] and proxy.requests == []


def test_the_servers_certificate_still_counts(ferry, authority, proxy, port):
    job = run(ferry, f"https://127.0.0.1:{port}/file", authority, {
        "url": proxy.url, "ca": authority.pem, "user": "user", "password": "pass wörd"})
    assert job["state"] == "succeeded"
    answer = ferry.call("POST", "/v1/jobs", headers={"Prefer": "wait=60"}, json={
        "kind": "download", "retry": {"max_attempts": 1},
        "schedule": {"waits_for_connectivity": False}, "request": {
            "url": f"https://127.0.0.1:{port}/file",
            "proxy": {"url": proxy.url, "ca": authority.pem, "user": "user", "password": "pass wörd"}}})
    assert answer.json()["state"] == "failed"
    error = answer.json()["error"]
    # libcurl 7.88 loses OpenSSL's reason for a handshake inside another one.
    assert error["code"] in ("certificate_invalid", "tls_failed") and error["phase"] == "securing", error


def test_its_credentials_count(ferry, authority, proxy, port):
    job = run(ferry, f"https://127.0.0.1:{port}/file", authority, {"url": proxy.url, "ca": authority.pem})
    assert job["error"]["code"] == "authentication_required" and job["error"]["phase"] == "connecting", job

"""Servers for checks from outside: certificates by openssl, nginx, Caddy and Apache with TLS, httpbin without."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import sys

from conftest import eventually, free_port


@dataclasses.dataclass
class Authority:
    """A private authority, a certificate of it for 127.0.0.1 and localhost, and one for a client."""
    folder: pathlib.Path

    @property
    def pem(self) -> str:
        return (self.folder / "ca.pem").read_text()

    @property
    def client(self) -> dict[str, str]:
        """The client's certificate and key, as members of `tls`."""
        return {"client_certificate": (self.folder / "client.pem").read_text(),
                "client_key": (self.folder / "client.key").read_text()}

    @classmethod
    def make(cls, folder: pathlib.Path) -> Authority:
        def openssl(*words: str):
            subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=Outside")
        openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
        (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "30", "-extfile", "extensions", "-out", "server.pem")
        # For clients.
        openssl("req", *key, "-keyout", "client.key", "-out", "client.csr", "-subj", "/CN=client")
        openssl("x509", "-req", "-in", "client.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "30", "-out", "client.pem")
        return cls(folder)


def _is_open(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _process(command: list[str], port: int, **options):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        eventually(120, lambda: process.poll() is None and _is_open(port), f"{command[0]} listens")
        yield
    finally:
        process.terminate()
        process.wait(120)


@contextlib.contextmanager
def nginx(authority: Authority, folder: pathlib.Path, upstream: int, asks_client: bool = False):
    """HTTP/2 over TLS: files, `/put/`, and `/upstream/` from a server on that port. `asks_client`: only for clients
    with a certificate of the authority. Gives the port."""
    port = free_port()
    folder.chmod(0o755)
    (folder / "put").mkdir()
    (folder / "put").chmod(0o777)
    paths = "\n".join(f"{name}_temp_path {folder}/{name};" for name in
                      ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    verify = f"ssl_client_certificate {authority.folder}/ca.pem; ssl_verify_client on;" if asks_client else ""
    (folder / "nginx.conf").write_text(f"""
        daemon off; master_process off; pid {folder}/pid;
        events {{ worker_connections 1024; }}
        http {{
          access_log off; client_max_body_size 0; default_type application/octet-stream; {paths}
          server {{
            listen 127.0.0.1:{port} ssl http2; root {folder};
            ssl_certificate {authority.folder}/server.pem; ssl_certificate_key {authority.folder}/server.key;
            {verify}
            location /put/ {{ dav_methods PUT; }}
            location /upstream/ {{ proxy_http_version 1.1; proxy_buffering off; proxy_pass http://127.0.0.1:{upstream}; }}
          }}
        }}
        """)
    with _process(["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"], port):
        yield port


@contextlib.contextmanager
def caddy(authority: Authority, folder: pathlib.Path):
    """HTTP/3 beside HTTP/2 over TLS: files. Gives the port, or None where Caddy is not installed."""
    if not shutil.which("caddy"):
        yield None
        return
    port = free_port()
    (folder / "Caddyfile").write_text(f"""
        {{
          admin off
          auto_https off
        }}
        https://127.0.0.1:{port}, https://localhost:{port} {{
          bind 127.0.0.1
          tls {authority.folder}/server.pem {authority.folder}/server.key
          root * {folder}
          file_server
        }}
        """)
    command = ["caddy", "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]
    with _process(command, port, env={"HOME": str(folder), "PATH": os.environ["PATH"]}):
        yield port


APACHE_MODULES = pathlib.Path("/usr/lib/apache2/modules")


@contextlib.contextmanager
def apache(authority: Authority, folder: pathlib.Path):
    """TLS: files below `files`, `/put/` by WebDAV, `/slow/` at 1 MiB a second, `/coded/` with gzip. Gives the port, or
    None where Apache is not installed."""
    program = shutil.which("apache2")
    if not program or not APACHE_MODULES.exists():
        yield None
        return
    port = free_port()
    for name in ("files", "files/put", "files/slow", "files/coded"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    modules = "\n".join(f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so" for name in (
        "mpm_event", "authz_core", "dav", "dav_fs", "env", "filter", "deflate", "ratelimit", "mime", "ssl"))
    (folder / "mime.types").write_text("text/plain txt\n")
    (folder / "httpd.conf").write_text(f"""
        {modules}
        ServerRoot {folder}
        ServerName localhost
        PidFile {folder}/pid
        ErrorLog {folder}/error.log
        TypesConfig {folder}/mime.types
        DAVLockDB {folder}/files/locks
        User www-data
        Group www-data
        Listen 127.0.0.1:{port}
        DocumentRoot {folder}/files
        SSLEngine on
        SSLSessionCache none
        SSLCertificateFile {authority.folder}/server.pem
        SSLCertificateKeyFile {authority.folder}/server.key
        <Directory {folder}/files>
          Require all granted
        </Directory>
        <Location /put>
          Dav On
        </Location>
        <Location /slow>
          SetOutputFilter RATE_LIMIT
          SetEnv rate-limit 1024
        </Location>
        <Location /coded>
          SetOutputFilter DEFLATE
        </Location>
        """)
    with _process([program, "-DFOREGROUND", "-f", f"{folder}/httpd.conf"], port):
        yield port


HTTPBIN = """
import sys
from werkzeug.serving import WSGIRequestHandler, run_simple
import httpbin
# Chunked bodies, which HTTP/1.0 does not know.
WSGIRequestHandler.protocol_version = "HTTP/1.1"
run_simple("127.0.0.1", int(sys.argv[1]), httpbin.app, threaded=True)
"""


@contextlib.contextmanager
def httpbin():
    """httpbin.org on this machine. Gives its port."""
    port = free_port()
    with _process([sys.executable, "-c", HTTPBIN, str(port)], port):
        yield port


class Script:
    """A server whose every answer is a list of bytes by path; the connection is closed behind it."""

    def __init__(self):
        self.answers: dict[str, bytes] = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                head = connection.recv(65_536)
                path = head.split(b" ")[1].decode() if head else ""
                with contextlib.suppress(OSError):
                    connection.sendall(self.answers.get(path, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"))
                    # What was sent is to arrive before the end does.
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(5)
                    while connection.recv(65_536):
                        pass

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


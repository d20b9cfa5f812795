"""What the places of contents cost beside the tools that people use for them, in turn on the same servers:

copy    a file from one nginx to another: Ferry, `curl | curl -T -`
store   an upload to SeaweedFS and a copy to it: Ferry, boto3, rclone
stage   a staged upload: Ferry, nginx with client_body_in_file_only (neither syncs, then Ferry alone with syncs)
put     many small files: `ferry put`, a loop of `curl -T`

    .build/venv/bin/python Benchmarks/places/places.py [--ferry .build/release/ferry] [--only copy,store] [--mib 256]

Prints seconds of each turn, and Ferry's rate in parts of the best other one's. Servers and files are in memory
(/dev/shm), so that the disk is not measured. SeaweedFS keeps what is deleted: 30 times --mib have to fit there.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "Tests" / "outside"))

TURNS = 4


def timed(action) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def compare(title: str, contestants: dict, clean=lambda: None) -> None:
    """Runs each in turn. The first one is Ferry."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(TURNS):
        for name, action in contestants.items():
            clean()
            times[name].append(timed(action))
    # The first turn of each warms up.
    best = {name: sorted(values[1:])[(len(values) - 1) // 2] for name, values in times.items()}
    ferry, *others = best.items()
    print(f"{title}: " + ", ".join(f"{name} {'/'.join(f'{one:.2f}' for one in values)} s" for name, values in times.items()))
    print(f"{title}: {ferry[0]} has {min(value for _, value in others) / ferry[1]:.2f} of the best other rate", flush=True)


@contextlib.contextmanager
def nginx(folder: pathlib.Path):
    from conftest import eventually, free_port
    port = free_port()
    for name in ("files", "put", "staged"):
        (folder / name).mkdir()
    paths = " ".join(f"{name}_temp_path {folder}/tmp-{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(f"""daemon off; master_process off; pid {folder}/pid; user root;
events {{ worker_connections 1024; }}
http {{ access_log off; client_max_body_size 0; {paths} client_body_temp_path {folder}/staged; sendfile on;
  server {{ listen 127.0.0.1:{port}; root {folder};
    location /put/ {{ dav_methods PUT; }}
    location /stage {{ client_body_in_file_only on; proxy_pass http://127.0.0.1:{port}/done; proxy_pass_request_body off;
                       proxy_set_header Content-Length ""; }}
    location /done {{ return 200; }}
  }} }}""")
    process = subprocess.Popen(["nginx", "-p", str(folder), "-e", f"{folder}/errors", "-c", f"{folder}/nginx.conf"])
    try:
        url = f"http://127.0.0.1:{port}"
        eventually(20, lambda: subprocess.run(["curl", "-s", f"{url}/done"], check=False).returncode == 0, "nginx")
        yield url
    finally:
        process.terminate()
        process.wait()


def ended(ferry, job: dict) -> None:
    made = ferry.call("POST", "/v1/jobs", json=job)
    assert made.status_code == 201, made.text
    shown = made.json()
    while shown["state"] not in ("succeeded", "failed"):
        shown = ferry.call("GET", f"/v1/jobs/{shown['id']}", headers={"Prefer": "wait=60"}).json()
    assert shown["state"] == "succeeded", shown["error"]


def shell(command: str) -> None:
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def copy(folder: pathlib.Path, file: pathlib.Path) -> None:
    from conftest import running
    with nginx(folder) as url, running() as ferry:
        os.link(file, folder / "files" / "a")

        def clean():
            for one in (folder / "put").iterdir():
                one.unlink()

        job = {"kind": "upload", "source": {"url": f"{url}/files/a"}, "request": {"url": f"{url}/put/f"}}
        compare("copy", {"ferry": lambda: ended(ferry, job),
                         "curl": lambda: shell(f"curl -sf {url}/files/a | curl -sf -T - {url}/put/c")}, clean)


def store(folder: pathlib.Path, file: pathlib.Path) -> None:
    from conftest import running
    from stores import seaweedfs
    weeds = folder / "weed"
    weeds.mkdir()
    with nginx(folder) as url, seaweedfs(weeds) as weed, running() as ferry:
        os.link(file, folder / "files" / "a")
        bucket = weed.new_bucket()
        (ferry.data / "files").mkdir(exist_ok=True)
        shutil.copyfile(file, ferry.data / "files" / "a")
        settings = {"type": "s3", "provider": "Other", "endpoint": weed.url, "access_key_id": weed.access_key_id,
                    "secret_access_key": weed.secret_access_key, "force_path_style": "true", "no_check_bucket": "true"}
        os.environ |= {f"RCLONE_CONFIG_WEED_{name.upper()}": value for name, value in settings.items()}
        remote = f"weed:{bucket}"
        upload = {"kind": "upload", "source": {"path": "a"}, "destination": {"s3": weed.object(bucket, "f")}}
        copied = {"kind": "download", "request": {"url": f"{url}/files/a"}, "destination": {"s3": weed.object(bucket, "c")}}

        def clean():
            for one in weed.client().list_objects_v2(Bucket=bucket).get("Contents", []):
                weed.client().delete_object(Bucket=bucket, Key=one["Key"])

        compare("store", {
            "ferry": lambda: ended(ferry, upload),
            "boto3": lambda: weed.client().upload_file(str(file), bucket, "b"),
            "rclone": lambda: shell(f"rclone copyto -q {file} \"{remote}/r\"")}, clean)
        compare("copy to a store", {
            "ferry": lambda: ended(ferry, copied),
            "rclone": lambda: shell(f"rclone copyurl -q {url}/files/a \"{remote}/u\"")}, clean)


def stage(folder: pathlib.Path, file: pathlib.Path) -> None:
    from conftest import running

    def post(ferry) -> None:
        shell(f"curl -sf -X POST {ferry.url}/v1/uploads -H 'Authorization: Bearer {ferry.key}' "
              f"-H 'Content-Type: application/octet-stream' -H 'Expect:' -T {file}")

    with nginx(folder) as url, running(FERRY_FILE_SYNC="none") as ferry, running() as syncing:
        def clean():
            for one in (folder / "staged").rglob("*"):
                if one.is_file():
                    one.unlink()
            for one in (ferry, syncing):
                for upload in one.call("GET", "/v1/uploads").json()["data"]:
                    one.call("DELETE", f"/v1/uploads/{upload['id']}")

        compare("stage", {
            "ferry": lambda: post(ferry),
            "nginx": lambda: shell(f"curl -sf -X POST {url}/stage -H 'Expect:' -T {file}")}, clean)
        compare("stage with syncs", {
            "ferry": lambda: post(syncing),
            "nginx and fsync": lambda: shell(f"curl -sf -X POST {url}/stage -H 'Expect:' -T {file} && sync {folder}/staged")},
            clean)


def put(folder: pathlib.Path, _file: pathlib.Path) -> None:
    from conftest import binary, running
    files = folder / "small"
    with nginx(folder) as url, running(FERRY_FILE_SYNC="none") as ferry:
        files.mkdir()
        for number in range(1_000):
            (files / f"{number}").write_bytes(os.urandom(100 << 10))
        environment = os.environ | {"FERRY_URL": ferry.url, "FERRY_KEY": ferry.key}
        names = [str(one) for one in sorted(files.iterdir())]

        def clean():
            for one in (folder / "put").iterdir():
                one.unlink()

        compare("put", {
            "ferry": lambda: subprocess.run(
                [binary(), "put", *names, f"{url}/put/"], env=environment, check=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL),
            "curl": lambda: shell(f"for file in {files}/*; do curl -sf -T $file {url}/put/; done")}, clean)


PARTS = {"copy": copy, "store": store, "stage": stage, "put": put}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ferry", default=str(ROOT / ".build/release/ferry"))
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--mib", type=int, default=256)
    chosen = parser.parse_args()
    # Settings of the machine for Amazon S3 do not hold for a store of the benchmark.
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["FERRY_BINARY"] = str(pathlib.Path(chosen.ferry).resolve())
    memory = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm", prefix="ferry-places-"))
    memory.chmod(0o755)
    os.environ["TMPDIR"] = tempfile.tempdir = str(memory)
    try:
        file = memory / "file"
        with open(file, "wb") as large:
            for _ in range(chosen.mib):
                large.write(os.urandom(1 << 20))
        for name in chosen.only.split(","):
            folder = memory / name
            folder.mkdir()
            PARTS[name](folder, file)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(memory, ignore_errors=True)


if __name__ == "__main__":
    main()

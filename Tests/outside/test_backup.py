"""The commands of docs/database.md for backups, run as they stand there."""
from __future__ import annotations

import glob
import os
import pathlib
import re
import shutil
import subprocess

from conftest import REPOSITORY, binary, missing, running


def test_a_private_database_comes_back_from_its_dump(folder, receiver):
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        missing("PostgreSQL")
    page = (REPOSITORY / "docs/database.md").read_text()
    dump, restore = re.findall(r"(?s)```sh\n(.*?)```", page.partition("## Backup\n")[2].partition("\n## ")[0])

    def run(script: str, data: pathlib.Path):
        if os.geteuid() != 0:
            script = script.replace("runuser -u postgres -- ", "")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FERRY_")}
        environment |= {"FERRY_DATA_DIR": str(data), "PATH": f"{programs[-1]}:{binary().parent}:{os.environ['PATH']}"}
        said = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        assert said.returncode == 0, said.stderr

    receiver.files["/a"] = b"kept"
    with running() as ferry:
        job = ferry.call("POST", "/v1/jobs", json={"kind": "data", "request": {"url": f"{receiver.url}/a"}},
                         headers={"Prefer": "wait=60"}).json()
        assert job["state"] == "succeeded", job
        run(dump, ferry.data)
        restored = folder / "data"
        restored.mkdir(mode=0o755)
        shutil.copy(ferry.data / "secret.key", restored)
    run(restore, restored)
    with running(FERRY_DATA_DIR=str(restored)) as ferry:
        assert ferry.call("GET", f"/v1/jobs/{job['id']}").json() == job

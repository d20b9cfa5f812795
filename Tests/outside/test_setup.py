"""What the checks need: fetched where that is possible, and missed loudly where it should have been."""
from __future__ import annotations

import errno
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import REPOSITORY, binary, free_port, missing, refusing

APT = """#!/bin/sh
# Knows the package once there are lists, which it may write into its own folders alone.
for word; do case $word in Dir::State::Lists=*) lists=${word#*=} ;; esac; done
case "$*" in
    *update*) [ -n "$lists" ] && [ "$AWAY" = no ] && touch "$lists/known" ;;
    *download*) [ -n "$lists" ] && [ -e "$lists/known" ] && cp "$DEB" judge_1_all.deb ;;
esac || { echo "E: Unable to locate package judge" >&2; exit 100; }
"""


@pytest.fixture()
def debian(tmp_path):
    """An environment with an apt-get that has no lists yet, and a package `judge`."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("there is no dpkg here")
    (tmp_path / "bin").mkdir()
    apt = tmp_path / "bin/apt-get"
    apt.write_text(APT)
    apt.chmod(0o755)
    package = tmp_path / "judge"
    (package / "usr/bin").mkdir(parents=True)
    (package / "usr/bin/judge").write_text("#!/bin/sh\necho guilty\n")
    (package / "usr/bin/judge").chmod(0o755)
    (package / "DEBIAN").mkdir()
    (package / "DEBIAN/control").write_text(
        "Package: judge\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: judges\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", package, tmp_path / "judge.deb"], check=True,
                   capture_output=True)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "DEB": str(tmp_path / "judge.deb"), "AWAY": "no",
            "FETCHED_TOOLS": str(tmp_path / "tools")}


def fetch(environment: dict[str, str]) -> subprocess.CompletedProcess:
    return subprocess.run([REPOSITORY / "scripts/fetch-program", "judge", "judge"], env=environment, capture_output=True,
                          text=True)


def test_a_program_is_fetched_where_package_lists_are_missing(debian):
    said = fetch(debian)
    assert said.returncode == 0, said.stderr
    tools = pathlib.Path(debian["FETCHED_TOOLS"])
    assert subprocess.check_output([tools / "usr/bin/judge"], text=True) == "guilty\n"
    assert [path.name for path in tools.iterdir()] == ["usr"]
    assert fetch({**debian, "AWAY": "yes"}).returncode == 0, "it is there already"


def test_a_program_that_cannot_be_had_is_an_error_with_its_reason(debian):
    said = fetch({**debian, "AWAY": "yes"})
    assert said.returncode == 1
    assert "Unable to locate package judge" in said.stderr and "could not be fetched" in said.stderr


@pytest.mark.parametrize("has_apt, ends", [(True, pytest.fail.Exception), (False, pytest.skip.Exception)])
def test_what_is_missing_fails_on_a_debian_alone(monkeypatch, has_apt, ends):
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get" if has_apt and name == "apt-get" else None)
    with pytest.raises(ends, match="the judge is missing"):
        missing("the judge")


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize("command, status", [("serve", 1), ("check", 1)])
def test_nothing_starts_where_no_file_could_be_opened_later(tmp_path, command, status, error):
    tmp_path.chmod(0o755)
    environment = {**os.environ, "FERRY_DATA_DIR": str(tmp_path / "data"), "FERRY_LISTEN": f"127.0.0.1:{free_port()}"}
    said = subprocess.run([binary(), command], env=environment, capture_output=True, text=True, timeout=60,
                          preexec_fn=refusing({437: error}))
    assert said.returncode == status, said
    assert "Ferry opens files with openat2(2)" in said.stdout + said.stderr
    assert os.strerror(error) in said.stdout + said.stderr


def test_no_check_is_skipped_by_itself():
    for path in sorted((REPOSITORY / "Tests/outside").glob("test_*.py")):
        if path.name != pathlib.Path(__file__).name:
            assert "pytest.skip(" not in path.read_text(), path.name

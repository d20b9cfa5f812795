"""The pages say what the sources say."""
from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest

from conftest import REPOSITORY


def text(path: str) -> str:
    return (REPOSITORY / path).read_text()


def test_every_problem_is_explained():
    page = text("docs/errors.md")
    source = text("Sources/FerryAPI/Server/ProblemDetails.swift").split("var status")[0]
    codes = re.findall(r'case \w+ = "(\w+)"', source)
    for line in re.findall(r"^    case ([\w, ]+)$", source, re.MULTILINE):
        codes += line.split(", ")
    for file in (REPOSITORY / "Sources/HTTPServer").glob("*.swift"):
        codes += re.findall(r'(?:blame|refusal)\(\s*\d+, "(\w+)"', file.read_text())
    # The proxy's own, and those that it shares with Ferry.
    codes += re.findall(r'"code":"(\w+)"', text("deploy/nginx.conf"))
    assert len(codes) > 40
    assert [code for code in codes if f"`{code}`" not in page] == []


def test_every_event_is_explained():
    events = re.findall(r'case \w+ = "((?:job|session|group|host|webhook)\.\w+)"', text("Sources/FerryCore/States/EventType.swift"))
    assert events and [event for event in events if f"`{event}`" not in text("docs/events.md")] == []


def limits(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([REPOSITORY / "scripts/generate-limits", *arguments], capture_output=True, text=True)


def test_the_tables_of_limits_are_generated():
    said = limits("--check")
    assert said.returncode == 0, said.stderr


def test_a_changed_limit_makes_the_page_out_of_date(tmp_path):
    source, = REPOSITORY.glob("Sources/FerryCore/**/Limits.swift")
    changed = tmp_path / "Limits.swift"
    changed.write_text(source.read_text().replace("urlByteCountMax = 8_192", "urlByteCountMax = 8_193"))
    assert limits("--check", "--source", str(changed)).returncode == 1


def test_every_limit_has_its_row():
    source, = REPOSITORY.glob("Sources/FerryCore/**/Limits.swift")
    declared = re.findall(r"static let \w+", source.read_text())
    tables = re.findall(r"(?s)<!-- begin generated: .*?<!-- end generated -->", text("docs/limits.md"))
    rows = [row for table in tables for row in re.findall(r"(?m)^\| .*$", table)[1:]]
    assert len(declared) == len(rows) > 90
    assert len(set(rows)) == len(rows), "two limits have the same row"


def test_the_retry_schedule_of_webhooks_is_the_documented_one():
    source = text("Sources/FerryCore/Webhook/WebhookEndpoint.swift")
    numbers = re.search(r"standardRetryDelays: \[Double\] = \[(.*?)\]", source, re.DOTALL)[1]
    seconds = [int(s.replace("_", "")) for s in numbers.split(",") if s.strip()]
    spelled = [f"{s // 3600} h" if s >= 3600 else f"{s // 60} min" if s >= 60 else f"{s} s" for s in seconds]
    assert ", ".join(spelled[:-1]) + f" and {spelled[-1]}" in text("docs/webhooks.md").replace("\n", " ")


PAGES = sorted(str(p.relative_to(REPOSITORY)) for p in [
    *REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("Benchmarks/**/*.md")])


def prose(page: str) -> str:
    """A page without its code: neither headings nor links are made there."""
    return re.sub(r"(?ms)^[ ]*```.*?^[ ]*```$", "", text(page))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    found: list[str] = []
    for heading in re.findall(r"(?m)^#+ (.*?)\s*$", prose(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.append(anchor if anchor not in found else f"{anchor}-{found.count(anchor)}")
    return set(found)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        if target.startswith(("http:", "https:")):
            continue
        path = ((REPOSITORY / page).parent / target).resolve() if target else REPOSITORY / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(str(path.relative_to(REPOSITORY))), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_wider_than_110_columns(page):
    for number, line in enumerate(text(page).splitlines(), 1):
        # The rows of a table cannot be wrapped.
        assert len(line) <= 110 or line.lstrip().startswith("|") or "https://" in line, f"{page}:{number}"


def test_the_indexes_name_every_page():
    index, decisions = text("docs/README.md"), text("docs/decisions/README.md")
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name}" in index, page.name
    for page in (REPOSITORY / "docs/decisions").glob("0*.md"):
        assert f"({page.name})" in decisions, page.name


@pytest.mark.parametrize("page", [page for page in PAGES if "docs/decisions/0" in page])
def test_a_decision_has_a_number_a_status_a_date_and_its_parts(page):
    lines = text(page).splitlines()
    number = int(page.split("/")[-1][:4])
    assert lines[0].startswith(f"# {number}. ")
    assert re.match(r"Status: (accepted|superseded by \[\d+\])", lines[2]), lines[2]
    assert re.fullmatch(r"Date: 20\d\d-\d\d-\d\d", lines[3]), lines[3]
    headings = [line for line in lines if line in ("## Context", "## Decision", "## Alternatives", "## Consequences")]
    assert headings == ["## Context", "## Decision", "## Alternatives", "## Consequences"]
    assert lines[0].removeprefix("# ") in text("docs/decisions/README.md")


def curls(script: str) -> list[list[str]]:
    """The words of each curl command of a shell script."""
    script = re.sub(r"(?m)(^|\s)#\s.*$", "", script.replace("\\\n", " "))
    words = shlex.shlex(script, posix=True, punctuation_chars="();<>|&\n")
    words.whitespace, words.whitespace_split, words.commenters = " \t", True, ""
    commands, depth = [[]], 0
    for word in words:
        if set(word) <= set("();<>|&\n"):
            depth += word.count("(") - word.count(")")
            # A command in $(…) is a part of this one's words.
            if depth == 0 and not set(word) <= set("()<>"):
                commands.append([])
        elif depth == 0:
            commands[-1].append(word)
    return [command[command.index("curl"):] for command in commands if "curl" in command]


def fault(command: list[str]) -> str | None:
    """Why the API would turn this down as it stands there."""
    data, headers, is_form, is_json = [], {}, False, False
    for word, following in zip(command, [*command[1:], ""]):
        if word in ("-H", "--header"):
            field, _, content = following.partition(":")
            headers[field.strip().lower()] = content.strip()
        elif word in ("--data", "--data-raw", "--data-binary", "--data-ascii") or re.fullmatch(r"-[a-zA-Z]*d", word):
            data.append(following)
        elif re.match(r"-d.", word):
            data.append(word[2:])
        elif word in ("-T", "--upload-file"):
            data.append("@" + following)
        is_form |= word in ("-F", "--form", "--data-urlencode")
        is_json |= word == "--json"
    kind = headers.get("content-type", "application/json" if is_json else "")
    # Fields of a form are what curl says that it sends.
    is_form |= bool(data) and all(re.match(r"[\w.\[\]-]+=", part) for part in data)
    # A staged upload may be of any media type.
    is_upload = any("/v1/uploads" in word for word in command)
    if data and not kind and not is_form and not is_upload:
        return "it has a body and no Content-Type: 415"
    if kind == "application/json":
        for part in data:
            try:
                part.startswith("@") or json.loads(part)
            except ValueError as error:
                return f"{part} is no JSON: {error}"
    if any("/v1/" in word for word in command) and not headers.get("authorization", "").startswith("Bearer "):
        return "it has no key: 401"
    return None


@pytest.mark.parametrize("options, has_fault", [
    ("""-H 'Content-Type: application/json' -d '{"a": [1]}'""", False),
    ("-d @job.json -H 'content-type: application/json'", False),
    ("--json '{}'", False), ("-F file=@a.txt", False), ("-d a=b -sSd c=d", False), ("| tee x -d '{}'", False),
    ("-d '{}'", True), ("-XPOST -sSd '{}'", True), ("-d'{}'", True), ("--data-binary @job.json", True),
    ("-T job.json", True), ("""-H 'Content-Type: application/json' --data '{"a": }'""", True),
])
def test_what_would_be_turned_down_is_seen(options, has_fault):
    script = f"""export A=b # a note, isn't it
curl -sS http://ferry/v1/jobs$(grep -o '/[^"]*' x | head -n 1) -H "Authorization: Bearer $FERRY_KEY" \\
     {options}
cat x"""
    command, = curls(script)
    assert (fault(command) is not None) == has_fault, command


def test_requests_of_the_pages_are_not_turned_down():
    seen = []
    for page in PAGES:
        blocks = re.findall(r"(?ms)^[ ]*```\w*\n(.*?)^[ ]*```$", text(page))
        spans = re.findall(r"`(curl [^`\n]*)`", text(page))
        for script in [*blocks, *spans]:
            for command in curls(script) if "curl " in script else []:
                seen.append(page)
                assert fault(command) is None, f"{page}: {fault(command)}: {shlex.join(command)}"
    assert {"README.md", "docs/sessions.md"} <= set(seen)

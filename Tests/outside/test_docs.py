"""The pages say what the sources say."""
from __future__ import annotations

import json
import re
import shlex

import pytest

from conftest import REPOSITORY


def text(path: str) -> str:
    return (REPOSITORY / path).read_text()


def test_every_problem_is_explained():
    page = text("docs/errors.md")
    source = text("Sources/FerryAPI/ProblemDetails.swift").split("var status")[0]
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
    events = re.findall(r'case \w+ = "((?:job|session)\.\w+)"', text("Sources/FerryCore/EventType.swift"))
    assert events and [event for event in events if f"`{event}`" not in text("docs/events.md")] == []


def test_every_limit_of_a_request_has_its_row():
    source, page = text("Sources/FerryCore/Limits.swift"), text("docs/limits.md").replace(",", "")
    values = dict(re.findall(r"static let (\w+) = ([\d_.<\s]+?)$", source, re.MULTILINE))
    assert len(values) > 15
    for name, value in values.items():
        number = eval(value.replace("_", ""))  # shifts and numbers, from our own source
        words = {str(int(number)), f"{int(number) >> 10} KiB", f"{int(number) >> 20} MiB"}
        assert any(word in page for word in words), f"docs/limits.md lacks {name}: {value}"


def test_the_retry_schedule_of_webhooks_is_the_documented_one():
    source = text("Sources/FerryCore/WebhookEndpoint.swift")
    numbers = re.search(r"standardRetryDelays: \[Double\] = \[(.*?)\]", source, re.DOTALL)[1]
    seconds = [int(s.replace("_", "")) for s in numbers.split(",") if s.strip()]
    spelled = [f"{s // 3600} h" if s >= 3600 else f"{s // 60} min" if s >= 60 else f"{s} s" for s in seconds]
    assert ", ".join(spelled[:-1]) + f" and {spelled[-1]}" in text("docs/events.md").replace("\n", " ")


PAGES = sorted(str(p.relative_to(REPOSITORY)) for p in [
    *REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("Benchmarks/**/*.md")])


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text(page)):
        if not target.startswith("http"):
            assert ((REPOSITORY / page).parent / target).exists(), target


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
    if data and not kind and not is_form:
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

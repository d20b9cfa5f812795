"""The pages say what the sources say."""
from __future__ import annotations

import re

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
        codes += re.findall(r'blame\(\s*\d+, "(\w+)"', file.read_text())
    assert len(codes) > 25
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


@pytest.mark.parametrize("page", sorted(str(p.relative_to(REPOSITORY)) for p in [
    *REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("Benchmarks/**/*.md")]))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text(page)):
        if not target.startswith("http"):
            assert ((REPOSITORY / page).parent / target).exists(), target

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
    events = re.findall(r'case \w+ = "((?:job|session)\.\w+)"', text("Sources/FerryCore/Event/EventType.swift"))
    assert events and [event for event in events if f"`{event}`" not in text("docs/events.md")] == []


# The constants of Limits.swift by the row of docs/limits.md that has to say them: the words that its first cell begins
# with. A new constant gets its row here.
LIMITS = {
    "body of one submission": ["submissionByteCountMax"],
    "body of a batch": ["batchByteCountMax", "batchJobCountMax"],
    "URL of a job": ["urlByteCountMax"],
    "header fields of a job": ["headerCountMax", "headerByteCountMax"],
    "`http_additional_headers_origins` of a session": ["additionalHeaderOriginCountMax"],
    "`request.auth`": ["userByteCountMax", "passwordByteCountMax", "tokenByteCountMax"],
    "each PEM text": ["pemByteCountMax"],
    "`request.tls.pins`": ["pinCountMax", "proxyBypassCountMax"],
    "`tracestate`": ["traceStateByteCountMax", "traceStateMemberCountMax"],
    "`metadata`": ["metadataCountMax", "metadataNameByteCountMax", "metadataValueByteCountMax"],
    "`description`": ["descriptionByteCountMax"],
    "`session` and other names": ["nameByteCountMax"],
    "members of a `PATCH` of a job": ["patchMemberCountMax"],
    "configured sessions": ["sessionCountMax"],
    "unfinished jobs that `GET`": ["sessionJobCountMax"],
    "`retry.max_attempts`": ["jobAttemptCountMax"],
    "`mirrors`": ["mirrorCountMax"],
    "`schedule.depends_on`": ["dependencyCountMax"],
    "`questions.timeout`": ["questionSecondsMax"],
    "`acknowledgement.timeout`": ["acknowledgementSecondsMax"],
    "`acknowledgement.reminders`": ["reminderCountMax", "reminderDelayMax"],
    "an answer to a question": ["answerByteCountMax"],
    "`destination.path`": ["pathByteCountMax"],
    "a multipart body": ["partCountMax", "partNameByteCountMax"],
    "`Idempotency-Key`": ["idempotencyKeyByteCountMax"],
    "a list": ["listLimitDefault", "listLimitMax"],
    "bytes of a page": ["listByteCountMax"],
    "rows of a list": ["listScanRowCount", "listTurnRowCount"],
    "reads of one tenant": ["waitingReadCountMax", "readConnectionCount"],
    "seconds of one read": ["readSecondsMax"],
    "`Prefer: wait`": ["waitSecondsMax"],
    "`cron`": ["cronByteCountMax", "timeZoneByteCountMax"],
    "`jitter`": ["scheduleJitterSecondsMax"],
    "streams of events": ["eventListenerCountMax", "eventQueueByteCountMax"],
    "progress on streams": ["eventProgressSeconds", "eventProgressByteCountMax", "eventProgressTotalByteCountMax"],
    "unfinished jobs of one tenant": ["unfinishedJobCountMax"],
    "jobs that wait on a node": ["waitingJobCountMax", "waitingSecondsMax"],
    "bodies of requests on a node": ["bodyBytesMax", "smallBodyBytes"],
    "head of a response": ["responseHeaderByteCountMax", "responseHeaderLineCountMax"],
    "redirects": ["redirectCountMax"],
    "parts of a download": ["segmentCountMax"],
    "body of a `data` job": ["inlineBodyByteCountMax"],
    "bytes of failed and cancelled jobs": ["resumeDataSeconds"],
    "`resume_data`": ["resumeDataByteCountMax"],
    "text of an answer": ["responseExcerptByteCountMax"],
    "the origin's `Content-Type`": ["contentTypeByteCountMax"],
    "attempts of a job": ["attemptCountMax"],
    "transactions of an attempt": ["transactionCountMax"],
    "endpoints of a tenant": ["webhookCountMax"],
    "body that makes or changes one": ["webhookByteCountMax"],
    "`events`, `retry.delays`": ["webhookEventCountMax", "webhookDelayCountMax"],
    "a pause of `retry.delays`": ["webhookDelayMax"],
    "`disable_after`": ["webhookDisableAfterMin", "webhookDisableAfterMax"],
    "`overlap_seconds`": ["webhookOverlapMax"],
    "keys of an endpoint": ["webhookKeyCountMax"],
    "deliveries in memory, claimed": ["deliveryWeightByteCount"],
    "pending deliveries": ["deliverySeconds"],
    "rows of one insert": ["intakeBatchMax", "claimBatchMax", "resultBatchMax"],
    "bodies of 16 to 256 KiB": ["gatheredBytesMax"],
    "a lane that commits": ["shardSeconds"],
    "lots that a look finds": ["lookLotCountMax"],
    "the audit": ["auditSeconds", "auditCountMax"],
    "schedules that one transaction": ["scheduleBatchMax"],
    "off-peak windows": ["windowCountMax"],
    "an occurrence counts as missed": ["scheduleGraceSeconds"],
    "missed (`run_all`)": ["scheduleCatchUpSeconds"],
    "runs of a schedule": ["scheduleOverlapMax"],
    "heartbeat and lease": ["heartbeatSeconds", "leaseSeconds"],
    "events are kept": ["eventRetentionSeconds"],
}
# What a row says in words of its own.
SPELLED = {
    "eventProgressSeconds": "twice a second", "transactionCountMax": "the first 31 and the last",
    "eventRetentionSeconds": "7 days",
}
# How something works, which other pages tell: no bound that anybody meets.
UNLISTED = {"eventHeartbeatSeconds", "deliveryLeaseSeconds", "priorityHeadStartSeconds", "deadlineHeadStartSeconds"}


def test_every_limit_of_a_request_has_its_row():
    declared = re.findall(r"static let (\w+)(?:: \w+)? = ([\d_.<*\s]+?)$", text("Sources/FerryCore/Limits/Limits.swift"),
                          re.MULTILINE)
    values = {name: eval(value.replace("_", "")) for name, value in declared}  # numbers and shifts of our own source
    rows = re.findall(r"^\| .*$", re.sub(r"(?<=\d),(?=\d{3})", "", text("docs/limits.md")), re.MULTILINE)
    placed = [name for names in LIMITS.values() for name in names]
    assert len(placed) == len(set(placed)), "one is named twice"
    assert set(values) - UNLISTED == set(placed), "LIMITS says in which row a constant is"
    for words, names in LIMITS.items():
        found = [row for row in rows if re.match(rf"\| {re.escape(words)}(?!\w)", row)]
        assert len(found) == 1, f"docs/limits.md has {len(found)} rows that begin with {words}"
        for name in names:
            number = int(values[name])
            forms = [str(number)] + [f"{number >> bits} {unit}" for bits, unit in ((10, "KiB"), (20, "MiB"))
                                     if number >> bits << bits == number > 0]
            expected = [rf"(?<![\d.]){form}(?!\d)" for form in ([SPELLED[name]] if name in SPELLED else forms)]
            assert any(re.search(one, found[0]) for one in expected), f"the row of {words} does not say {name}: {number}"


def test_the_retry_schedule_of_webhooks_is_the_documented_one():
    source = text("Sources/FerryCore/Webhook/WebhookEndpoint.swift")
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

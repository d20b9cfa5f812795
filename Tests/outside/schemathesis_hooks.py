"""What JSON Schema cannot say about a request, and what would only make the run slow."""
from __future__ import annotations

import datetime
import itertools
import os
import re
import secrets

import schemathesis

_numbers = itertools.count()
# Another run may have used the same service.
_run = secrets.token_hex(3)
# With which everything is asked.
_own_key = os.environ.get("FERRY_OWN_KEY")


def _jobs(body):
    if not isinstance(body, dict):
        return []
    batch = body.get("jobs")
    jobs = [body] + [job for job in batch if isinstance(job, dict)] if isinstance(batch, list) else [body]
    return jobs + [body["job"]] if isinstance(body.get("job"), dict) else jobs


def _simplify_schedule(body):
    """Only the service knows what is a cron expression, a place, and a group's name with placeholders, and which
    times lie ahead."""
    if isinstance(body.get("cron"), str) and 0 < len(body["cron"]) <= 512:
        body["cron"] = "0 6 * * *"
    if isinstance(body.get("time_zone"), str) and 0 < len(body["time_zone"]) <= 64:
        body["time_zone"] = "UTC"
    for name in ("start_at", "end_at"):
        if _is_time(body.get(name)):
            body[name] = None
    if isinstance(body.get("group"), str) and 0 < len(body["group"]) <= 512:
        body["group"] = "night-{scheduled_at:date}"
    if body.get("close_group") is True and body.get("group") is None:
        body["close_group"] = False
    for job in _jobs(body)[1:]:
        schedule = job.get("schedule")
        for name in ("earliest_begin_at", "deadline_at"):
            if isinstance(schedule, dict) and _is_time(schedule.get(name)):
                schedule[name] = None


_JOB = "job_[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}"

# White space of JSON Schema's regular expressions (ECMA-262 §22.2.2.9), which differs from Python's.
_SPACES = r"\t-\r \xa0\ufeff\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def _simplify(request):
    """Only OpenSSL knows what a certificate is, only the node whether it has HTTP/3, only a resolver what a host is;
    NTLM needs HTTP/1.1; and both forms of header fields must have the same fields."""
    if not isinstance(request, dict):
        return
    if isinstance(request.get("headers"), dict) and isinstance(request.get("header_fields"), list):
        if all(isinstance(one, str) for one in request["headers"].values()):
            del request["headers"]
        elif all(isinstance(one, dict) and set(one) == {"name", "value"} for one in request["header_fields"]):
            del request["header_fields"]
    # A chance name may be that of a field which the service sets (HeaderRules.swift).
    for field in request["header_fields"] if isinstance(request.get("header_fields"), list) else []:
        if isinstance(field, dict) and str(field.get("name")).lower() in ("te", "host"):
            field["name"] = "X-Te"
    if request.get("http_version") == "3":
        request["http_version"] = "2"
    if isinstance(request.get("auth"), dict) and request["auth"].get("type") == "ntlm" \
            and request.get("http_version") == "2":
        request["http_version"] = "1.1"
    tls, proxy, headers, url = (request.get(name) for name in ("tls", "proxy", "headers", "url"))
    if isinstance(tls, dict):
        if isinstance(url, str) and re.match("http:", url, re.IGNORECASE):
            request["url"] = "https:" + url[5:]
        for name in ("ca", "client_certificate", "client_key"):
            if isinstance(tls.get(name), str) and 0 < len(tls[name]) <= 65_536:
                tls[name] = None
    if isinstance(proxy, dict):
        if isinstance(proxy.get("url"), str) and re.fullmatch(
                r"[A-Za-z]+5?[hH]?://[A-Za-z0-9.:_\[\]-]{1,253}:[1-9][0-9]{0,4}/?", proxy["url"]):
            proxy["url"] = "http://proxy.example:3128"
        if isinstance(proxy.get("ca"), str) and 0 < len(proxy["ca"]) <= 65_536:
            proxy["ca"] = None
        names = proxy.get("no_proxy")
        if isinstance(names, list) and 0 < len(names) <= 100 and len({str(name) for name in names}) == len(names) \
                and all(isinstance(name, str) and 0 < len(name) <= 255 for name in names):
            proxy["no_proxy"] = ["internal.example"]
    origins = request.get("http_additional_headers_origins")
    if isinstance(origins, list) and 0 < len(origins) <= 100 and len({str(one) for one in origins}) == len(origins) \
            and all(isinstance(one, str) and re.fullmatch(rf"https?://[^@{_SPACES}/?#\\]{{1,255}}", one, re.IGNORECASE)
                    for one in origins):
        request["http_additional_headers_origins"] = ["https://*.shop.example:8443"]
    if request.get("auth") is not None and isinstance(headers, dict):
        for name in [name for name in headers if name.lower() == "authorization" and isinstance(headers[name], str)
                     and re.fullmatch("[!-~]([ -~]{0,1000}[!-~])?", headers[name])]:
            del headers[name]


def _is_reference(job):
    """A job, an earlier one of the batch, a group, or an upload."""
    if isinstance(job, dict) and set(job) == {"upload"}:
        return _is_upload(job["upload"])
    if isinstance(job, dict):
        name = job.get("group")
        return len(job) == 1 and isinstance(name, str) and name not in (".", "..") \
            and re.fullmatch("[A-Za-z0-9._:-]{1,128}", name)
    return isinstance(job, str) and re.fullmatch(rf"{_JOB}|#/jobs/[0-9]{{1,5}}", job)


def _is_upload(text):
    """The name or the identifier of a staged upload."""
    return isinstance(text, str) and re.fullmatch("[A-Za-z0-9._-]{1,128}", text)


def _free(schedule):
    """Jobs to depend on must be there, and a deadline comes after the begin."""
    if not isinstance(schedule, dict):
        return
    jobs = schedule.get("depends_on")
    if isinstance(jobs, list) and len(jobs) <= 100 and all(map(_is_reference, jobs)) \
            and len(set(map(str, jobs))) == len(jobs):
        schedule["depends_on"] = []
    times = [schedule.get(name) for name in ("earliest_begin_at", "deadline_at")]
    if all(_is_time(time) for time in times):
        schedule["earliest_begin_at"] = None


def _simplify_windows(windows):
    """As with schedules; and each window has a name of its own."""
    for number, window in enumerate(window for window in windows if isinstance(window, dict)):
        for name, right, most in (("cron", "0 22 * * *", 512), ("time_zone", "UTC", 64), ("name", f"w{number}", 128)):
            text = window.get(name)
            if isinstance(text, str) and 0 < len(text) <= most and not (name == "name" and "\0" in text):
                window[name] = right


_digests = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128, "crc32c": 8, "adler32": 8}


def _know(job):
    """Jobs whose results are sent must be there, and inline bytes are what integrity says."""
    request, source, integrity = (job.get(name) for name in ("request", "source", "integrity"))
    _inline(source)
    _inline(request.get("body") if isinstance(request, dict) else None)
    if not isinstance(integrity, dict) or not isinstance(source, dict) or not {"text", "base64"} & set(source):
        return
    for name, count in _digests.items():
        if isinstance(integrity.get(name), str) and re.fullmatch("[0-9A-Fa-f]{%d}" % count, integrity[name]):
            integrity[name] = None
    size = integrity.get("size")
    if isinstance(size, (int, float)) and not isinstance(size, bool) and 0 <= size <= 2**53 - 1 and size == int(size):
        integrity["size"] = None


def _inline(value):
    """Text in place of another job's result or a staged upload, wherever that may stand."""
    for part in value if isinstance(value, list) else value.values() if isinstance(value, dict) else []:
        _inline(part)
    if isinstance(value, dict) and not {"text", "base64", "path"} & set(value):
        if "upload" not in value and isinstance(value.get("job"), str) \
                and re.fullmatch(rf"{_JOB}|#/jobs/[0-9]{{1,5}}", value["job"]):
            del value["job"]
            value["text"] = "x"
        elif "job" not in value and _is_upload(value.get("upload")):
            del value["upload"]
            value["text"] = "x"


def _resolve(job):
    """Only a resolver knows what the host of a store is, and whether a bucket can be part of it."""
    places = [job.get(name) for name in ("source", "destination") if isinstance(job.get(name), dict)]
    for place in [place["s3"] for place in places if isinstance(place.get("s3"), dict)]:
        endpoint = place.get("endpoint")
        if isinstance(endpoint, str) and re.fullmatch(rf" *https?://[^@{_SPACES}/?#]{{1,253}}/? *", endpoint, re.IGNORECASE):
            place["endpoint"] = "https://store.example"
        if place.get("addressing") == "virtual":
            place["addressing"] = "path"


def _combine(job):
    """Fields that exclude each other are tested elsewhere."""
    schedule, redirects = job.get("schedule"), job.get("redirects")
    if isinstance(schedule, dict) and schedule.get("discretionary") is True and (
            schedule.get("confirm_before_begin") is True or schedule.get("depends_on")
            or schedule.get("network_service_type") == "responsive_data"):
        schedule["discretionary"] = False
    several = job.get("mirrors") or (isinstance(job.get("segments"), (int, float)) and job["segments"] > 1)
    if isinstance(redirects, dict) and redirects.get("policy") == "ask" and several:
        redirects["policy"] = "follow"


def _simplify_webhook(body):
    """Only the egress policy knows which receiver may be reached; and a replay's end comes after its begin."""
    if isinstance(body.get("url"), str) and len(body["url"]) <= 8_192 and re.fullmatch(
            r" *https?://[^@\s/?#]{1,253}([/?#][^\x00-\x1f\x7f]*)? *", body["url"], re.IGNORECASE):
        body["url"] = "https://receiver.example/hook"
    if isinstance(body.get("since"), str) and _is_time(body.get("until")):
        body["until"] = None


def _is_time(text):
    """What is no time has to be refused, and stays."""
    try:
        datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return False
    return True


@schemathesis.hook
def map_body(context, body):
    """One field bounds another here: max_delay is not below initial_delay (docs/errors.md, `invalid_value`)."""
    if isinstance(body, dict) and (isinstance(body.get("job"), dict) or "cron" in body or "interval" in body):
        _simplify_schedule(body)
    if isinstance(body, dict) and isinstance(body.get("windows"), list):
        _simplify_windows(body["windows"])
    if isinstance(body, dict) and ("events" in body or "ordered" in body or "only" in body or "since" in body):
        _simplify_webhook(body)
    if isinstance(body, dict) and "request" not in body:
        _simplify(body)
        keeps = body.get("retention")
        if isinstance(keeps, (int, float)) and not isinstance(keeps, bool) and keeps <= 315_360_000:
            body["retention"] = min(keeps, 604_800)
    # A group is closed by its name (docs/groups.md).
    if isinstance(body, dict) and body.get("close_group") is True and body.get("group") is None:
        body["close_group"] = False
    for job in _jobs(body):
        _simplify(job.get("request"))
        _simplify(job.get("webhook"))
        _free(job.get("schedule"))
        _know(job)
        _combine(job)
        _resolve(job)
        request, redirects = job.get("request"), job.get("redirects")
        # What is not idempotent is not sent again for a question.
        if isinstance(request, dict) and isinstance(redirects, dict) and redirects.get("policy") == "ask" \
                and request.get("method") not in (None, "GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
            redirects["policy"] = "follow"
        _order_delays(job.get("retry"))
    for asking in [body, *_jobs(body)]:
        asked = asking.get("acknowledgement") if isinstance(asking, dict) else None
        _order_delays(asked.get("reminders") if isinstance(asked, dict) else None, least=1)
    return body


def _order_delays(delays, least=0):
    """What is wrong by itself stays wrong."""
    if isinstance(delays, dict):
        # Reminders begin after ten minutes where nothing else is said, attempts after a second.
        first, last = delays.get("initial_delay", 600 if least else 1), delays.get("max_delay")
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (first, last)) \
                and last >= least:
            delays["max_delay"] = max(first, last)


def _apart(mirrors, url):
    """Without those that only the service knows to be the same; one that is there twice is the schema's to find."""
    def plain(text):
        return text.rstrip("/").lower()

    seen = {plain(url)} if isinstance(url, str) else set()
    kept = []
    for mirror in mirrors:
        if isinstance(mirror, str) and mirrors.count(mirror) == 1:
            if plain(mirror) in seen:
                continue
            seen.add(plain(mirror))
        kept.append(mirror)
    return kept


def _is_beyond_ascii(host):
    """Whether the schema allows the host, which has characters beyond ASCII."""
    name = re.fullmatch(
        r"(?:https?://)?[A-Za-z0-9._-]*[^\x00-\x7f][^\x00-\x20\x7f%/:?#@\[\]]*(?::([0-9]{0,5}))?/?", host,
        re.IGNORECASE)
    return name is not None and (not name[1] or 1 <= int(name[1]) <= 65_535)


@schemathesis.hook
def before_call(context, case, kwargs):
    # It is in the list of keys; revoked it would open nothing to all that follows.
    if case.method == "DELETE" and _own_key and (case.path_parameters or {}).get("id") == _own_key:
        case.path_parameters["id"] = "key_00000000000000000000000000"
    # POST /v1/jobs/cancel and its like are no jobs.
    if (case.path_parameters or {}).get("id") in ("batch", "cancel", "resume", "retry", "suspend"):
        case.path_parameters["id"] = "job_00000000000000000000000000"
    # Examples that cover a schema systematically do not pass through map_body.
    map_body(context, case.body)
    # Only the service knows which names beyond ASCII are hosts (UTS #46).
    filter_of_jobs = case.body.get("filter") if isinstance(case.body, dict) else None
    for values in (case.path_parameters, case.query, filter_of_jobs):
        host = values.get("host") if isinstance(values, dict) else None
        if isinstance(host, str) and len(host) <= 268 and _is_beyond_ascii(host):
            values["host"] = "host.example"
    # Only the service knows which members a job has.
    names = (case.query or {}).get("fields")
    if isinstance(names, list) and 0 < len(names) <= 100 and all(isinstance(name, str) for name in names):
        case.query["fields"] = ["id", "error.code"]
    elif isinstance(names, str) and names:
        case.query["fields"] = "id,error.code"
    # Only the service itself can make resume data, and a mirror is not the URL itself.
    for job in _jobs(case.body):
        if isinstance(job.get("resume_data"), str) and 0 < len(job["resume_data"]) <= 16_384:
            job["resume_data"] = None
        # Resume data has a URL, which is then not required.
        if "kind" in job and job.get("resume_data") is None:
            request = job.setdefault("request", {})
            if isinstance(request, dict):
                request.setdefault("url", "https://host.example/")
        request, mirrors = job.get("request"), job.get("mirrors")
        if isinstance(request, dict) and isinstance(mirrors, list):
            mirrors[:] = _apart(mirrors, request.get("url"))
    # A case whose point is that a header is missing must stay as it is: a change would bring it back.
    scenario = getattr(case.meta and case.meta.phase.data, "scenario", None)
    if getattr(scenario, "value", None) == "missing_parameter":
        return
    headers = case.headers
    # Content that is followed ends with its job, so perhaps never (FollowTests).
    if str((case.query or {}).get("follow")).lower() == "true":
        case.query["follow"] = "false"
    # Most generated jobs name hosts that do not exist: a second, now and then, shows that the answer waits.
    if (headers.get("Prefer") or "").startswith("wait="):
        headers["Prefer"] = "wait=0" if next(_numbers) % 10 else "wait=1"
    # A key that comes again is answered with the first job, which another scenario may have deleted: "created,
    # but not found" would be true and right. Replays have tests of their own.
    key = headers.get("Idempotency-Key") or ""
    if re.fullmatch('[!#-~][!-~]{0,254}|"[!#-~]{1,255}"', key):
        quote, mark = ('"' if key[0] == '"' else ""), f"-{_run}{next(_numbers)}"
        headers["Idempotency-Key"] = quote + key.strip('"')[:255 - len(mark)] + mark + quote


@schemathesis.hook
def after_call(context, case, response):
    # The bytes of an upload need not be what its media type says, which a client has chosen.
    if case.path.startswith("/v1/uploads/") and case.path.endswith("/content") and response.status_code in (200, 206):
        response.headers["content-type"] = ["application/octet-stream"]

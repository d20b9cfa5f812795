"""What JSON Schema cannot say about a request, and what would only make the run slow."""
from __future__ import annotations

import itertools
import re

import schemathesis

_numbers = itertools.count()


def _jobs(body):
    if not isinstance(body, dict):
        return []
    batch = body.get("jobs")
    return [body] + [job for job in batch if isinstance(job, dict)] if isinstance(batch, list) else [body]


@schemathesis.hook
def map_body(context, body):
    """One field bounds another here: max_delay is not below initial_delay (docs/errors.md, `invalid_value`)."""
    for job in _jobs(body):
        retry = job.get("retry")
        if isinstance(retry, dict):
            first, last = retry.get("initial_delay"), retry.get("max_delay")
            if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (first, last)):
                retry["max_delay"] = max(first, last)
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    # A case whose point is that a header is missing must stay as it is: a change would bring it back.
    scenario = getattr(case.meta and case.meta.phase.data, "scenario", None)
    if getattr(scenario, "value", None) == "missing_parameter":
        return
    headers = case.headers
    # Most generated jobs name hosts that do not exist: a second, now and then, shows that the answer waits.
    if (headers.get("Prefer") or "").startswith("wait="):
        headers["Prefer"] = "wait=0" if next(_numbers) % 10 else "wait=1"
    # A key that comes again is answered with the first job, which another scenario may have deleted: "created,
    # but not found" would be true and right. Replays have tests of their own.
    key = headers.get("Idempotency-Key") or ""
    if re.fullmatch('[!#-~][!-~]{0,239}|"[!#-~]{1,239}"', key):
        headers["Idempotency-Key"] = re.sub('("?)$', rf"-{next(_numbers)}\1", key, count=1)

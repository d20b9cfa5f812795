"""Fields of jobs that a session sets, against servers that other people wrote: what its jobs do, and what they override."""
from __future__ import annotations

import time

import pytest
import requests
import standardwebhooks

from conftest import WEBHOOK_SECRET, eventually, killed_and_started, running
from origins import Authority, httpbin, nginx

OWN_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def strict_url(authority, tmp_path_factory):
    """nginx, which demands a certificate of its client."""
    folder = tmp_path_factory.mktemp("nginx")
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    (folder / "file").write_bytes(b"for known clients")
    with nginx(authority, folder, 1, asks_client=True) as port:
        yield f"https://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def bin_url():
    with httpbin() as port:
        yield f"http://127.0.0.1:{port}"


def configure(ferry, name: str, **fields) -> requests.Response:
    answer = ferry.call("PUT", f"/v1/sessions/{name}", json=fields)
    assert answer.status_code == 201, answer.text
    return answer


def submit(ferry, session: str, kind: str, url: str, wait: int = 60, **members) -> dict:
    request = {"url": url, **members.pop("request", {})}
    answer = ferry.call("POST", "/v1/jobs", headers={"Prefer": f"wait={wait}"}, json={
        "kind": kind, "session": session, "request": request, **members})
    assert answer.status_code == 201, answer.text
    return answer.json()


def shown(ferry, job: dict) -> dict:
    return ferry.call("GET", f"/v1/jobs/{job['id']}").json()


def test_redirects_are_rejected_unless_a_job_follows_them(ferry, bin_url):
    configure(ferry, "redirects", redirects={"policy": "reject", "max": 3})
    job = submit(ferry, "redirects", "data", f"{bin_url}/redirect/1")
    assert job["state"] == "succeeded" and job["response"]["status"] == 302, job
    assert shown(ferry, job)["redirects"]["policy"] == "reject"
    own = submit(ferry, "redirects", "data", f"{bin_url}/redirect/1", redirects={"policy": "follow"})
    assert own["response"]["status"] == 200, own
    assert own["redirects"]["policy"] == "follow" and own["redirects"]["max"] == 3, "the other member stays"
    many = submit(ferry, "redirects", "data", f"{bin_url}/redirect/4",
                  redirects={"policy": "follow"}, retry={"max_attempts": 1})
    assert many["error"]["code"] == "too_many_redirects", many


def test_one_attempt_is_made_unless_a_job_wants_more(ferry, bin_url):
    configure(ferry, "retries", retry={"max_attempts": 1, "initial_delay": 0.1})
    job = submit(ferry, "retries", "download", f"{bin_url}/status/503")
    assert job["state"] == "failed" and job["attempt"] == 1, job
    own = submit(ferry, "retries", "download", f"{bin_url}/status/503", retry={"max_attempts": 2})
    assert own["state"] == "failed" and own["attempt"] == 2, own
    assert own["retry"]["initial_delay"] == 0.1, "the other member stays"


def test_the_session_says_which_status_is_accepted(ferry, bin_url):
    configure(ferry, "accepting", accept={"status": [404]}, retry={"max_attempts": 1})
    job = submit(ferry, "accepting", "download", f"{bin_url}/status/404")
    assert job["state"] == "succeeded" and job["accept"]["status"] == [404], job
    own = submit(ferry, "accepting", "download", f"{bin_url}/status/404", accept={"status": ["2xx"]})
    assert own["state"] == "failed" and own["error"]["code"] == "unacceptable_status", own
    small = submit(ferry, "accepting", "download", f"{bin_url}/bytes/100",
                   accept={"status": ["2xx"], "max_bytes": 10})
    assert small["state"] == "failed", small


def test_a_rate_is_that_of_each_job_unless_a_job_has_none(ferry, bin_url):
    configure(ferry, "rates", network={"max_bytes_per_second": 20_000})
    begin = time.monotonic()
    job = submit(ferry, "rates", "download", f"{bin_url}/bytes/100000")
    assert job["state"] == "succeeded" and job["network"]["max_bytes_per_second"] == 20_000, job
    slow, begin = time.monotonic() - begin, time.monotonic()
    own = submit(ferry, "rates", "download", f"{bin_url}/bytes/100000", network={"max_bytes_per_second": None})
    assert own["state"] == "succeeded" and own["network"]["max_bytes_per_second"] is None, own
    assert slow > 2 and slow > 2 * (time.monotonic() - begin)


def test_a_job_asks_for_a_credential_because_its_session_does(ferry, bin_url):
    configure(ferry, "asking", on_challenge="ask", retry={"max_attempts": 1})
    url = f"{bin_url}/basic-auth/user/pass"
    job = submit(ferry, "asking", "download", url, wait=0)
    asking = eventually(60, lambda: (now := shown(ferry, job))["waiting_for"] == "challenge" and now, "a question")
    assert asking["on_challenge"] == "ask", asking
    answer = ferry.call("POST", f"/v1/jobs/{job['id']}/challenge", json={
        "disposition": "use_credential", "credential": {"user": "user", "password": "pass"}})
    assert answer.status_code == 200, answer.text
    eventually(60, lambda: shown(ferry, job)["state"] == "succeeded", "success")
    own = submit(ferry, "asking", "download", url, on_challenge="fail")
    assert own["state"] == "failed" and own["error"]["code"] == "authentication_required", own


def test_a_question_that_a_job_cannot_ask_is_no_error_of_the_job(ferry, bin_url):
    configure(ferry, "unasked", on_challenge="ask", on_url_expired="ask", redirects={"policy": "ask"})
    parts = submit(ferry, "unasked", "download", f"{bin_url}/bytes/10", segments=2)
    assert parts["state"] == "succeeded" and parts["on_challenge"] == "fail", parts
    assert parts["redirects"]["policy"] == "follow" and parts["on_url_expired"] == "ask", parts
    post = submit(ferry, "unasked", "data", f"{bin_url}/post", request={"method": "POST", "body": {"text": "x"}})
    assert post["redirects"]["policy"] == "follow" and post["response"]["status"] == 200, post
    refused = ferry.call("POST", "/v1/jobs", json={
        "kind": "download", "session": "unasked", "segments": 2, "on_challenge": "ask",
        "request": {"url": f"{bin_url}/bytes/10"}})
    assert refused.status_code == 422, refused.text
    assert [error["pointer"] for error in refused.json()["errors"]] == ["#/on_challenge"]


def test_private_authorities_and_a_client_certificate(ferry, authority, strict_url, bin_url):
    tls = {"ca": authority.pem, **authority.client}
    first = configure(ferry, "private", tls=tls, retry={"max_attempts": 1})
    assert first.json()["tls"] == {
        "ca": {"set": True}, "client_certificate": {"set": True}, "client_key": {"set": True}, "pins": []}
    again = ferry.call("PUT", "/v1/sessions/private", json={"retry": {"max_attempts": 1}, "tls": tls})
    assert again.status_code == 200 and again.headers["ETag"] == first.headers["ETag"], again.text
    other = ferry.call("PUT", "/v1/sessions/private",
                       json={"retry": {"max_attempts": 1}, "tls": {"ca": authority.pem}})
    assert other.status_code == 428, other.text

    job = submit(ferry, "private", "download", f"{strict_url}/file")
    assert job["state"] == "succeeded", job
    assert job["request"]["tls"]["client_key"] == {"set": True}, job
    without = submit(ferry, "private", "download", f"{strict_url}/file",
                     request={"tls": {"client_certificate": None}})
    assert without["state"] == "failed" and without["response"]["status"] == 400, without
    assert without["request"]["tls"]["client_key"] is None, without
    public = submit(ferry, "private", "download", f"{strict_url}/file", request={"tls": {"ca": None}})
    assert public["error"]["code"] == "certificate_invalid", public
    plain = submit(ferry, "private", "download", f"{bin_url}/bytes/10")
    assert plain["state"] == "succeeded" and plain["request"]["tls"] is None, plain


def test_other_ways_to_submit_inherit_alike(ferry, authority, strict_url):
    configure(ferry, "alike", tls={"ca": authority.pem, **authority.client}, retry={"max_attempts": 1},
              on_url_expired="ask")
    job = {"kind": "download", "session": "alike", "group": "alike", "request": {"url": f"{strict_url}/file"}}
    batch = ferry.call("POST", "/v1/jobs/batch", json={"jobs": [job, job]})
    assert batch.status_code == 201, batch.text
    schedule = ferry.call("POST", "/v1/schedules", json={"cron": "0 0 1 1 *", "jobs": [job, job]})
    assert schedule.status_code == 201, schedule.text
    assert ferry.call("POST", f"/v1/schedules/{schedule.json()['id']}/run").status_code in (200, 201, 202)

    def ended():
        jobs = ferry.call("GET", "/v1/jobs?session=alike").json()["data"]
        return len(jobs) == 4 and all(one["state"] == "succeeded" for one in jobs) and jobs

    for one in eventually(60, ended, "all four"):
        full = shown(ferry, one)
        assert full["retry"]["max_attempts"] == 1 and full["on_url_expired"] == "ask", full
        assert full["request"]["tls"]["client_certificate"] == {"set": True}, full
    repeated = ferry.call("POST", f"/v1/jobs/{one['id']}/retry", headers={"Prefer": "wait=60"})
    assert repeated.status_code == 201, repeated.text
    again = eventually(60, lambda: (now := shown(ferry, repeated.json()))["state"] == "succeeded" and now, "again")
    assert again["retry"]["max_attempts"] == 1, again


def verified(message, secret: str) -> dict:
    return standardwebhooks.Webhook(secret).verify(message.body.decode(), message.headers)


def test_the_webhook_of_a_session_gets_the_events_of_its_jobs(ferry, receiver, bin_url):
    configure(ferry, "told", webhook={
        "url": f"{receiver.url}/session?token=hush", "secret": OWN_SECRET, "headers": {"X-Tenant": "shop"},
        "events": ["job.succeeded"]})
    job = submit(ferry, "told", "download", f"{bin_url}/bytes/10")
    message = eventually(60, lambda: receiver.received("/session?token=hush"), "webhook")[0]
    assert verified(message, OWN_SECRET)["data"]["job"]["id"] == job["id"]
    assert message.headers["x-tenant"] == "shop"
    assert shown(ferry, job)["webhook"]["headers"] == {"X-Tenant": {"set": True}}

    own = submit(ferry, "told", "download", f"{bin_url}/bytes/11", webhook={"url": f"{receiver.url}/own"})
    message = eventually(60, lambda: receiver.received("/own"), "own webhook")[0]
    assert verified(message, WEBHOOK_SECRET)["data"]["job"]["id"] == own["id"]
    assert "x-tenant" not in message.headers, "the receiver of a job gets nothing of the session's"
    none = submit(ferry, "told", "download", f"{bin_url}/bytes/12", webhook=None)
    assert none["state"] == "succeeded" and none["webhook"] is None, none
    assert len(receiver.received("/session?token=hush")) == 1


def test_viewers_events_and_the_log_see_no_secret(ferry, authority, receiver, bin_url):
    configure(ferry, "hidden", tls={"ca": authority.pem, **authority.client}, webhook={
        "url": f"{receiver.url}/hidden?token=hush-url", "secret": OWN_SECRET, "headers": {"X-A": "hush-field"}})
    job = submit(ferry, "hidden", "download", f"{bin_url}/bytes/10")
    key = ferry.call("POST", "/v1/admin/keys", json={"name": "fields", "role": "viewer"}).json()["key"]
    viewer = {"Authorization": f"Bearer {key}"}
    texts = [requests.get(ferry.url + path, headers=viewer, timeout=60).text for path in (
        "/v1/sessions/hidden", "/v1/sessions", f"/v1/jobs/{job['id']}", f"/v1/jobs/{job['id']}/events",
        "/v1/events?session=hidden")]
    assert all("hidden" in text or job["id"] in text for text in texts), texts
    message = eventually(60, lambda: receiver.received("/hidden?token=hush-url"), "webhook")[0]
    for text in [*texts, message.body.decode(), ferry.log()]:
        assert "hush" not in text and OWN_SECRET not in text and "BEGIN" not in text, text
    shown_to_admin = ferry.call("GET", "/v1/sessions/hidden").text
    assert "hush-url" in shown_to_admin and "hush-field" not in shown_to_admin


def test_a_session_keeps_its_secrets_over_a_kill(authority, strict_url, receiver):
    with running(status=-9) as service:
        configure(service, "kept", tls={"ca": authority.pem, **authority.client},
                  webhook={"url": f"{receiver.url}/kept?token=hush", "secret": OWN_SECRET})
        second = killed_and_started(service)
        try:
            job = submit(service, "kept", "download", f"{strict_url}/file")
            assert job["state"] == "succeeded", job
            message = eventually(60, lambda: receiver.received("/kept?token=hush"), "webhook")[0]
            assert verified(message, OWN_SECRET)["data"]["job"]["id"] == job["id"]
        finally:
            second.terminate()
            second.wait(60)


def test_the_egress_policy_refuses_a_receiver_of_a_session():
    with running(FERRY_EGRESS_ALLOW="127.0.0.1/32") as service:
        answer = service.call("PUT", "/v1/sessions/far", json={"webhook": {"url": "http://10.1.2.3/hook"}})
        assert answer.status_code == 422, answer.text
        assert [(one["pointer"], one["code"]) for one in answer.json()["errors"]] == [
            ("#/webhook/url", "blocked_address")]

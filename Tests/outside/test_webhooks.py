"""Webhooks, verified by the reference library of Standard Webhooks and by Svix's."""
from __future__ import annotations

import json

import pytest
import standardwebhooks
import svix.webhooks

from conftest import WEBHOOK_SECRET, eventually

OWN_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def submit(ferry, receiver, path, **webhook):
    receiver.files["/file"] = b"twelve bytes"
    answer = ferry.call("POST", "/v1/jobs", json={
        "kind": "download", "request": {"url": receiver.url + "/file"},
        "destination": {"path": f"webhooks{path}"},
        "webhook": {"url": receiver.url + path, **webhook}})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def verified(message, secret=WEBHOOK_SECRET):
    return standardwebhooks.Webhook(secret).verify(message.body.decode(), message.headers)


def test_the_reference_library_accepts_the_signature(ferry, receiver):
    job = submit(ferry, receiver, "/plain")
    message = eventually(120, lambda: receiver.received("/plain"), "webhook")[0]
    payload = verified(message)
    assert payload["type"] == "job.succeeded"
    assert payload["data"]["job"]["id"] == job
    assert payload["data"]["job"]["state"] == "succeeded"
    assert message.headers["webhook-id"].startswith("evt_")
    assert message.headers["content-type"].startswith("application/json")


def test_a_changed_body_or_another_secret_is_refused(ferry, receiver):
    submit(ferry, receiver, "/changed")
    message = eventually(120, lambda: receiver.received("/changed"), "webhook")[0]
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(WEBHOOK_SECRET).verify(message.body.decode() + " ", message.headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verified(message, OWN_SECRET)


def test_svix_accepts_the_signatures_and_refuses_what_was_changed(ferry, receiver):
    submit(ferry, receiver, "/svix", secret=OWN_SECRET)
    message = eventually(120, lambda: receiver.received("/svix"), "webhook")[0]
    body, headers = message.body.decode(), dict(message.headers)
    svix.webhooks.Webhook(OWN_SECRET).verify(body, headers)
    for secret, changed in (OWN_SECRET, body + " "), (WEBHOOK_SECRET, body):
        with pytest.raises(svix.webhooks.WebhookVerificationError):
            svix.webhooks.Webhook(secret).verify(changed, headers)
    late = headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 3_600)}
    with pytest.raises(svix.webhooks.WebhookVerificationError):
        svix.webhooks.Webhook(OWN_SECRET).verify(body, late)


def test_a_jobs_own_secret_signs_and_is_never_shown(ferry, receiver):
    job = submit(ferry, receiver, "/own", secret=OWN_SECRET)
    message = eventually(120, lambda: receiver.received("/own"), "webhook")[0]
    assert verified(message, OWN_SECRET)["data"]["job"]["id"] == job
    shown = ferry.call("GET", f"/v1/jobs/{job}").text
    assert OWN_SECRET not in shown and OWN_SECRET not in message.body.decode()
    assert OWN_SECRET not in ferry.log()


def test_what_was_not_accepted_comes_again_with_the_same_id(ferry, receiver):
    receiver.statuses["/again"] = [503]
    submit(ferry, receiver, "/again")
    first, second = eventually(
        120, lambda: len(got := receiver.received("/again")) >= 2 and got[:2], "second try")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert int(second.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])
    assert verified(second) == json.loads(first.body)


def endpoint(ferry, receiver, path, **fields):
    answer = ferry.call("POST", "/v1/webhooks", json={"url": receiver.url + path, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_the_reference_library_accepts_an_endpoints_signature_and_skips_the_other_kind(ferry, receiver):
    made = endpoint(ferry, receiver, "/endpoint", session="pings")
    ping = ferry.call("POST", f"/v1/webhooks/{made['id']}/test", json={})
    assert ping.status_code == 200 and ping.json()["state"] == "accepted", ping.text
    message = eventually(120, lambda: receiver.received("/endpoint"), "ping")[0]
    assert verified(message, made["secret"])["type"] == "webhook.ping"
    assert [entry.split(",")[0] for entry in message.headers["webhook-signature"].split()] == ["v1", "v1a"]
    svix.webhooks.Webhook(made["secret"]).verify(message.body.decode(), dict(message.headers))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verified(message, WEBHOOK_SECRET)


def test_during_a_rotation_the_reference_library_accepts_the_old_and_the_new_secret(ferry, receiver):
    old = endpoint(ferry, receiver, "/rotated", session="pings")
    new = ferry.call("POST", f"/v1/webhooks/{old['id']}/rotate_secret", json={"overlap_seconds": 60}).json()
    assert ferry.call("POST", f"/v1/webhooks/{old['id']}/test", json={}).json()["state"] == "accepted"
    message = eventually(120, lambda: receiver.received("/rotated"), "ping")[0]
    assert old["secret"] != new["secret"]
    assert verified(message, old["secret"]) == verified(message, new["secret"])
    assert ferry.call("DELETE", f"/v1/webhooks/{old['id']}").status_code == 204


def test_an_endpoint_gets_cloudevents_of_the_jobs_that_it_wants(ferry, receiver):
    made = endpoint(ferry, receiver, "/cloud", format="cloudevents", events=["job.succeeded"],
                    metadata={"kind": "cloud"})
    receiver.files["/file"] = b"twelve bytes"
    for metadata in ({"kind": "other"}, {"kind": "cloud", "more": "x"}):
        answer = ferry.call("POST", "/v1/jobs", json={
            "kind": "download", "request": {"url": receiver.url + "/file"}, "metadata": metadata,
            "destination": {"path": f"webhooks/cloud-{metadata['kind']}"}})
        assert answer.status_code == 201, answer.text
    message = eventually(120, lambda: receiver.received("/cloud"), "event")[0]
    assert message.headers["content-type"].startswith("application/cloudevents+json")
    event = verified(message, made["secret"])
    assert event["specversion"] == "1.0" and event["type"] == "ferry.job.succeeded"
    assert event["id"] == message.headers["webhook-id"]
    assert event["subject"] == event["data"]["job"]["id"]
    assert event["data"]["job"]["metadata"] == {"kind": "cloud", "more": "x"}
    assert len(receiver.received("/cloud")) == 1
    assert ferry.call("DELETE", f"/v1/webhooks/{made['id']}").status_code == 204

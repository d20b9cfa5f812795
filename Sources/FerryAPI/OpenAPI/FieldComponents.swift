internal import FerryCore

/// Schemas of the bodies that declare their fields in `FieldObject.fields`, and of the responses that show
/// them.
let fieldSchemas: String = {
    var schemas = FieldSchemas()
    schemas.add(
        "JobRequest",
        #"""
        {
          "description": "A job to be done. Only kind and request.url are required, and source for uploads.",
          "oneOf": [
            {"$ref": "#/components/schemas/DownloadRequest"},
            {"$ref": "#/components/schemas/UploadRequest"},
            {"$ref": "#/components/schemas/DataRequest"}
          ],
          "discriminator": {
            "propertyName": "kind",
            "mapping": {
              "download": "#/components/schemas/DownloadRequest",
              "upload": "#/components/schemas/UploadRequest",
              "data": "#/components/schemas/DataRequest"
            }
          },
          "examples": [
            {
              "kind": "download",
              "request": {"url": "https://example.org/a.csv"},
              "destination": {"path": "reports/a.csv"}
            }
          ]
        }
        """#)
    schemas.add(
        JobSpec.self, .request(.download), named: "DownloadRequest",
        "Fetches a file. Succeeds on a 2xx response unless accept.status determines otherwise.")
    schemas.add(
        JobSpec.self, .request(.upload), named: "UploadRequest",
        "Sends a file, the file of another job, or inline bytes, as they are or in a form. Succeeds on a 2xx "
            + "response unless accept.status determines otherwise.")
    schemas.add(
        JobSpec.self, .request(.data), named: "DataRequest",
        "Makes a request and stores the body of the response. Succeeds on any response unless accept.status "
            + "determines otherwise.")
    schemas.add(
        JobSpec.self, .patch, named: "JobPatch",
        "A merge patch (RFC 7396) of the job as it is shown; null sets the default. description, metadata, "
            + "schedule.priority and network.max_bytes_per_second can be changed until the job is terminal, "
            + "the other fields while it does not run; earliest_begin_at and confirm_before_begin until it "
            + "has begun. A download resumes from its bytes with another URL if the validator shows that it "
            + "is the same file. The result is validated like a submission.")
    schemas.add(JobSpec.self, .response, named: "Job", jobText, with: jobEnvelope)
    schemas.add(HeaderLine.self, .request(nil), named: HeaderLine.schemaName)
    schemas.add(AcknowledgementRules.self, .request(nil))
    schemas.add(AcknowledgementRules.self, .response)
    schemas.add(SessionConfiguration.self, .request(nil), named: "SessionRequest")
    schemas.add(SessionConfiguration.self, .response, named: "Session", sessionText, with: sessionEnvelope)
    schemas.add(ScheduleBody.self, .request(nil), named: "ScheduleRequest")
    schemas.add(
        ScheduleSpec.self, .response, named: "ScheduleView",
        "The accepted fields with their effective values, and the progress of the schedule.",
        with: scheduleEnvelope)
    schemas.add(WebhookEndpoint.self, .request(nil), named: "WebhookEndpointRequest")
    schemas.add(
        WebhookEndpoint.self, .patch, named: "WebhookPatch",
        "A merge patch (RFC 7396): fields that are named change, null sets the default.")
    schemas.add(
        WebhookEndpoint.self, .response, named: "Webhook", "An endpoint.",
        with: webhookEnvelope + ##", "secret": {"$ref": "#/components/schemas/Hidden"}"##)
    schemas.add(
        WebhookEndpoint.self, .response, named: "WebhookWithSecret",
        "An endpoint with its secret, which no other response shows.",
        with: webhookEnvelope + #"""
            , "secret": {
              "type": "string", "pattern": "^whsec_",
              "description": "Verifies v1 signatures; not shown again."
            }
            """#)
    return schemas.text
}()

private let jobText =
    "The accepted fields with their effective values, and the progress of the job. Every member is present."
private let sessionText =
    "The configuration with its effective values. The ETag is that of the configuration, not of the jobs."

/// Members of a job that no client gives.
private let jobEnvelope = #"""
    "id": {"$ref": "#/components/schemas/JobID"},
    "tenant": {"type": "string", "description": "Owner of the job."},
    "state": {"$ref": "#/components/schemas/JobState"},
    "waiting_for": {
      "enum": [
        null, "begin_date", "discretionary", "connectivity", "retry", "dependency", "challenge",
        "confirmation", "redirect"
      ],
      "description": "What a job in state waiting waits for."
    },
    "revision": {"type": "integer", "minimum": 0, "description": "Grows with each change of the job."},
    "waiting_reason": {
      "oneOf": [{"$ref": "#/components/schemas/WaitingReason"}, {"type": "null"}],
      "description": "Why the job does not run; null for running and terminal jobs."
    },
    "created_at": {"type": "string", "format": "date-time", "description": "Time of the submission."},
    "started_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Start of the first attempt."
    },
    "finished_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Time of the terminal state."
    },
    "next_attempt_at": {
      "type": ["string", "null"], "format": "date-time",
      "description": "Time at which a waiting job continues."
    },
    "acknowledged_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Time of the acknowledgement."
    },
    "attempt": {
      "type": "integer", "minimum": 0, "description": "Number of the last attempt, 0 before the first."
    },
    "node": {"type": ["string", "null"], "description": "Node of the last attempt."},
    "link": {"type": "string", "description": "Network link of the job."},
    "retry_of": {"type": ["string", "null"], "description": "The job that this one retries."},
    "schedule_id": {"type": ["string", "null"], "description": "The schedule that submitted the job."},
    "scheduled_at": {
      "type": ["string", "null"], "format": "date-time", "description": "The schedule's occurrence."
    },
    "question": {
      "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Question"}],
      "description": "The open question about the job."
    },
    "answered_by": {
      "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/AnsweredBy"}],
      "description": "The last answer about the job."
    },
    "resume_data": {
      "type": ["string", "null"],
      "description": "Text with which another job resumes from the bytes of this one, for a day."
    },
    "progress": {"$ref": "#/components/schemas/Progress"},
    "response": {
      "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransferResponse"}],
      "description": "The last response of the server."
    },
    "result": {
      "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransferResult"}],
      "description": "What a successful job has received or sent."
    },
    "error": {
      "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransferError"}],
      "description": "Why the job or its last attempt has failed."
    }
    """#

private let sessionEnvelope = #"""
    "identifier": {"type": "string", "description": "Name of the session."},
    "tenant": {"type": "string", "description": "Owner of the session."},
    "is_configured": {
      "type": "boolean", "description": "false: jobs have named it, and it has the default values."
    },
    "revision": {"type": "integer", "minimum": 0, "description": "Grows with each change."},
    "created_at": {"type": ["string", "null"], "format": "date-time", "description": "First configuration."},
    "updated_at": {"type": ["string", "null"], "format": "date-time", "description": "Last configuration."},
    "invalidation": {
      "enum": [null, "finish", "cancel"], "description": "Not null: the session takes no more jobs."
    },
    "invalidated_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Time of the invalidation."
    },
    "ended_at": {
      "type": ["string", "null"], "format": "date-time",
      "description": "Time at which the last job of an invalidated session ended."
    },
    "jobs": {
      "oneOf": [{"$ref": "#/components/schemas/SessionJobs"}, {"type": "null"}],
      "description": "Numbers of unfinished jobs by state; null in lists."
    }
    """#

private let scheduleEnvelope = #"""
    "id": {"$ref": "#/components/schemas/ScheduleID"},
    "tenant": {"type": "string", "description": "Owner of the schedule."},
    "revision": {
      "type": "integer", "minimum": 1, "description": "Grows with changes, not with runs."
    },
    "created_at": {"type": "string", "format": "date-time", "description": "Time of the creation."},
    "updated_at": {"type": "string", "format": "date-time", "description": "Time of the last change."},
    "next_scheduled_at": {
      "type": ["string", "null"], "format": "date-time",
      "description": "The next occurrence; null if there is none any more, or the schedule is paused."
    },
    "next_run_at": {
      "type": ["string", "null"], "format": "date-time",
      "description": "Time of the next run: the occurrence and its jitter, or the next check while an \#
    earlier job is unfinished."
    },
    "last_scheduled_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Last occurrence with a job."
    },
    "last_run_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Time of its submission."
    },
    "last_job": {
      "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/JobID"}], "description": "Its job."
    },
    "counts": {"$ref": "#/components/schemas/ScheduleCounts"},
    "job": {
      "type": "object", "required": ["kind", "request"],
      "description": "The template of the jobs, with the members of a job that a client gives."
    }
    """#

private let webhookEnvelope = #"""
    "id": {"type": "string", "pattern": "^whk_", "description": "Identifier of the endpoint."},
    "revision": {"type": "integer", "minimum": 1, "description": "Grows with each change."},
    "created_at": {"type": "string", "format": "date-time", "description": "Time of the creation."},
    "updated_at": {"type": "string", "format": "date-time", "description": "Time of the last change."},
    "disabled_at": {
      "type": ["string", "null"], "format": "date-time", "description": "Time at which it was disabled."
    },
    "disabled_reason": {
      "oneOf": [{"$ref": "#/components/schemas/DisabledReason"}, {"type": "null"}],
      "description": "Why it is disabled."
    },
    "failing_since": {
      "type": ["string", "null"], "format": "date-time",
      "description": "Time of the first failure since the last success."
    },
    "public_key": {
      "type": "string", "pattern": "^whpk_", "description": "Verifies v1a signatures (Ed25519)."
    }
    """#

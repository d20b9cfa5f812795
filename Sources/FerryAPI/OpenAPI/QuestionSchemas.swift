/// Questions of jobs and their answers, as JSON Schema 2020-12.
let questionSchemas = #"""
    "Question": {
      "type": "object",
      "description": "A question that a client must answer before the job continues.",
      "required": ["kind", "asked_at", "expires_at", "redirect", "challenge"],
      "properties": {
        "kind": {"enum": ["begin", "redirect", "challenge"], "description": "Kind of the question."},
        "asked_at": {"type": "string", "format": "date-time", "description": "Time of the question."},
        "expires_at": {
          "type": "string", "format": "date-time", "description": "Time at which the default answer applies."
        },
        "redirect": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/QuestionRedirect"}],
          "description": "The redirect, or null for another kind of question."
        },
        "challenge": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/QuestionChallenge"}],
          "description": "The challenge, or null for another kind of question."
        }
      }
    },
    "QuestionRedirect": {
      "type": "object", "description": "A redirect that a job asks about.",
      "required": ["status", "url", "method"],
      "properties": {
        "status": {"type": "integer", "description": "HTTP status code of the redirect."},
        "url": {"$ref": "#/components/schemas/ShownURL", "description": "URL of the redirect target."},
        "method": {"type": "string", "description": "Method of the request to the redirect target."}
      }
    },
    "QuestionChallenge": {
      "type": "object", "description": "A challenge that a job asks about.",
      "required": ["protection_space", "previous_failure_count"],
      "properties": {
        "protection_space": {"$ref": "#/components/schemas/ProtectionSpace"},
        "previous_failure_count": {
          "type": "integer", "minimum": 0,
          "description": "Number of credentials that were refused before."
        }
      }
    },
    "ProtectionSpace": {
      "type": "object",
      "description": "Protection space of a credential (RFC 9110 section 11.5).",
      "required": ["url", "realm", "authentication_method", "proxy"],
      "properties": {
        "url": {"type": "string", "description": "URL of the request, or of the job's proxy."},
        "realm": {"type": ["string", "null"], "description": "Realm of the challenge, or null if not known."},
        "authentication_method": {
          "enum": ["basic", "digest", "bearer", "ntlm"],
          "description": "Authentication scheme of the challenge."
        },
        "proxy": {"type": "boolean", "description": "true if the challenge is of the job's own proxy."}
      }
    },
    "AnsweredBy": {
      "type": "object",
      "description": "The last answer about the job, and its source.",
      "required": ["question", "disposition", "by", "name", "at"],
      "properties": {
        "question": {"enum": ["begin", "redirect", "challenge"], "description": "Kind of the question."},
        "disposition": {"type": "string", "description": "Decision of the answer."},
        "by": {
          "enum": ["api", "webhook", "timeout"],
          "description": "Source of the answer: a request to the API, a response of a webhook, or the \#
    timeout of the question."
        },
        "name": {
          "type": ["string", "null"],
          "description": "The API key or the delivery that gave the answer, or null after a timeout."
        },
        "at": {"type": "string", "format": "date-time", "description": "Time of the answer."}
      }
    },
    "AskedAt": {
      "type": ["string", "null"], "format": "date-time",
      "description": "Value of question.asked_at, unchanged. If another question is open, the response is \#
    409. Without asked_at and If-Match the answer applies to the open question."
    },
    "BeginAnswer": {
      "description": "An answer to the question whether a job may begin.",
      "oneOf": [
        {
          "type": "object", "required": ["disposition"], "additionalProperties": false,
          "properties": {
            "disposition": {
              "enum": ["continue_loading", "cancel"],
              "description": "continue_loading: the job begins. cancel: the job is cancelled."
            },
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        },
        {"$ref": "#/components/schemas/NewRequestAnswer"}
      ]
    },
    "NewRequestAnswer": {
      "type": "object",
      "description": "An answer with which the job continues with a changed request.",
      "required": ["disposition", "request"], "additionalProperties": false,
      "properties": {
        "disposition": {"const": "use_new_request", "description": "The job uses request."},
        "request": {
          "$ref": "#/components/schemas/RequestPatch",
          "description": "A merge patch of url, headers and timeout_for_request."
        },
        "asked_at": {"$ref": "#/components/schemas/AskedAt"}
      }
    },
    "RedirectAnswer": {
      "description": "An answer to the question whether a job follows a redirect.",
      "oneOf": [
        {
          "type": "object", "required": ["disposition"], "additionalProperties": false,
          "properties": {
            "disposition": {
              "enum": ["follow", "reject", "cancel"],
              "description": "follow: the next attempt begins at the redirect target. reject: the redirect \#
    response is the job's response. cancel: the job is cancelled."
            },
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        },
        {"$ref": "#/components/schemas/NewRequestAnswer"}
      ]
    },
    "ChallengeAnswer": {
      "description": "An answer to a challenge for credentials.",
      "oneOf": [
        {
          "type": "object", "required": ["disposition"], "additionalProperties": false,
          "properties": {
            "disposition": {
              "enum": ["perform_default_handling", "reject_protection_space", "cancel"],
              "description": "perform_default_handling: the job fails as if it had not asked. \#
    reject_protection_space: the job asks about the next method that the server offers. cancel: the job is \#
    cancelled."
            },
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        },
        {
          "type": "object", "required": ["disposition", "credential"], "additionalProperties": false,
          "properties": {
            "disposition": {"const": "use_credential", "description": "The next attempt sends credential."},
            "credential": {"$ref": "#/components/schemas/Credential"},
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        }
      ]
    },
    "UserName": {
      "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^:\\u0000-\\u001f\\u007f]+$",
      "description": "Name of a user, at most 255 bytes of UTF-8."
    },
    "Password": {
      "type": "string", "maxLength": 1024, "pattern": "^[^\\u0000-\\u001f\\u007f]*$",
      "description": "A password, at most 1,024 bytes of UTF-8. Stored encrypted and shown as {\"set\": \#
    true}."
    },
    "Credential": {
      "description": "A user and a password for Basic, Digest and NTLM, or a token for Bearer. Stored \#
    encrypted and not shown.",
      "oneOf": [
        {
          "type": "object", "required": ["user", "password"], "additionalProperties": false,
          "properties": {
            "user": {"$ref": "#/components/schemas/UserName"},
            "password": {"$ref": "#/components/schemas/Password"}
          }
        },
        {
          "type": "object", "required": ["token"], "additionalProperties": false,
          "properties": {
            "token": {
              "type": "string", "minLength": 1, "maxLength": 8192, "pattern": "^[!-~]+$",
              "description": "Token for Bearer, visible ASCII."
            }
          }
        }
      ]
    }
    """#

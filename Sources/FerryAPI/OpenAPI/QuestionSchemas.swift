/// Questions of jobs and their answers, as JSON Schema 2020-12.
let questionSchemas = #"""
    "Question": {
      "type": "object",
      "description": "What somebody is to say before the job goes on.",
      "required": ["kind", "asked_at", "expires_at", "redirect", "challenge"],
      "properties": {
        "kind": {"enum": ["begin", "redirect", "challenge"]},
        "asked_at": {"type": "string", "format": "date-time"},
        "expires_at": {
          "type": "string", "format": "date-time", "description": "When the job decides by itself."
        },
        "redirect": {
          "type": ["object", "null"], "required": ["status", "url", "method"],
          "properties": {
            "status": {"type": "integer"}, "url": {"$ref": "#/components/schemas/ShownURL"},
            "method": {"type": "string"}
          }
        },
        "challenge": {
          "type": ["object", "null"], "required": ["protection_space", "previous_failure_count"],
          "properties": {
            "protection_space": {
              "type": "object", "required": ["url", "realm", "authentication_method", "proxy"],
              "properties": {
                "url": {"type": "string"}, "realm": {"type": ["string", "null"]},
                "authentication_method": {"enum": ["basic", "digest", "bearer", "ntlm"]},
                "proxy": {"type": "boolean", "description": "url is the job's own proxy."}
              }
            },
            "previous_failure_count": {"type": "integer", "minimum": 0}
          }
        }
      }
    },
    "AnsweredBy": {
      "type": "object",
      "description": "The last answer about the job, and who gave it: a key, a delivery, or nobody in time.",
      "required": ["question", "disposition", "by", "name", "at"],
      "properties": {
        "question": {"enum": ["begin", "redirect", "challenge"]},
        "disposition": {"type": "string"},
        "by": {"enum": ["api", "webhook", "timeout"]},
        "name": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"}
      }
    },
    "AskedAt": {
      "type": ["string", "null"], "format": "date-time",
      "description": "As the question says it, to the last digit; when another one is open by now, the \#
    answer is refused (409). Without it and without If-Match it is an answer to whatever is asked."
    },
    "BeginAnswer": {
      "oneOf": [
        {
          "type": "object", "required": ["disposition"], "additionalProperties": false,
          "properties": {
            "disposition": {"enum": ["continue_loading", "cancel"]},
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        },
        {"$ref": "#/components/schemas/NewRequestAnswer"}
      ]
    },
    "NewRequestAnswer": {
      "type": "object", "required": ["disposition", "request"], "additionalProperties": false,
      "properties": {
        "disposition": {"const": "use_new_request"},
        "request": {"$ref": "#/components/schemas/RequestPatch"},
        "asked_at": {"$ref": "#/components/schemas/AskedAt"}
      }
    },
    "RedirectAnswer": {
      "description": "reject: the redirect itself is the answer.",
      "oneOf": [
        {
          "type": "object", "required": ["disposition"], "additionalProperties": false,
          "properties": {
            "disposition": {"enum": ["follow", "reject", "cancel"]},
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        },
        {"$ref": "#/components/schemas/NewRequestAnswer"}
      ]
    },
    "ChallengeAnswer": {
      "description": "reject_protection_space: the next way that the server offers is asked about.",
      "oneOf": [
        {
          "type": "object", "required": ["disposition"], "additionalProperties": false,
          "properties": {
            "disposition": {"enum": ["perform_default_handling", "reject_protection_space", "cancel"]},
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        },
        {
          "type": "object", "required": ["disposition", "credential"], "additionalProperties": false,
          "properties": {
            "disposition": {"const": "use_credential"},
            "credential": {"$ref": "#/components/schemas/Credential"},
            "asked_at": {"$ref": "#/components/schemas/AskedAt"}
          }
        }
      ]
    },
    "UserName": {
      "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^:\\u0000-\\u001f\\u007f]+$",
      "description": "At most 255 bytes of UTF-8."
    },
    "Password": {
      "type": "string", "maxLength": 1024, "pattern": "^[^\\u0000-\\u001f\\u007f]*$",
      "description": "At most 1,024 bytes of UTF-8. Encrypted and shown as {\"set\": true}."
    },
    "Credential": {
      "description": "For Basic and Digest user and password, for Bearer a token. Sealed, and never shown.",
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
            "token": {"type": "string", "minLength": 1, "maxLength": 8192, "pattern": "^[!-~]+$"}
          }
        }
      ]
    }
    """#

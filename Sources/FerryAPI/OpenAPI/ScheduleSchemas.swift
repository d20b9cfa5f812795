/// Schedules, as JSON Schema 2020-12.
let scheduleSchemas = #"""
    "ScheduleID": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "ScheduleCounts": {
      "type": "object", "required": ["runs", "missed", "skipped"],
      "description": "Numbers of occurrences.",
      "properties": {
        "runs": {"type": "integer", "description": "Occurrences with a job."},
        "missed": {"type": "integer", "description": "Occurrences that no node submitted in time."},
        "skipped": {"type": "integer", "description": "Occurrences skipped because of an earlier job."}
      }
    },
    "ScheduleList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/ScheduleView"}},
        "next_cursor": {"type": ["string", "null"]}
      }
    },
    "Window": {
      "type": "object", "required": ["name", "cron", "duration"],
      "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$"},
        "cron": {
          "type": "string", "minLength": 1, "maxLength": 512, "description": "When it opens.",
          "examples": ["0 22 * * *"]
        },
        "duration": {
          "type": "number", "minimum": 60, "maximum": 604800,
          "description": "Seconds for which it stays open."
        },
        "time_zone": {"type": "string", "minLength": 1, "maxLength": 64, "default": "UTC"},
        "discretionary": {
          "type": "boolean", "default": true, "description": "Whether discretionary jobs start in it."
        },
        "max_bytes": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Expected bytes of the discretionary jobs that start in one opening."
        },
        "max_bytes_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "While it is open, of all nodes together in each direction, in place of what \#
    /v1/admin/limits says."
        }
      }
    },
    "WindowsPatch": {
      "type": "object", "additionalProperties": false,
      "properties": {
        "windows": {
          "type": ["array", "null"], "maxItems": 32,
          "items": {"allOf": [{"$ref": "#/components/schemas/Window"}], "unevaluatedProperties": false},
          "description": "All windows; without a discretionary one, discretionary jobs start whenever there \#
    is idle capacity."
        }
      }
    },
    "Windows": {
      "type": "object", "required": ["windows"],
      "properties": {
        "windows": {
          "type": "array",
          "items": {
            "allOf": [{"$ref": "#/components/schemas/Window"}],
            "required": ["open", "closes_at", "opens_at"],
            "properties": {
              "open": {"type": "boolean"},
              "closes_at": {"type": ["string", "null"], "format": "date-time"},
              "opens_at": {
                "type": ["string", "null"], "format": "date-time", "description": "The next time."
              }
            }
          }
        }
      }
    }
    """#

extension Operation {
    var windowDescription: OperationDescription {
        switch self {
        case .readWindows:
            OperationDescription(
                tag: "admin", summary: "When the service has time for what may wait, and at which rate",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The windows.", content: json("Windows"), headers: ["ETag"]),
                    .unchanged,
                ])
        default:
            OperationDescription(
                tag: "admin", summary: "Change these windows", parameters: ["IfMatch"],
                body: mergePatch("WindowsPatch"), isBodyRequired: true,
                answers: [
                    .init(status: 200, text: "They hold.", content: json("Windows"), headers: ["ETag"])
                ], problems: [412, 413, 415, 422])
        }
    }

    var scheduleDescription: OperationDescription {
        switch self {
        case .createSchedule:
            OperationDescription(
                tag: "schedules", summary: "Submit a job again and again", parameters: ["IdempotencyKey"],
                body: json("ScheduleRequest"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 201, text: "It is kept.", content: json("ScheduleView"),
                        headers: ["Location", "ETag", "Idempotency-Replayed"])
                ], problems: [409, 413, 415, 422])
        case .listSchedules:
            OperationDescription(
                tag: "schedules", summary: "List schedules, newest first", parameters: ["Limit", "Cursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of schedules.", content: json("ScheduleList"),
                        headers: ["Link"])
                ])
        case .readSchedule:
            OperationDescription(
                tag: "schedules", summary: "Read a schedule", parameters: ["IfNoneMatch"],
                answers: [view("The schedule."), .unchanged], problems: [404])
        case .replaceSchedule:
            OperationDescription(
                tag: "schedules", summary: "Replace a schedule, its job and its secrets included",
                parameters: ["IfMatch"], body: json("ScheduleRequest"), isBodyRequired: true,
                answers: [view("It is so.")], problems: [404, 412, 413, 415, 422])
        case .deleteSchedule:
            OperationDescription(
                tag: "schedules", summary: "Delete a schedule; its jobs stay", parameters: ["IfMatch"],
                answers: [.init(status: 204, text: "It is gone.")], problems: [404, 412])
        case .runSchedule:
            OperationDescription(
                tag: "schedules", summary: "Submit a schedule's job now",
                parameters: ["IdempotencyKey", "Traceparent"], body: json("EmptyRequest"),
                answers: [
                    .init(
                        status: 201, text: "The job.", content: json("Job"),
                        headers: ["Location", "ETag", "Idempotency-Replayed"])
                ], problems: [404, 409, 413, 415, 422])
        default:
            OperationDescription(
                tag: "schedules",
                summary: self == .pauseSchedule
                    ? "Pause a schedule" : "Let a paused schedule go on, with what comes from now on",
                parameters: ["IfMatch"], body: json("EmptyRequest"), answers: [view("It is so.")],
                problems: [404, 412, 413, 415, 422])
        }
    }

    private func view(_ text: String) -> OperationDescription.Answer {
        .init(status: 200, text: text, content: json("ScheduleView"), headers: ["ETag"])
    }
}

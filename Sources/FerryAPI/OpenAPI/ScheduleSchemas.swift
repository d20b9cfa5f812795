/// Schedules, as JSON Schema 2020-12.
let scheduleSchemas = #"""
    "ScheduleID": {
      "type": "string", "description": "Identifier of a schedule.",
      "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"
    },
    "ScheduleCounts": {
      "type": "object", "required": ["runs", "missed", "skipped"],
      "description": "Numbers of occurrences of a schedule.",
      "properties": {
        "runs": {"type": "integer", "description": "Occurrences with a job."},
        "missed": {"type": "integer", "description": "Occurrences that no node submitted in time."},
        "skipped": {"type": "integer", "description": "Occurrences skipped because of an earlier job."}
      }
    },
    "ScheduleList": {
      "type": "object", "description": "A page of schedules.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/ScheduleView"},
          "description": "The schedules of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    },
    "WindowInput": {
      "type": "object", "description": "A window to set.", "required": ["name", "cron", "duration"],
      "additionalProperties": false,
      "properties": {
        "name": {
          "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$",
          "description": "Name of the window. No other window has it."
        },
        "cron": {
          "type": "string", "minLength": 1, "maxLength": 512, "examples": ["0 22 * * *"],
          "description": "Times at which the window opens, as a cron expression."
        },
        "duration": {
          "type": "number", "minimum": 60, "maximum": 604800,
          "description": "Seconds for which the window stays open."
        },
        "time_zone": {
          "type": "string", "minLength": 1, "maxLength": 64, "default": "UTC",
          "description": "Time zone of cron."
        },
        "discretionary": {
          "type": "boolean", "default": true,
          "description": "true if discretionary jobs start while the window is open."
        },
        "max_bytes": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Expected bytes of the discretionary jobs that start in one opening; null means no \#
    limit."
        },
        "max_bytes_per_second": {
          "type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991,
          "description": "Rate while the window is open, in bytes per second, of all nodes together in each \#
    direction. It replaces the rates of /v1/admin/limits; null leaves them."
        }
      }
    },
    "Window": {
      "type": "object", "description": "A window with its current state.",
      "required": [
        "name", "cron", "duration", "time_zone", "discretionary", "max_bytes", "max_bytes_per_second", "open",
        "closes_at", "opens_at"
      ],
      "properties": {
        "name": {"type": "string", "description": "Name of the window. No other window has it."},
        "cron": {"type": "string", "description": "Times at which the window opens, as a cron expression."},
        "duration": {"type": "number", "description": "Seconds for which the window stays open."},
        "time_zone": {"type": "string", "description": "Time zone of cron."},
        "discretionary": {
          "type": "boolean",
          "description": "true if discretionary jobs start while the window is open."
        },
        "max_bytes": {
          "type": ["integer", "null"],
          "description": "Expected bytes of the discretionary jobs that start in one opening; null means no \#
    limit."
        },
        "max_bytes_per_second": {
          "type": ["integer", "null"],
          "description": "Rate while the window is open, in bytes per second, of all nodes together in each \#
    direction. It replaces the rates of /v1/admin/limits; null leaves them."
        },
        "open": {"type": "boolean", "description": "true if the window is open now."},
        "closes_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time at which the open window closes, or null if it is closed."
        },
        "opens_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time of the next opening, or null if there is none."
        }
      }
    },
    "WindowsPatch": {
      "type": "object", "description": "A merge patch (RFC 7396) of the windows.",
      "additionalProperties": false,
      "properties": {
        "windows": {
          "type": ["array", "null"], "maxItems": 32, "items": {"$ref": "#/components/schemas/WindowInput"},
          "description": "All windows; null removes all. If no window is for discretionary jobs, these jobs \#
    start whenever there is idle capacity."
        }
      }
    },
    "Windows": {
      "type": "object",
      "description": "Windows in which discretionary jobs start, or in which other rates apply.",
      "required": ["windows"],
      "properties": {
        "windows": {
          "type": "array", "items": {"$ref": "#/components/schemas/Window"}, "description": "All windows."
        }
      }
    }
    """#

extension Operation {
    var windowDescription: OperationDescription {
        switch self {
        case .readWindows:
            OperationDescription(
                tag: "admin", summary: "Read the windows for discretionary jobs and rates",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The windows.", content: json("Windows"), headers: ["ETag"]),
                    .unchanged,
                ])
        default:
            OperationDescription(
                tag: "admin", summary: "Change the windows", parameters: ["IfMatch"],
                body: mergePatch("WindowsPatch"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 200, text: "The changed windows.", content: json("Windows"),
                        headers: ["ETag"])
                ], problems: [412, 413, 415, 422])
        }
    }

    var scheduleDescription: OperationDescription {
        switch self {
        case .createSchedule:
            OperationDescription(
                tag: "schedules", summary: "Create a schedule", parameters: ["IdempotencyKey"],
                body: json("ScheduleRequest"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 201, text: "The created schedule.", content: json("ScheduleView"),
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
                tag: "schedules", summary: "Replace a schedule, including its job and secrets",
                parameters: ["IfMatch"], body: json("ScheduleRequest"), isBodyRequired: true,
                answers: [view("The replaced schedule.")], problems: [404, 412, 413, 415, 422])
        case .deleteSchedule:
            OperationDescription(
                tag: "schedules", summary: "Delete a schedule; its jobs are kept", parameters: ["IfMatch"],
                answers: [.init(status: 204, text: "The schedule is deleted.")], problems: [404, 412])
        case .runSchedule:
            OperationDescription(
                tag: "schedules", summary: "Submit the job of a schedule now",
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
                    ? "Pause a schedule" : "Resume a paused schedule with its next occurrence",
                parameters: ["IfMatch"], body: json("EmptyRequest"), answers: [view("The changed schedule.")],
                problems: [404, 412, 413, 415, 422])
        }
    }

    private func view(_ text: String) -> OperationDescription.Answer {
        .init(status: 200, text: text, content: json("ScheduleView"), headers: ["ETag"])
    }
}

/// Schedules, as JSON Schema 2020-12.
let scheduleSchemas = #"""
    "ScheduleID": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "ScheduleTimes": {
      "type": "object",
      "properties": {
        "description": {
          "type": ["string", "null"], "maxLength": 1024, "pattern": "^[^\\u0000]*$",
          "description": "At most 1,024 bytes of UTF-8, without U+0000."
        },
        "cron": {
          "type": ["string", "null"], "minLength": 1, "maxLength": 512,
          "examples": ["30 2 * * mon-fri", "*/15 * * * *", "0 6 L * *", "@daily"],
          "description": "Minute, hour, day of the month, month and day of the week, as in crontab(5); \#
    also L (the last day of the month), L-2, 5L (the last Friday) and 5#3 (the third), and @yearly, \#
    @monthly, @weekly, @daily and @hourly. By the wall clock of time_zone."
        },
        "interval": {
          "type": ["number", "null"], "minimum": 1, "maximum": 31536000,
          "description": "Seconds of real time between occurrences, counted from start_at or, without it, \#
    from the creation. Either this or cron."
        },
        "time_zone": {
          "type": "string", "minLength": 1, "maxLength": 64, "default": "UTC",
          "examples": ["Europe/Berlin"], "description": "An IANA name."
        },
        "start_at": {
          "type": ["string", "null"], "format": "date-time", "description": "Nothing occurs before this."
        },
        "end_at": {
          "type": ["string", "null"], "format": "date-time", "description": "Nothing occurs after this."
        },
        "jitter": {
          "type": "number", "minimum": 0, "maximum": 86400, "default": 0,
          "description": "Seconds by which each run is put off at random."
        },
        "missed": {
          "enum": ["skip", "run_once", "run_all"], "default": "run_once",
          "description": "What becomes of occurrences that nobody could submit for a minute: none is made \#
    up for, one run stands for all, or every one of the last day is."
        },
        "overlap": {
          "enum": ["allow", "skip", "cancel_previous", "queue"], "default": "allow",
          "description": "What becomes of an occurrence while an earlier one's job is not over: it runs as \#
    well, not at all, in its place, or afterwards."
        },
        "enabled": {"type": "boolean", "default": true}
      }
    },
    "ScheduleRequest": {
      "type": "object", "required": ["job"],
      "allOf": [{"$ref": "#/components/schemas/ScheduleTimes"}],
      "oneOf": [
        {
          "required": ["cron"],
          "properties": {"cron": {"type": "string"}, "interval": {"type": "null"}}
        },
        {
          "required": ["interval"],
          "properties": {"interval": {"type": "number"}, "cron": {"type": "null"}}
        }
      ],
      "properties": {
        "job": {
          "$ref": "#/components/schemas/JobRequest",
          "description": "The job of every run. request.url (path and query) and destination.path may \#
    hold {scheduled_at}, or :date, :time, :year, :month, :day, :hour, :minute and :unix of it as in \#
    {scheduled_at:date}. earliest_begin_at, deadline_at and depends_on of its schedule, and \#
    resume_data, are refused."
        }
      },
      "unevaluatedProperties": false
    },
    "ScheduleView": {
      "type": "object",
      "description": "The accepted fields with their effective values, and how far the schedule is.",
      "allOf": [{"$ref": "#/components/schemas/ScheduleTimes"}],
      "required": [
        "id", "tenant", "revision", "created_at", "updated_at", "description", "cron", "interval",
        "time_zone", "start_at", "end_at", "jitter", "missed", "overlap", "enabled", "next_scheduled_at",
        "next_run_at", "last_scheduled_at", "last_run_at", "last_job", "counts", "job"
      ],
      "properties": {
        "id": {"$ref": "#/components/schemas/ScheduleID"},
        "tenant": {"type": "string"},
        "revision": {
          "type": "integer", "minimum": 1, "description": "Grows with changes, not with runs."
        },
        "created_at": {"type": "string", "format": "date-time"},
        "updated_at": {"type": "string", "format": "date-time"},
        "next_scheduled_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "The next occurrence; null when there is none any more, or it is paused."
        },
        "next_run_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "When it is looked at: the occurrence and its jitter, or the next look while an \#
    earlier job is waited for."
        },
        "last_scheduled_at": {"type": ["string", "null"], "format": "date-time"},
        "last_run_at": {"type": ["string", "null"], "format": "date-time"},
        "last_job": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/JobID"}]},
        "counts": {
          "type": "object", "required": ["runs", "missed", "skipped"],
          "description": "Jobs submitted; occurrences given up because the service was away, and because \#
    of an earlier job.",
          "properties": {
            "runs": {"type": "integer"}, "missed": {"type": "integer"}, "skipped": {"type": "integer"}
          }
        },
        "job": {"type": "object", "required": ["kind", "request"]}
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

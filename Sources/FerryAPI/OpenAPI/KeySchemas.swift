extension Operation {
    /// Descriptions of the operations on API keys.
    var keyDescription: OperationDescription {
        switch self {
        case .createKey:
            OperationDescription(
                tag: "admin", summary: "Make a key; this answer alone shows it",
                parameters: ["IdempotencyKey"], body: json("KeyRequest"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 201, text: "The key.", content: json("NewKey"),
                        headers: ["Location", "ETag", "Idempotency-Replayed"])
                ], problems: [409, 413, 415, 422])
        case .listKeys:
            OperationDescription(
                tag: "admin", summary: "List keys, revoked ones included, newest first",
                parameters: ["Limit", "Cursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of keys.", content: json("KeyList"), headers: ["Link"])
                ])
        case .readKey:
            OperationDescription(
                tag: "admin", summary: "Read a key, without what is secret about it",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The key.", content: json("Key"), headers: ["ETag"]), .unchanged,
                ], problems: [404])
        default:
            OperationDescription(
                tag: "admin", summary: "Revoke a key for good, that of the configuration as well",
                parameters: ["IfMatch"],
                answers: [
                    .init(
                        status: 204,
                        text: "It is valid no more: here at once, on other nodes within five seconds.")
                ], problems: [404, 412])
        }
    }
}

/// API keys, as JSON Schema 2020-12.
let keySchemas = #"""
    "KeyRequest": {
      "type": "object", "required": ["name", "role"], "additionalProperties": false,
      "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$"},
        "role": {"$ref": "#/components/schemas/Role"},
        "tenant": {
          "type": "string", "pattern": "^[a-z0-9_-]{1,128}$", "default": "default",
          "description": "Whose jobs, sessions, schedules, webhooks, events and files the key is for. What \#
    is below /v1/admin is the whole service's: a key with the role admin sees and changes it for all \#
    tenants, lists, makes and revokes their keys included, whichever tenant is its own."
        }
      }
    },
    "Role": {"enum": ["viewer", "client", "admin"]},
    "Key": {
      "type": "object",
      "required": ["id", "name", "role", "tenant", "created_at", "revoked_at"],
      "properties": {
        "id": {"type": "string"}, "name": {"type": "string"},
        "role": {"$ref": "#/components/schemas/Role"},
        "tenant": {"type": "string"},
        "created_at": {"type": "string", "format": "date-time"},
        "revoked_at": {"type": ["string", "null"], "format": "date-time"}
      }
    },
    "NewKey": {
      "allOf": [{"$ref": "#/components/schemas/Key"}],
      "type": "object", "required": ["key"],
      "properties": {"key": {"type": "string", "description": "Shown in this answer alone."}}
    },
    "KeyList": {
      "type": "object", "required": ["data", "next_cursor"],
      "properties": {
        "next_cursor": {"type": ["string", "null"]},
        "data": {"type": "array", "items": {"$ref": "#/components/schemas/Key"}}
      }
    }
    """#

extension Operation {
    /// Descriptions of the operations on API keys.
    var keyDescription: OperationDescription {
        switch self {
        case .createKey:
            OperationDescription(
                tag: "admin", summary: "Create a key; only this response shows it",
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
                tag: "admin", summary: "Read a key, without its secret text",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The key.", content: json("Key"), headers: ["ETag"]), .unchanged,
                ], problems: [404])
        default:
            OperationDescription(
                tag: "admin", summary: "Revoke a key permanently, also the key of the configuration",
                parameters: ["IfMatch"],
                answers: [
                    .init(
                        status: 204,
                        text: "The key is revoked: on this node immediately, on others within 5 seconds.")
                ], problems: [404, 412])
        }
    }
}

/// API keys, as JSON Schema 2020-12.
let keySchemas = #"""
    "KeyRequest": {
      "type": "object", "description": "A key to create.", "required": ["name", "role"],
      "additionalProperties": false,
      "properties": {
        "name": {
          "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^\\u0000]*$",
          "description": "Name of the key for people."
        },
        "role": {"$ref": "#/components/schemas/Role"},
        "tenant": {
          "type": "string", "pattern": "^[a-z0-9_-]{1,128}$", "default": "default",
          "description": "Tenant whose objects the key can use. With the role admin the key also manages \#
    the whole service, the keys of all tenants included."
        }
      }
    },
    "Role": {
      "enum": ["viewer", "client", "admin"],
      "description": "Rights of a key. Each role includes the rights of the ones before it."
    },
    "Key": {
      "type": "object", "description": "An API key, without its secret text.",
      "required": ["id", "name", "role", "tenant", "created_at", "revoked_at"],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the key."},
        "name": {"type": "string", "description": "Name of the key for people."},
        "role": {"$ref": "#/components/schemas/Role"},
        "tenant": {"type": "string", "description": "Tenant whose objects the key can use."},
        "created_at": {"type": "string", "format": "date-time", "description": "Time of the creation."},
        "revoked_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time of the revocation, or null if the key is valid."
        }
      }
    },
    "NewKey": {
      "type": "object", "description": "A new API key with its secret text.",
      "required": ["id", "name", "role", "tenant", "created_at", "revoked_at", "key"],
      "properties": {
        "id": {"type": "string", "description": "Identifier of the key."},
        "name": {"type": "string", "description": "Name of the key for people."},
        "role": {"$ref": "#/components/schemas/Role"},
        "tenant": {"type": "string", "description": "Tenant whose objects the key can use."},
        "created_at": {"type": "string", "format": "date-time", "description": "Time of the creation."},
        "revoked_at": {
          "type": ["string", "null"], "format": "date-time",
          "description": "Time of the revocation, or null if the key is valid."
        },
        "key": {
          "type": "string",
          "description": "The key itself. Only this response shows it, and its repetition with the same \#
    Idempotency-Key."
        }
      }
    },
    "KeyList": {
      "type": "object", "description": "A page of keys.", "required": ["data", "next_cursor"],
      "properties": {
        "data": {
          "type": "array", "items": {"$ref": "#/components/schemas/Key"},
          "description": "The keys of the page, newest first."
        },
        "next_cursor": {
          "type": ["string", "null"],
          "description": "Cursor of the next page, or null on the last page."
        }
      }
    }
    """#

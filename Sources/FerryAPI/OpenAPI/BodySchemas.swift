internal import FerryCore

/// Escaped for a regular expression in JSON.
private let forbiddenInNames = NameCharacters.forbiddenRanges.replacing("\\", with: "\\\\")

/// Bodies, sources and destinations of jobs, as JSON Schema 2020-12.
let bodySchemas = #"""
    "Body": {
      "description": "The bytes that are sent; shown afterwards as {\"json\": {\"size\": 5}}.",
      "oneOf": [
        {
          "type": "object", "required": ["json"], "properties": {"json": {}},
          "additionalProperties": false
        },
        {
          "type": "object", "required": ["form"], "additionalProperties": false,
          "properties": {
            "form": {"type": "object", "maxProperties": 1000, "additionalProperties": {"type": "string"}}
          }
        },
        {"$ref": "#/components/schemas/InlineText"},
        {"$ref": "#/components/schemas/InlineBase64"},
        {
          "type": "object", "required": ["multipart"], "additionalProperties": false,
          "properties": {
            "multipart": {
              "type": "array", "minItems": 1, "maxItems": 100,
              "items": {"$ref": "#/components/schemas/Part"}
            }
          }
        }
      ]
    },
    "Part": {
      "description": "A part of a multipart/form-data body (RFC 7578): a field or a file. Files are \#
    streamed. A file_name that is not given is the path's last part, or what the job's answer suggested; a \#
    content_type is application/octet-stream, or that of the job's answer; text has neither. Shown \#
    afterwards with {\"size\": 5} for text and base64.",
      "type": "object", "required": ["name"],
      "oneOf": [
        {"required": ["text"]}, {"required": ["base64"]}, {"required": ["path"]}, {"required": ["job"]}
      ],
      "properties": {
        "name": {"$ref": "#/components/schemas/PartName"},
        "text": {"type": "string"},
        "base64": {"$ref": "#/components/schemas/Base64"},
        "path": {"$ref": "#/components/schemas/Path"},
        "job": {"$ref": "#/components/schemas/SourceJob"},
        "file_name": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/PartName"}]},
        "content_type": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/MediaType"}]}
      },
      "additionalProperties": false
    },
    "PartName": {
      "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\#(forbiddenInNames)]*$",
      "description": "At most 255 bytes of UTF-8, without control characters, line separators and \#
    bidirectional controls; a quote is sent as %22."
    },
    "MediaType": {
      "type": "string", "maxLength": 255,
      "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+/[A-Za-z0-9!#$%&'*+.^_`|~-]+(;[ -~]*)?$"
    },
    "SourceJob": {
      "type": "string", "pattern": "^job_[0-7][0-9A-Ha-hJKMNP-TV-Zjkmnp-tv-z]{25}$",
      "description": "A job of the same tenant: what it has left is sent, as it was fetched. It must have \#
    succeeded when this job begins."
    },
    "UploadForm": {
      "description": "Sends the source as a file of a multipart/form-data body, after the fields. \#
    integrity and result are about the file alone. Most servers want method POST.",
      "type": "object",
      "properties": {
        "field": {"$ref": "#/components/schemas/PartName", "default": "file"},
        "file_name": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/PartName"}]},
        "content_type": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/MediaType"}]},
        "fields": {
          "type": "object", "maxProperties": 99, "additionalProperties": {"type": "string"},
          "propertyNames": {"$ref": "#/components/schemas/PartName"}
        }
      },
      "additionalProperties": false
    },
    "InlineText": {
      "type": "object", "required": ["text"],
      "properties": {"text": {"type": "string"}},
      "additionalProperties": false
    },
    "InlineBase64": {
      "type": "object", "required": ["base64"], "additionalProperties": false,
      "properties": {"base64": {"$ref": "#/components/schemas/Base64"}}
    },
    "Base64": {
      "type": "string", "contentEncoding": "base64",
      "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    },
    "Source": {
      "type": "object",
      "oneOf": [
        {"required": ["path"]}, {"required": ["job"]}, {"required": ["text"]}, {"required": ["base64"]}
      ],
      "properties": {
        "path": {"$ref": "#/components/schemas/Path"},
        "job": {"$ref": "#/components/schemas/SourceJob"},
        "text": {"type": "string"},
        "base64": {"$ref": "#/components/schemas/Base64"},
        "form": {"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/UploadForm"}]}
      },
      "additionalProperties": false
    },
    "Path": {
      "type": "string", "minLength": 1, "maxLength": 1024,
      "pattern": "^(?!\\.\\.?(/|$)|\\.ferry-)[^/\#(forbiddenInNames)]{1,255}(/(?!\\.\\.?(/|$)|\\.ferry-)\#
    [^/\#(forbiddenInNames)]{1,255})*$",
      "description": "Below the tenant's storage root: relative, without empty, . or .. parts; parts of \#
    at most 255 bytes that do not begin with .ferry-; without control characters, line separators and \#
    bidirectional controls."
    }
    """#

internal import FerryCore

/// Escaped for a regular expression in JSON.
private let forbiddenInNames = NameCharacters.forbiddenRanges.replacing("\\", with: "\\\\")

/// Bodies, sources and destinations of jobs, as JSON Schema 2020-12.
let bodySchemas = #"""
    "Body": {
      "description": "Body of a request. Shown with its size instead of its content: {\"json\": {\"size\": \#
    5}}.",
      "oneOf": [
        {"$ref": "#/components/schemas/JSONBody"}, {"$ref": "#/components/schemas/FormBody"},
        {"$ref": "#/components/schemas/InlineText"}, {"$ref": "#/components/schemas/InlineBase64"},
        {"$ref": "#/components/schemas/MultipartBody"}
      ]
    },
    "JSONBody": {
      "type": "object", "required": ["json"], "additionalProperties": false,
      "properties": {"json": {"description": "Any JSON value, sent as application/json."}}
    },
    "FormBody": {
      "type": "object", "required": ["form"], "additionalProperties": false,
      "properties": {
        "form": {
          "type": "object", "maxProperties": 1000, "additionalProperties": {"type": "string"},
          "description": "Fields by name, sent as application/x-www-form-urlencoded."
        }
      }
    },
    "MultipartBody": {
      "type": "object", "required": ["multipart"], "additionalProperties": false,
      "properties": {
        "multipart": {
          "type": "array", "minItems": 1, "maxItems": 100, "items": {"$ref": "#/components/schemas/Part"},
          "description": "The parts, sent as multipart/form-data (RFC 7578)."
        }
      }
    },
    "Part": {
      "description": "A part of a multipart/form-data body (RFC 7578): a field or a file. Exactly one of \#
    text, base64, path and job is given. The content of text and base64 is shown as {\"size\": 5}.",
      "type": "object", "required": ["name"],
      "oneOf": [
        {"required": ["text"]},
        {"required": ["base64"]},
        {"required": ["path"]},
        {"required": ["job"]}
      ],
      "properties": {
        "name": {"$ref": "#/components/schemas/PartName"},
        "text": {"type": "string", "description": "Text of a field, sent as UTF-8."},
        "base64": {"$ref": "#/components/schemas/Base64"},
        "path": {"$ref": "#/components/schemas/Path"},
        "job": {"$ref": "#/components/schemas/SourceJob"},
        "file_name": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/PartName"}],
          "description": "File name of the part. Default: the last component of path, or the file name of \#
    the job; none for text and base64."
        },
        "content_type": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/MediaType"}],
          "description": "Media type of the part. Default: that of the job's content, else \#
    application/octet-stream; none for text."
        }
      },
      "additionalProperties": false
    },
    "PartName": {
      "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\#(forbiddenInNames)]*$",
      "description": "Name of a part or file: at most 255 bytes of UTF-8, without control characters, line \#
    separators and bidirectional controls. A quote is sent as %22."
    },
    "MediaType": {
      "type": "string", "description": "A media type with optional parameters.", "maxLength": 255,
      "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+/[A-Za-z0-9!#$%&'*+.^_`|~-]+(;[ -~]*)?$"
    },
    "SourceJob": {
      "type": "string", "pattern": "^job_[0-7][0-9A-Ha-hJKMNP-TV-Zjkmnp-tv-z]{25}$",
      "description": "Identifier of a job of the same tenant whose content is sent as it was received. That \#
    job must have succeeded when this one begins."
    },
    "UploadForm": {
      "description": "Sends the source as a file of a multipart/form-data body, after the fields. integrity \#
    and result cover the file only. Most servers expect the method POST.",
      "type": "object",
      "properties": {
        "field": {
          "$ref": "#/components/schemas/PartName", "default": "file",
          "description": "Name of the field that carries the file."
        },
        "file_name": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/PartName"}],
          "description": "File name of the source. Default: the last component of path, the file name of \#
    the job, or file."
        },
        "content_type": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/MediaType"}],
          "description": "Media type of the source. Default: that of the job's content, else \#
    application/octet-stream."
        },
        "fields": {
          "type": "object", "maxProperties": 99, "additionalProperties": {"type": "string"},
          "propertyNames": {"$ref": "#/components/schemas/PartName"},
          "description": "Further fields by name, sent before the file."
        }
      },
      "additionalProperties": false
    },
    "InlineText": {
      "type": "object", "description": "A text.", "required": ["text"],
      "properties": {"text": {"type": "string", "description": "The text, sent as UTF-8."}},
      "additionalProperties": false
    },
    "InlineBase64": {
      "type": "object", "description": "Bytes as base64.", "required": ["base64"],
      "additionalProperties": false,
      "properties": {"base64": {"$ref": "#/components/schemas/Base64"}}
    },
    "Base64": {
      "type": "string",
      "description": "Bytes as base64 (RFC 4648 section 4), with padding.",
      "contentEncoding": "base64",
      "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    },
    "Source": {
      "type": "object",
      "description": "Source of an upload. Exactly one of path, job, text and base64 is given.",
      "oneOf": [
        {"required": ["path"]},
        {"required": ["job"]},
        {"required": ["text"]},
        {"required": ["base64"]}
      ],
      "properties": {
        "path": {"$ref": "#/components/schemas/Path"},
        "job": {"$ref": "#/components/schemas/SourceJob"},
        "text": {"type": "string", "description": "Text to send as UTF-8."},
        "base64": {"$ref": "#/components/schemas/Base64"},
        "form": {
          "oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/UploadForm"}],
          "description": "Form that carries the source as a file, or null to send the source as the whole \#
    body."
        }
      },
      "additionalProperties": false
    },
    "Path": {
      "type": "string", "minLength": 1, "maxLength": 1024,
      "pattern": "^(?!\\.\\.?(/|$)|\\.ferry-)[^/\#(forbiddenInNames)]{1,255}(/(?!\\.\\.?(/|$)|\\.ferry-)\#
    [^/\#(forbiddenInNames)]{1,255})*$",
      "description": "Path below the tenant's storage root: relative, without empty, . or .. components. A \#
    component has at most 255 bytes and does not begin with .ferry-. No control characters, line separators \#
    and bidirectional controls."
    }
    """#

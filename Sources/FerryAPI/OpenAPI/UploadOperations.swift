extension Operation {
    /// Descriptions of the operations on staged uploads.
    var uploadDescription: OperationDescription {
        switch self {
        case .listUploads:
            .page(
                "List staged uploads, newest first", "A page of uploads.", "UploadList",
                [
                    "UploadIsComplete", "NameOfUpload", "UploadCreatedAfter", "UploadCreatedBefore", "Limit",
                    "Cursor",
                ])
        case .readUpload:
            OperationDescription(
                "Read a staged upload", ["IfNoneMatch"], nil,
                .init(200, "The upload.", json("Upload"), ["ETag"] + uploadHeaders),
                .init(204, "The state of the upload, for HEAD with a protocol.", nil, uploadHeaders),
                .unchanged, problems: [412])
        case .readUploadContent:
            OperationDescription(
                "Fetch the bytes of a complete upload",
                ["PreferRedirect", "Range", "IfRange", "IfNoneMatch", "IfMatch"], nil,
                .init(200, "The whole content.", bytes, contentHeaders + ["Digest"]),
                .init(206, "The range.", bytes, contentHeaders + ["Content-Range"]),
                .unchanged, .redirected, problems: [409, 410, 416])
        case .deleteUpload:
            OperationDescription(
                "Delete a staged upload, also while it receives bytes", ["Force"], nil,
                .init(204, "The upload is deleted."), problems: [409, 412])
        case .continueUpload:
            OperationDescription(
                "Continue an incomplete upload at its offset",
                ["UploadOffset", "UploadComplete", "UploadLength", "ContentDigest"], anyBytes,
                .init(200, "The upload is complete.", json("Upload"), ["Location"] + uploadHeaders),
                .init(204, "The upload has more bytes now.", nil, uploadHeaders),
                problems: [400, 409, 412, 507])
        case .putUpload: creation("Upload bytes under a name; a repetition with the same bytes gets 200")
        default: creation("Upload bytes of any media type")
        }
    }

    private func creation(_ summary: String) -> OperationDescription {
        OperationDescription(
            summary,
            ["UploadComplete", "UploadLength", "UploadMetadata", "ReprDigest", "ContentDigest"], anyBytes,
            .init(201, "The created upload.", json("Upload"), ["Location", "ETag"] + uploadHeaders),
            .init(
                200, "The upload that has the name and the same bytes.", json("Upload"),
                ["Location", "ETag"]),
            problems: [400, 409, 412, 507])
    }

    private var anyBytes: OperationDescription.Body {
        OperationDescription.Body(content: bytes, isRequired: false)
    }

    private var uploadHeaders: [String] {
        ["Upload-Offset", "Upload-Complete", "Upload-Length", "Upload-Limit"]
    }
}

internal import FerryCore
internal import HTTPServer

extension RequestHead {
    /// Whether the request is for staged uploads.
    var isOfUploads: Bool { path == "/v1/uploads" || path.hasPrefix("/v1/uploads/") }

    /// The method of the request. A client that can only send POST names PATCH or DELETE of an upload in
    /// `X-HTTP-Method-Override` (tus 1.0).
    var uploadMethod: String {
        guard method == "POST", isOfUploads, let other = fields["X-HTTP-Method-Override"],
            ["PATCH", "DELETE"].contains(other)
        else { return method }
        return other
    }
}

extension UploadHandlers {
    /// Adds the fields of the response to OPTIONS: the abilities of Ferry in the protocols for uploads.
    func addOptions(to fields: inout HTTPFields) {
        fields.append("Tus-Resumable", "1.0.0")
        fields.append("Tus-Version", "1.0.0")
        fields.append(
            "Tus-Extension",
            "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination,"
                + "concatenation"
        )
        if let most = services.byteCountMax { fields.append("Tus-Max-Size", "\(most)") }
        fields.append(
            "Tus-Checksum-Algorithm", UploadRequestReader.checksumAlgorithms.map(\.0).joined(separator: ","))
        fields.append(
            "Upload-Limit",
            UploadDraft.newest.limits(
                byteCountMax: services.byteCountMax, seconds: Int64(Limits.incompleteUploadSeconds)))
        fields.append("Accept-Patch", "application/partial-upload, application/offset+octet-stream")
    }
}

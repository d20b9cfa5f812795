extension JobSpec {
    /// Use of the protocols with which an upload continues where it broke off.
    public enum ResumableUploads: String, FieldChoice {
        /// The ordinary request says that it may be resumed (IETF draft), and is if the server supports that.
        case auto
        case tus
        case ietf
        case never

        public var isLeftOut: Bool { self == .auto }

        /// The protocol that an upload uses, or `nil`.
        public var dialect: UploadDialect? {
            switch self {
            case .auto, .ietf: .ietf
            case .tus: .tus
            case .never: nil
            }
        }

        /// `true` if a server that does not speak the protocol is an error.
        public var isDemanded: Bool { self == .tus || self == .ietf }
    }
}

extension JobSpec.RequestSpec {
    /// `true` if the job's own fields belong to one of the protocols: then the client speaks it itself.
    public var speaksUploadProtocol: Bool {
        headers.contains { header in
            let name = header.name.lowercased()
            return name.hasPrefix("upload-") || name.hasPrefix("tus-")
        }
    }

    /// Declares the field of the request.
    mutating func resumableUploadField(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "resumable_upload", &resumableUploads, .of(.never, kinds: .upload),
            "Whether an upload continues where it broke off. auto: a PUT, POST or PATCH with a body of at "
                + "least 1 MiB says that it may be resumed (IETF draft of resumable uploads), and is if the "
                + "server supports that. ietf, tus: the server must speak the draft, or tus 1.0.0. never: "
                + "nothing of it is sent.")
    }

    /// Reports combinations that are not allowed.
    func checkResumableUploads(_ fields: FieldDecoder) {
        guard resumableUploads.isDemanded else { return }
        if speaksUploadProtocol {
            fields.fail(
                "resumable_upload", "invalid_combination",
                "Give either this or the header fields of the protocol (Upload-*, Tus-*).")
        }
        let allowed = resumableUploads == .tus ? ["POST"] : ["POST", "PUT", "PATCH"]
        if fields.isValid("method"), !allowed.contains(method) {
            fields.fail(
                "method", "invalid_combination",
                "With resumable_upload \(resumableUploads.rawValue), the method is "
                    + "\(allowed.joined(separator: ", or ")).")
        }
    }
}

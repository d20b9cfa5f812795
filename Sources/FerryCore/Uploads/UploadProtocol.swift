/// Protocol that a request for a staged upload speaks. All protocols act on the same uploads.
public enum UploadProtocol: Sendable, Equatable {
    /// HTTP without further fields: the body is the whole upload.
    case plain
    /// tus 1.0.
    case tus
    /// Resumable uploads of the IETF (draft-ietf-httpbis-resumable-upload).
    case resumable(UploadDraft)
}

/// Version of the IETF's protocol: the interop version of a draft. Until the protocol is final, clients name
/// it in `Upload-Draft-Interop-Version`.
public struct UploadDraft: Sendable, Equatable {
    /// Interop version, from 3 to 8.
    public let version: Int
    /// Whether the client has named this version: only then interim responses are sent.
    public let isNamed: Bool

    /// Versions that Ferry speaks. Version 4 differs from 5 in nothing that Ferry sends.
    public static let versions = 3...8
    /// The newest version, for clients that name none.
    public static let newest = UploadDraft(version: versions.upperBound, isNamed: false)

    init(version: Int, isNamed: Bool) {
        self.version = version
        self.isNamed = isNamed
    }

    /// Reads the value of `Upload-Draft-Interop-Version`. A version that Ferry does not speak reads as the
    /// newest one, which the client has not named.
    init(_ text: String?) {
        guard let number = text.flatMap(StructuredItem.integer), Self.versions.contains(Int(number)) else {
            self = .newest
            return
        }
        self.init(version: Int(number), isNamed: true)
    }

    /// Whether a request that appends must have the media type `application/partial-upload`.
    public var needsMediaType: Bool { version >= 6 }
    /// Whether a request that appends must say whether it completes the upload.
    var needsCompletion: Bool { version >= 7 }
    /// Whether responses have `Upload-Limit` and `Upload-Length`.
    public var hasLimits: Bool { version >= 6 }

    /// Returns the value of `Upload-Limit`. `byteCountMax`: bytes of an upload at most, or `nil`; `seconds`:
    /// time until an incomplete upload is removed.
    public func limits(byteCountMax: Int64?, seconds: Int64) -> String {
        let age = "\(version == 6 ? "expires" : "max-age")=\(seconds)"
        guard let byteCountMax else { return "min-size=0, \(age)" }
        return "max-size=\(byteCountMax), \(age)"
    }

    /// Returns the field that tells whether an upload is complete.
    public func completion(_ isComplete: Bool) -> (name: String, value: String) {
        version == 3
            ? ("Upload-Incomplete", isComplete ? "?0" : "?1") : ("Upload-Complete", isComplete ? "?1" : "?0")
    }
}

/// Items of structured fields (RFC 9651 §3.3), without their parameters.
enum StructuredItem {
    /// Returns a number from 0 on, or `nil` for anything else.
    static func integer(_ text: String) -> Int64? {
        let digits = bare(text)
        guard (1...15).contains(digits.utf8.count), digits.utf8.allSatisfy({ (48...57).contains($0) }) else {
            return nil
        }
        return Int64(digits)
    }

    /// Returns `true` for `?1`, `false` for `?0`, `nil` for anything else.
    static func boolean(_ text: String) -> Bool? {
        switch bare(text) {
        case "?1": true
        case "?0": false
        default: nil
        }
    }

    private static func bare(_ text: String) -> Substring {
        var item = text.prefix { $0 != ";" }.drop { $0 == " " }
        while item.last == " " { item.removeLast() }
        return item
    }
}

import FerryCore

/// A page of the response to `ListObjectsV2`.
struct ObjectPage: Sendable, Equatable {
    /// An object of the bucket.
    struct Entry: Sendable, Equatable {
        var key = ""
        var modifiedAt = Timestamp.distantFuture
    }

    private(set) var entries: [Entry] = []
    /// The token of the next page; `nil` if this is the last one.
    private(set) var next: String?

    /// `nil` if the body is no whole page.
    init?(_ body: [UInt8]) {
        var scanner = XMLScanner(body)
        var entry = Entry()
        var isTruncated = false
        while let element = scanner.next() {
            switch (element.parent, element.name) {
            case ("Contents", "Key"): entry.key = element.text
            case ("Contents", "LastModified"):
                entry.modifiedAt = Timestamp(rfc3339: trimmed(element.text)) ?? .distantFuture
            case ("ListBucketResult", "Contents"):
                entries.append(entry)
                entry = Entry()
            case ("ListBucketResult", "IsTruncated"): isTruncated = trimmed(element.text) == "true"
            case ("ListBucketResult", "NextContinuationToken"): next = trimmed(element.text)
            case ("", "ListBucketResult"):
                if !isTruncated { next = nil }
                return
            default: break
            }
        }
        return nil
    }

    /// Leaves out the begin of all keys, and the objects whose keys begin otherwise.
    mutating func removePrefix(_ prefix: String) {
        entries = entries.compactMap { entry in
            guard entry.key.hasPrefix(prefix) else { return nil }
            return Entry(key: String(entry.key.dropFirst(prefix.count)), modifiedAt: entry.modifiedAt)
        }
    }
}

/// A page of the response to `ListMultipartUploads`.
struct MultipartUploadPage: Sendable, Equatable {
    /// A multipart upload that is not complete.
    struct Entry: Sendable, Equatable {
        var key = ""
        var upload = ""
        var initiatedAt = Timestamp.distantFuture
    }

    private(set) var entries: [Entry] = []
    /// The upload after which the next page begins; `nil` if this is the last one.
    private(set) var next: Marker?

    /// The upload that the next page begins behind.
    struct Marker: Sendable, Equatable {
        var key = ""
        var upload = ""
    }

    /// `nil` if the body is no whole page.
    init?(_ body: [UInt8]) {
        var scanner = XMLScanner(body)
        var entry = Entry()
        var marker = Marker()
        var isTruncated = false
        while let element = scanner.next() {
            switch (element.parent, element.name) {
            case ("Upload", "Key"): entry.key = element.text
            case ("Upload", "UploadId"): entry.upload = trimmed(element.text)
            case ("Upload", "Initiated"):
                entry.initiatedAt = Timestamp(rfc3339: trimmed(element.text)) ?? .distantFuture
            case ("ListMultipartUploadsResult", "Upload"):
                entries.append(entry)
                entry = Entry()
            case ("ListMultipartUploadsResult", "IsTruncated"): isTruncated = trimmed(element.text) == "true"
            case ("ListMultipartUploadsResult", "NextKeyMarker"): marker.key = element.text
            case ("ListMultipartUploadsResult", "NextUploadIdMarker"): marker.upload = trimmed(element.text)
            case ("", "ListMultipartUploadsResult"):
                next = isTruncated && !marker.key.isEmpty ? marker : nil
                return
            default: break
            }
        }
        return nil
    }
}

extension JobSpec.StoreObject {
    /// URL of the object, as requests name it; `nil` if the members make no URL.
    public var url: WebURL? { url(in: region ?? Self.standardRegion) }

    /// Returns the URL of the object in a region, which the hosts of Amazon S3 name.
    public func url(in region: String) -> WebURL? {
        let path = "/" + Self.percentEncoded(key)
        guard let origin = storeOrigin(region) else { return nil }
        // `JobSpec.checkObject` reports that there is no URL.
        switch addressing ?? standardAddressing {
        case .virtual: return try? WebURL.parse("\(origin.scheme)://\(bucket).\(origin.authority)\(path)")
        case .path: return try? WebURL.parse("\(origin.scheme)://\(origin.authority)/\(bucket)\(path)")
        }
    }

    /// `true` if the object is in Amazon S3, whose hosts name their region.
    public var isInAmazonS3: Bool { endpoint == nil }

    private func storeOrigin(_ region: String) -> (scheme: String, authority: String)? {
        guard let endpoint else {
            // Regions of China have a domain of their own.
            let domain = region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
            return ("https", "s3.\(region).\(domain)")
        }
        guard let url = try? WebURL.parse(endpoint) else { return nil }
        let isStandardPort = url.port == url.scheme.defaultPort
        return (url.scheme.rawValue, isStandardPort ? url.host : "\(url.host):\(url.port)")
    }

    /// A certificate of `*.s3.…` covers no name with a dot, and host names have no upper case.
    private var standardAddressing: Addressing {
        guard endpoint == nil else { return .path }
        return bucket.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 0x2D }
            ? .virtual : .path
    }

    /// Percent-encodes a key once, as signatures demand it: all but unreserved characters (RFC 3986 §2.3) and
    /// slashes.
    private static func percentEncoded(_ key: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(key.utf8.count)
        for byte in key.utf8 {
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: "/"):
                text.append(byte)
            default: text += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// The short form of an object in Amazon S3: `s3://bucket/key`. `JobRequest` replaces it by the object, so
/// that decoding meets other URLs only. The key is taken as it is written.
enum ObjectURL {
    /// Returns the bucket and the key of an `s3` URL; `nil` for other texts.
    static func parts(of text: String) -> (bucket: String, key: String)? {
        guard text.utf8.starts(with: "s3://".utf8) else { return nil }
        let parts = text.dropFirst(5).split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
    }
}

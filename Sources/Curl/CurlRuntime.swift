import CCurl
import Glibc

/// The libcurl that is loaded: initialised once for the process, and known to have what the wrapper needs.
package struct CurlRuntime: Sendable {
    /// The running libcurl, or why it cannot be used. The first reader initialises libcurl
    /// (curl_global_init(3), thread-safe since 7.84); it is never torn down.
    package static let loaded: Result<CurlRuntime, UnusableCurl> = load()

    /// As libcurl writes it: `7.88.1`.
    package let version: String
    /// `0xXXYYZZ`, as in CURL_VERSION_BITS.
    package let versionNumber: UInt32
    /// The TLS library and its version, or nil when libcurl was built without.
    package let tlsVersion: String?
    /// Whether libcurl was built with HTTP/2.
    package let hasHTTP2: Bool
    package let hasHTTP3: Bool
    /// Whether libcurl was built with NTLM.
    package let hasNTLM: Bool
    /// Content codings that libcurl was built to undo, as they are named in `Content-Encoding`; those whose
    /// decoders take no more memory than the coding needs.
    package let contentCodings: [String]
    /// The file of trusted certificates that every request uses unless it brings its own: libcurl's own
    /// default when it is readable, otherwise the first of the usual places; nil when there is none.
    package let certificateFile: String?

    /// Whether HTTP/2 may carry bulk data: before 8.0.0 an aborted body could count as complete, and until
    /// 8.2.1 uploads could stall (curl's changelog).
    package var supportsSafeHTTP2: Bool { hasHTTP2 && versionNumber >= 0x08_0201 }

    private static func load() -> Result<CurlRuntime, UnusableCurl> {
        // OpenSSL and PostgreSQL write to sockets without MSG_NOSIGNAL; CURLOPT_NOSIGNAL leaves it to us.
        signal(SIGPIPE, SIG_IGN)
        let code = curl_global_init(Int(CURL_GLOBAL_DEFAULT))
        guard code == CURLE_OK else {
            return .failure(UnusableCurl(reason: "curl_global_init failed with code \(code.rawValue)"))
        }
        guard let info = curl_version_info(CCURL_VERSION_NOW)?.pointee else {
            return .failure(UnusableCurl(reason: "libcurl does not tell its version"))
        }
        let version = String(cString: info.version)
        // CURLOPT_PROTOCOLS_STR came with 7.85; without it the protocols cannot be limited in one place.
        guard info.version_num >= 0x07_5500 else {
            return .failure(UnusableCurl(reason: "libcurl \(version) is too old: 7.85.0 or later is needed"))
        }
        guard info.features & CURL_VERSION_THREADSAFE != 0 || info.version_num >= 0x07_5800 else {
            return .failure(UnusableCurl(reason: "libcurl \(version) was built without thread safety"))
        }
        let ownFile = info.cainfo.map { String(cString: $0) }
        let places = [
            ownFile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
        ]
        return .success(
            CurlRuntime(
                version: version, versionNumber: info.version_num,
                tlsVersion: info.ssl_version.map { String(cString: $0) },
                hasHTTP2: info.features & CURL_VERSION_HTTP2 != 0,
                hasHTTP3: info.features & CURL_VERSION_HTTP3 != 0,
                hasNTLM: info.features & CURL_VERSION_NTLM != 0,
                contentCodings: codings(info.features),
                certificateFile: places.compactMap { $0 }.first { access($0, R_OK) == 0 }))
    }
}

extension CurlRuntime {
    /// Not zstd: no libcurl keeps to the window of 8 MiB (RFC 9659), and 4 KiB of answer take 128 MiB.
    private static func codings(_ features: Int32) -> [String] {
        let known = [
            ("gzip", CURL_VERSION_LIBZ), ("deflate", CURL_VERSION_LIBZ), ("br", CURL_VERSION_BROTLI),
        ]
        return known.filter { features & $0.1 != 0 }.map(\.0)
    }
}

/// Why the libcurl that is loaded cannot be used; a sentence for the operator.
package struct UnusableCurl: Error, CustomStringConvertible {
    package let reason: String
    package var description: String { reason }
}

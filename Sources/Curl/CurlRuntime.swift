import CCurl
import Glibc

/// The loaded libcurl, initialised for the process and checked for what this target needs.
public struct CurlRuntime: Sendable {
    /// The loaded libcurl, or why it cannot be used. The first access initialises libcurl
    /// (curl_global_init(3), thread-safe since 7.84). It is never cleaned up.
    public static let loaded: Result<CurlRuntime, UnusableCurl> = load()

    /// Version, such as `7.88.1`.
    public let version: String
    /// Version as `0xXXYYZZ` (CURL_VERSION_BITS).
    public let versionNumber: UInt32
    /// Name and version of the TLS library, or `nil` if libcurl was built without TLS.
    public let tlsVersion: String?
    /// `true` if libcurl was built with HTTP/2.
    public let hasHTTP2: Bool
    /// `true` if libcurl was built with HTTP/3.
    public let hasHTTP3: Bool
    /// `true` if libcurl was built with NTLM.
    public let hasNTLM: Bool
    /// File of trusted certificates for requests that set none: libcurl's default if it is readable, else the
    /// first file that is readable in the usual places; `nil` if there is none.
    public let certificateFile: String?

    /// `true` if HTTP/2 may be used for transfers. Before 8.0.0 an aborted body could count as complete, and
    /// until 8.2.1 uploads could stall (curl's changelog).
    public var supportsSafeHTTP2: Bool { hasHTTP2 && versionNumber >= 0x08_0201 }

    private static func load() -> Result<CurlRuntime, UnusableCurl> {
        // OpenSSL and libpq write to sockets without MSG_NOSIGNAL, and with CURLOPT_NOSIGNAL so does libcurl.
        signal(SIGPIPE, SIG_IGN)
        let code = curl_global_init(Int(CURL_GLOBAL_DEFAULT))
        guard code == CURLE_OK else {
            return .failure(UnusableCurl(reason: "curl_global_init failed with code \(code.rawValue)"))
        }
        guard let info = curl_version_info(CCURL_VERSION_NOW)?.pointee else {
            return .failure(UnusableCurl(reason: "libcurl does not report its version"))
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
                certificateFile: places.compactMap { $0 }.first { access($0, R_OK) == 0 }))
    }
}

/// Reason for which the loaded libcurl cannot be used.
public struct UnusableCurl: Error, CustomStringConvertible {
    /// One sentence for the operator.
    public let reason: String
    /// Same as `reason`.
    public var description: String { reason }
}

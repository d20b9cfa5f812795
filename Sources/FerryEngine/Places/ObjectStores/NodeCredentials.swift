import FerryCore
import Glibc
import Synchronization

/// Objects that the node asks for with its own key (`FERRY_S3_CREDENTIALS_ALLOW`).
package struct StoreAllowances: Sendable {
    /// The objects of a tenant's jobs in one bucket.
    fileprivate struct Allowance: Sendable {
        /// `nil` for every tenant.
        let tenant: String?
        /// `nil` for every bucket.
        let bucket: String?
        /// Origin of the store; `nil` for Amazon S3.
        let origin: String?
    }

    private let all: [Allowance]

    /// An entry that is neither `TENANT:BUCKET` nor `TENANT:BUCKET@URL`.
    package struct InvalidEntry: Error {
        /// The entry.
        package let text: String
    }

    /// `entries`: `TENANT:BUCKET` for Amazon S3, and `TENANT:BUCKET@URL` for another store; `*` stands for
    /// every tenant or bucket.
    package init(_ entries: [String]) throws(InvalidEntry) {
        var all: [Allowance] = []
        for entry in entries {
            guard let allowance = Allowance(entry) else { throw InvalidEntry(text: entry) }
            all.append(allowance)
        }
        self.all = all
    }

    /// `true` if no object is allowed.
    package var isEmpty: Bool { all.isEmpty }

    func cover(_ object: JobSpec.StoreObject, of tenant: String) -> Bool {
        all.contains { $0.covers(object, tenant) }
    }
}

extension StoreAllowances.Allowance {
    /// `nil` if the entry is invalid.
    init?(_ entry: String) {
        let url = entry.firstRange(of: "://")
        let at = url.flatMap { entry[..<$0.lowerBound].lastIndex(of: "@") }
        guard (url == nil) == (at == nil) else { return nil }
        let names = entry[..<(at ?? entry.endIndex)]
        guard let colon = names.lastIndex(of: ":") else { return nil }
        let (tenant, bucket) = (String(names[..<colon]), String(names[names.index(after: colon)...]))
        guard tenant == "*" || APIKey.isTenant(tenant), !bucket.isEmpty,
            bucket.utf8.allSatisfy({ $0 > 0x20 && $0 != UInt8(ascii: "@") })
        else { return nil }
        self.tenant = tenant == "*" ? nil : tenant
        self.bucket = bucket == "*" ? nil : bucket
        guard let at else {
            origin = nil
            return
        }
        let text = String(entry[entry.index(after: at)...])
        // The caller says which entry is invalid.
        guard let url = try? WebURL.parse(text), url.path == "/", url.query == nil else { return nil }
        origin = url.origin
    }

    func covers(_ object: JobSpec.StoreObject, _ tenant: String) -> Bool {
        guard self.tenant ?? tenant == tenant, bucket ?? object.bucket == object.bucket else { return false }
        // An object whose endpoint is no URL is refused before.
        return origin == object.endpoint.flatMap { try? WebURL.parse($0).origin }
    }
}

/// The node's own key for object stores, for the objects that the operator allows. Any thread.
///
/// The key is that of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`),
/// else the one in the shared credentials file of Amazon's tools (`AWS_SHARED_CREDENTIALS_FILE`, by default
/// `~/.aws/credentials`) in the section that `AWS_PROFILE` names. The file is read again when it has changed,
/// since temporary keys are replaced. Metadata services are never asked.
package final class NodeCredentials: Sendable {
    /// A key as a version of the file has it.
    private struct FileKey {
        let version: FileVersion
        let key: AccessKey?
    }

    private struct FileVersion: Equatable {
        let seconds: Int
        let nanoseconds: Int
        let byteCount: Int
        let inode: UInt
    }

    private let allowances: StoreAllowances
    private let own: AccessKey?
    private let path: String?
    private let profile: String
    private let known = Mutex<FileKey?>(nil)

    /// `environment`: variables of the process.
    package init(_ allowances: StoreAllowances, environment: [String: String]) {
        self.allowances = allowances
        func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
        own = value("AWS_ACCESS_KEY_ID").flatMap { id in
            value("AWS_SECRET_ACCESS_KEY").map { secret in
                AccessKey(
                    accessKeyID: id, secretAccessKey: secret, sessionToken: value("AWS_SESSION_TOKEN"))
            }
        }
        path = value("AWS_SHARED_CREDENTIALS_FILE") ?? value("HOME").map { $0 + "/.aws/credentials" }
        profile = value("AWS_PROFILE") ?? "default"
    }

    /// Returns the key for an object of a tenant's job; `nil` if the job may not use it, or there is none.
    func key(for object: JobSpec.StoreObject, of tenant: String) -> AccessKey? {
        allowances.cover(object, of: tenant) ? current : nil
    }

    /// `true` if objects are allowed, and there is no key for them now.
    package var lacksKey: Bool { !allowances.isEmpty && current == nil }

    private var current: AccessKey? {
        if let own { return own }
        var status = stat()
        guard let path, stat(path, &status) == 0 else { return nil }
        let version = FileVersion(
            seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec,
            byteCount: Int(status.st_size), inode: UInt(status.st_ino))
        return known.withLock { known in
            if let known, known.version == version { return known.key }
            let key = CredentialsFile(path)?.key(of: profile)
            known = FileKey(version: version, key: key)
            return key
        }
    }
}

/// The shared credentials file of Amazon's tools: sections in brackets with lines `name = value`.
private struct CredentialsFile {
    private var sections: [String: [String: String]] = [:]

    /// `nil` if the file cannot be read.
    init?(_ path: String) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.byteCountMax)
        let count = read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { return nil }
        var section = ""
        for line in String(decoding: bytes.prefix(count), as: UTF8.self).split(whereSeparator: \.isNewline) {
            let line = line.trimmingPrefix { $0.isWhitespace }
            if line.first == "[", let end = line.firstIndex(of: "]") {
                section = String(line[line.index(after: line.startIndex)..<end])
                continue
            }
            guard line.first != "#", line.first != ";", let equals = line.firstIndex(of: "=") else {
                continue
            }
            let parts = [line[..<equals], line[line.index(after: equals)...]].map { part in
                String(part.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
            }
            sections[section, default: [:]][parts[0].lowercased()] = parts[1]
        }
    }

    /// Bytes of the file that are read.
    private static let byteCountMax = 256 << 10

    /// Returns the key of a section; `nil` if it has none.
    func key(of profile: String) -> AccessKey? {
        guard let section = sections[profile], let id = section["aws_access_key_id"], !id.isEmpty,
            let secret = section["aws_secret_access_key"], !secret.isEmpty
        else { return nil }
        return AccessKey(
            accessKeyID: id, secretAccessKey: secret, sessionToken: section["aws_session_token"])
    }
}

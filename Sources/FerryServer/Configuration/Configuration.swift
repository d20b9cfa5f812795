package import FerryCore
package import FerryEngine
import Glibc
package import Logging
import Sys

/// Everything an operator can set, validated. Secrets are in here: it never describes itself.
package struct Configuration: Sendable {
    package enum Role: String, Sendable, CaseIterable { case api, worker, webhooks }
    package enum FileSync: String, Sendable, CaseIterable { case full, none }
    package enum Notify: String, Sendable, CaseIterable { case on, off }
    package enum LogFormat: String, Sendable, CaseIterable { case text, json }

    package var listenHost: String
    package var listenPort: UInt16
    package var dataDirectory: String
    package var storageRoot: String
    /// Where the files of all tenants but `default` are.
    package var tenantStorageRoot: String
    /// Whether the operator has named the directory; otherwise Ferry makes its own in the data directory.
    package var isStorageRootNamed: Bool
    package var isTenantStorageRootNamed: Bool
    /// Of files and directories that transfers make; nil: the standard one of each root.
    package var umask: UInt32?
    /// Nil: a private PostgreSQL in the data directory.
    package var databaseURL: String?
    package var adminKey: String?
    package var secretKey: String?
    package var webhookSecret: WebhookSecret?
    package var egressAllow: [IPNetwork]
    /// For transfers that name no proxy of their own; nil: none.
    package var proxy: ServiceProxy?
    package var fileSync: FileSync
    /// Bytes that downloads leave free.
    package var storageReserve: Int64
    /// Seconds, as in `EngineConfiguration`.
    package var storageTimeout: Double
    /// Until they are changed over the API.
    package var limits: TransferLimits
    package var concurrency: Int
    /// Unfinished jobs that one tenant may have.
    package var unfinishedJobs: Int64
    package var roles: Set<Role>
    /// Whether nodes tell each other with NOTIFY what they would find by looking as well.
    package var notify: Notify
    package var logLevel: Logger.Level
    package var logFormat: LogFormat
    /// The account that runs the private PostgreSQL when Ferry is started as root.
    package var postgresUser: String
    /// Threads that run libcurl.
    package var transferLoops: Int
    /// Simultaneous connections of the HTTP server.
    package var httpConnections: Int
    /// Requests a second that one key may make over time, and at once.
    package var rateLimit: Double
    package var rateBurst: Double
    /// Seconds that running transfers get to end after SIGTERM.
    package var drainSeconds: Double
    /// Seconds for which events are kept.
    package var eventRetention: Double
    /// Seconds for which finished jobs and the files kept for them stay.
    package var retentionSeconds: Double
    /// What was set and means nothing.
    package var unknownSettings: [UnknownSetting]

    /// Why a configuration cannot be used: one sentence that names the setting.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String
    }
}

/// One setting: its name as an environment variable, and what it means (for `docs/configuration.md` and
/// `ferry check`).
package struct Setting: Sendable {
    package let name: String
    package let meaning: String
    package let fallback: String
    /// Also readable from the file that `NAME_FILE` names; never shown.
    package let isSecret: Bool

    package static let all: [Setting] = [
        Setting("FERRY_LISTEN", "address and port of the API", "127.0.0.1:8080"),
        Setting("FERRY_DATA_DIR", "files, staged uploads, the private PostgreSQL", "./ferry-data"),
        Setting(
            "FERRY_STORAGE_ROOT", "where destination.path and source.path of the tenant default live",
            "$FERRY_DATA_DIR/files"),
        Setting(
            "FERRY_TENANT_STORAGE_ROOT", "where those of other tenants live, in TENANT/files",
            "$FERRY_DATA_DIR/tenants"),
        Setting(
            "FERRY_UMASK", "umask (octal) of the files and directories that transfers make",
            "0027, in a root that is named 0022"),
        Setting("FERRY_DATABASE_URL", "libpq URI, several hosts allowed", "", isSecret: true),
        Setting("FERRY_ADMIN_KEY", "the first admin key", "", isSecret: true),
        Setting(
            "FERRY_SECRET_KEY", "key that encrypts stored secrets; the same on every node", "", isSecret: true
        ),
        Setting(
            "FERRY_WEBHOOK_SECRET", "whsec_…: signs webhooks of jobs without a secret of their own", "",
            isSecret: true),
        Setting(
            "FERRY_EGRESS_ALLOW", "networks (CIDR, comma separated) that may be reached although not public",
            ""),
        Setting(
            "FERRY_PROXY", "proxy of transfers that name none: http, https or socks5 URL with its port", "",
            isSecret: true),
        Setting(
            "FERRY_NO_PROXY", "hosts, addresses and networks that are reached without FERRY_PROXY", ""),
        Setting("FERRY_FILE_SYNC", "full or none", "full"),
        Setting("FERRY_STORAGE_RESERVE", "bytes that downloads leave free on each disk", "268435456"),
        Setting(
            "FERRY_STORAGE_TIMEOUT", "seconds without an answer of the disk after which its attempts end",
            "120"),
        Setting(
            "FERRY_MAX_BYTES_PER_SECOND", "bytes a second of all transfers together, in each direction", ""),
        Setting("FERRY_MAX_BYTES_PER_SECOND_PER_HOST", "bytes a second of one host on this node", ""),
        Setting("FERRY_CONCURRENCY", "transfers at once on this node", "256"),
        Setting("FERRY_MAX_UNFINISHED_JOBS", "unfinished jobs that one tenant may have", "5000000"),
        Setting("FERRY_ROLES", "api,worker,webhooks", "api,worker,webhooks"),
        Setting("FERRY_NOTIFY", "on or off: whether nodes listen for notifications of the database", "on"),
        Setting("FERRY_LOG_LEVEL", "trace, debug, info, notice, warning, error, critical", "info"),
        Setting("FERRY_LOG_FORMAT", "text or json", "text on a terminal, else json"),
        Setting("FERRY_POSTGRES_USER", "account of the private PostgreSQL when started as root", "postgres"),
        Setting("FERRY_TRANSFER_LOOPS", "threads that run libcurl", "2"),
        Setting("FERRY_HTTP_CONNECTIONS", "simultaneous connections of the API", "2000"),
        Setting("FERRY_RATE_LIMIT", "requests a second of one key", "20000"),
        Setting("FERRY_RATE_BURST", "requests at once of one key", "40000"),
        Setting("FERRY_RETENTION", "seconds for which finished jobs and kept files stay, at least", "604800"),
        Setting("FERRY_DRAIN_SECONDS", "seconds that running transfers get after SIGTERM", "20"),
        Setting("FERRY_EVENT_RETENTION", "seconds for which events are kept", "604800"),
    ]

    private init(_ name: String, _ meaning: String, _ fallback: String, isSecret: Bool = false) {
        self.name = name
        self.meaning = meaning
        self.fallback = fallback
        self.isSecret = isSecret
    }
}

/// Where values come from: flags, then environment, then the file that FERRY_CONFIG names, then defaults. An
/// empty value is none, in each of them.
package struct SettingSource: Sendable {
    private let values: [String: String]
    /// In the environment.
    package let unknown: [UnknownSetting]

    /// Throws for unknown `FERRY_…` names in the file, unreadable files, empty files of secrets, and secrets
    /// given twice.
    package init(flags: [String: String], environment: [String: String]) throws(Configuration.Failure) {
        var values: [String: String] = [:]
        let files = [flags, environment].compactMap { $0["FERRY_CONFIG"] }
        if let path = files.first(where: { !$0.isEmpty }) {
            values = try Self.parse(file: path)
        }
        for source in [environment, flags] {
            for setting in Setting.all {
                if let value = source[setting.name], !value.isEmpty { values[setting.name] = value }
                guard setting.isSecret, let path = source[setting.name + "_FILE"], !path.isEmpty else {
                    continue
                }
                guard source[setting.name, default: ""].isEmpty else {
                    throw Configuration.Failure(
                        description: "\(setting.name) and \(setting.name)_FILE are both set; one is enough.")
                }
                values[setting.name] = try Self.readSecret(path, for: setting.name + "_FILE")
            }
        }
        self.values = values
        unknown = UnknownSetting.all(in: environment)
    }

    package subscript(name: String) -> String? { values[name] }

    /// Lines of `NAME=value`; `#` begins a comment line.
    private static func parse(file path: String) throws(Configuration.Failure) -> [String: String] {
        var values: [String: String] = [:]
        let known = Set(Setting.all.flatMap(\.names))
        // To Swift the two characters of a line's end from Windows are one, and no "\n".
        let lines = try read(path, for: "FERRY_CONFIG").split(omittingEmptySubsequences: false) {
            $0 == "\n" || $0 == "\r\n"
        }
        for (index, line) in lines.enumerated() {
            let text = String(line).trimmed
            if text.isEmpty || text.hasPrefix("#") { continue }
            guard let equals = text.firstIndex(of: "=") else {
                throw Configuration.Failure(description: "\(path), line \(index + 1): expected NAME=value.")
            }
            let name = String(text[..<equals]).trimmed
            guard known.contains(name) else {
                let hint = UnknownSetting(name).nearest.map { "; is \($0) meant?" } ?? "."
                throw Configuration.Failure(
                    description: "\(path), line \(index + 1): there is no setting \(name)\(hint)")
            }
            let value = String(text[text.index(after: equals)...]).trimmed
            if value.isEmpty { continue }
            if name.hasSuffix("_FILE") {
                values[String(name.dropLast(5))] = try readSecret(value, for: name)
            } else {
                values[name] = value
            }
        }
        return values
    }

    /// Whoever names a file means a secret to be in it: without one there would be another database, or key.
    private static func readSecret(
        _ path: String, for name: String
    ) throws(Configuration.Failure) -> String {
        let secret = try read(path, for: name).trimmed
        guard !secret.isEmpty else {
            throw Configuration.Failure(description: "\(name): the file \(path) is empty.")
        }
        return secret
    }

    private static func read(_ path: String, for name: String) throws(Configuration.Failure) -> String {
        guard let bytes = try? readFile(path, byteCountMax: 1 << 20),
            let text = String(validating: bytes, as: UTF8.self)
        else {
            throw Configuration.Failure(description: "\(name): the file \(path) cannot be read.")
        }
        return text
    }
}

extension Configuration {
    package init(_ source: SettingSource, isTerminal: Bool) throws(Failure) {
        let read = SettingReader(source: source)
        (listenHost, listenPort) = try Self.address(read.value("FERRY_LISTEN"))
        dataDirectory = absolutePath(read.value("FERRY_DATA_DIR"))
        storageRoot = absolutePath(source["FERRY_STORAGE_ROOT"] ?? dataDirectory + "/files")
        tenantStorageRoot = absolutePath(source["FERRY_TENANT_STORAGE_ROOT"] ?? dataDirectory + "/tenants")
        isStorageRootNamed = source["FERRY_STORAGE_ROOT"] != nil
        isTenantStorageRootNamed = source["FERRY_TENANT_STORAGE_ROOT"] != nil
        umask = try Self.umask(source["FERRY_UMASK"])
        databaseURL = source["FERRY_DATABASE_URL"]
        adminKey = source["FERRY_ADMIN_KEY"]
        secretKey = source["FERRY_SECRET_KEY"]
        webhookSecret = try Self.webhookSecret(source["FERRY_WEBHOOK_SECRET"])
        egressAllow = try read.value("FERRY_EGRESS_ALLOW").split(separator: ",").map { part throws(Failure) in
            let text = String(part).trimmed
            guard let network = IPNetwork(cidr: text) else {
                throw Failure(
                    description: "FERRY_EGRESS_ALLOW: \(text) is not a network such as 10.1.0.0/16.")
            }
            return network
        }
        proxy = try Self.proxy(source["FERRY_PROXY"], exceptions: read.value("FERRY_NO_PROXY"))
        fileSync = try read.choice("FERRY_FILE_SYNC")
        storageReserve = Int64(try read.integer("FERRY_STORAGE_RESERVE", 0...(1 << 53)))
        storageTimeout = try read.number("FERRY_STORAGE_TIMEOUT", 12...86_400)
        let rate = try read.rate("FERRY_MAX_BYTES_PER_SECOND")
        limits = TransferLimits(
            bytesReceivedPerSecondMax: rate, bytesSentPerSecondMax: rate,
            bytesPerSecondPerHostMax: try read.rate("FERRY_MAX_BYTES_PER_SECOND_PER_HOST"))
        concurrency = try read.integer("FERRY_CONCURRENCY", 1...20_000)
        unfinishedJobs = Int64(try read.integer("FERRY_MAX_UNFINISHED_JOBS", 1...1_000_000_000))
        roles = Set(
            try read.value("FERRY_ROLES").split(separator: ",").map { part throws(Failure) in
                try read.choice("FERRY_ROLES", String(part).trimmed) as Role
            })
        notify = try read.choice("FERRY_NOTIFY")
        logLevel = try read.choice("FERRY_LOG_LEVEL")
        logFormat =
            source["FERRY_LOG_FORMAT"] == nil
            ? (isTerminal ? .text : .json) : try read.choice("FERRY_LOG_FORMAT")
        postgresUser = read.value("FERRY_POSTGRES_USER")
        transferLoops = try read.integer("FERRY_TRANSFER_LOOPS", 1...16)
        httpConnections = try read.integer("FERRY_HTTP_CONNECTIONS", 16...10_000)
        rateLimit = try read.number("FERRY_RATE_LIMIT", 1...1e9)
        rateBurst = try read.number("FERRY_RATE_BURST", 1...1e9)
        retentionSeconds = try read.number("FERRY_RETENTION", 1...315_360_000)
        drainSeconds = try read.number("FERRY_DRAIN_SECONDS", 0...3600)
        eventRetention = try read.number("FERRY_EVENT_RETENTION", 60...315_360_000)
        unknownSettings = source.unknown
        try checkSecrets()
    }

    /// Octal. What the owner may not do, Ferry itself could not.
    private static func umask(_ text: String?) throws(Failure) -> UInt32? {
        guard let text else { return nil }
        guard text.utf8.count <= 4, text.utf8.allSatisfy({ (0x30...0x37).contains($0) }),
            let mask = UInt32(text, radix: 8), mask <= 0o077
        else {
            throw Failure(description: "FERRY_UMASK must be an octal number from 0000 to 0077, such as 0027.")
        }
        return mask
    }

    private static func proxy(_ text: String?, exceptions: String) throws(Failure) -> ServiceProxy? {
        let entries = exceptions.split(separator: ",").map { String($0).trimmed }
        for entry in entries where !ProxyBypass.isEntry(entry) {
            throw Failure(
                description: "FERRY_NO_PROXY: \(entry) is no host's name, address or network.")
        }
        guard let text else { return nil }
        do throws(ProxyURL.Failure) {
            let proxy = try ProxyURL.withCredentials(text)
            return ServiceProxy(
                url: proxy.url, user: proxy.user, password: proxy.password, bypass: ProxyBypass(entries))
        } catch {
            throw Failure(description: "FERRY_PROXY: \(error.message)")
        }
    }

    private static func webhookSecret(_ text: String?) throws(Failure) -> WebhookSecret? {
        guard let text else { return nil }
        guard let secret = WebhookSecret(text) else {
            throw Failure(
                description:
                    "FERRY_WEBHOOK_SECRET must be whsec_ followed by the base64 of 24 to 64 bytes.")
        }
        return secret
    }

    private func checkSecrets() throws(Failure) {
        if let adminKey, adminKey.utf8.count < 20 {
            throw Failure(
                description:
                    "FERRY_ADMIN_KEY is too short: use at least 20 characters, best from a generator.")
        }
        if let secretKey, secretKey.utf8.count < 16 {
            throw Failure(
                description:
                    "FERRY_SECRET_KEY is too short: use at least 16 characters, best from a generator.")
        }
        guard !roles.isEmpty else { throw Failure(description: "FERRY_ROLES names no role.") }
    }

    /// `127.0.0.1:8080`, `[::1]:8080`, `:8080` (every IPv4 address), `8080` is not enough.
    private static func address(_ text: String) throws(Failure) -> (String, UInt16) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw Failure(description: "FERRY_LISTEN must be an address and a port, such as 127.0.0.1:8080.")
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host.isEmpty { host = "0.0.0.0" }
        if host == "localhost" { host = "127.0.0.1" }
        guard IPAddress(text: host) != nil else {
            throw Failure(description: "FERRY_LISTEN: \(host) is not an IP address.")
        }
        return (host, port)
    }
}

/// Reads settings as what they must be; complains with a sentence that names the setting.
private struct SettingReader {
    let source: SettingSource

    func value(_ name: String) -> String {
        source[name] ?? Setting.all.first { $0.name == name }?.fallback ?? ""
    }

    func integer(_ name: String, _ range: ClosedRange<Int>) throws(Configuration.Failure) -> Int {
        guard let number = Int(value(name)), range.contains(number) else {
            throw Configuration.Failure(
                description:
                    "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound).")
        }
        return number
    }

    /// Nil when it is not set.
    func rate(_ name: String) throws(Configuration.Failure) -> Int64? {
        value(name).isEmpty ? nil : Int64(try integer(name, 1...(1 << 53 - 1)))
    }

    func number(_ name: String, _ range: ClosedRange<Double>) throws(Configuration.Failure) -> Double {
        guard let number = Double(value(name)), range.contains(number) else {
            throw Configuration.Failure(
                description:
                    "\(name) must be a number from \(decimalText(range.lowerBound)) to "
                    + "\(decimalText(range.upperBound)).")
        }
        return number
    }

    func choice<Choice: RawRepresentable & CaseIterable>(_ name: String, _ text: String? = nil)
        throws(Configuration.Failure) -> Choice
    where Choice.RawValue == String {
        guard let choice = Choice(rawValue: text ?? value(name)) else {
            throw Configuration.Failure(
                description:
                    "\(name) must be one of \(Choice.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        return choice
    }
}

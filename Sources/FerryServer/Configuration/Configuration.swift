package import FerryCore
package import FerryEngine
import Glibc
package import Logging
import Sys

/// All settings, validated. Contains secrets, so it must never be logged.
package struct Configuration: Sendable {
    /// Roles of a node.
    package enum Role: String, Sendable, CaseIterable { case api, worker, webhooks }
    /// Whether completed files are synced.
    package enum FileSync: String, Sendable, CaseIterable { case full, none }
    /// Whether NOTIFY is used.
    package enum Notify: String, Sendable, CaseIterable { case on, off }
    /// Values of settings that are true or false.
    private enum Truth: String, CaseIterable { case `true`, `false` }
    /// Formats of the log.
    package enum LogFormat: String, Sendable, CaseIterable { case text, json }

    /// IP address to listen on.
    package var listenHost: String
    /// Port to listen on; 0 lets the kernel choose.
    package var listenPort: UInt16
    /// Address that this node advertises to the others; `nil` for none.
    package var nodeURL: String?
    /// Data directory, an absolute path.
    package var dataDirectory: String
    /// Directory of the files of the tenant `default`, an absolute path.
    package var storageRoot: String
    /// Directory of the files of all other tenants, an absolute path.
    package var tenantStorageRoot: String
    /// `true` if the operator has set the directory; otherwise it is one in the data directory.
    package var isStorageRootNamed: Bool
    /// Like `isStorageRootNamed`, for `tenantStorageRoot`.
    package var isTenantStorageRootNamed: Bool
    /// umask of files and directories that transfers create; `nil` for the default of each root.
    package var umask: UInt32?
    /// libpq URI of the database; `nil` for a private PostgreSQL in the data directory.
    package var databaseURL: String?
    /// The configured admin key, at least 20 bytes; `nil` for none.
    package var adminKey: String?
    /// The configured key for stored secrets, at least 16 bytes; `nil` for one in the data directory.
    package var secretKey: String?
    /// Secret for webhooks of jobs without their own; `nil` for one in the database.
    package var webhookSecret: WebhookSecret?
    /// Networks that transfers may reach although they are not public.
    package var egressAllow: [IPNetwork]
    /// Objects that this node asks for with its own key.
    package var storeAllowances: StoreAllowances
    /// Proxy of transfers that name none; `nil` for none.
    package var proxy: ServiceProxy?
    /// Whether completed files are synced.
    package var fileSync: FileSync
    /// Bytes that downloads leave free on each disk.
    package var storageReserve: Int64
    /// Seconds without a response of the disk after which its attempts end (`EngineConfiguration`).
    package var storageTimeout: Double
    /// When connections of transfers that do not say are too slow.
    package var lowSpeed: LowSpeed
    /// Rate limits that apply until they are changed through the API.
    package var limits: TransferLimits
    /// Transfers at the same time on this node.
    package var concurrency: Int
    /// Most unfinished jobs of one tenant.
    package var unfinishedJobs: Int64
    /// Connections to one host of a session that names no number; `nil` for no limit.
    package var connectionsPerHostMax: Int?
    /// Roles of this node.
    package var roles: Set<Role>
    /// Whether nodes use NOTIFY in addition to polling.
    package var notify: Notify
    /// Lowest level that is logged.
    package var logLevel: Logger.Level
    /// Format of the log.
    package var logFormat: LogFormat
    /// User that runs the private PostgreSQL if Ferry runs as root.
    package var postgresUser: String
    /// Number of threads that run libcurl.
    package var transferLoops: Int
    /// Connections of the HTTP server at the same time.
    package var httpConnections: Int
    /// Requests per second of one key on average.
    package var rateLimit: Double
    /// Requests at once of one key.
    package var rateBurst: Double
    /// `true` if each start of this node pauses the whole service.
    package var startsPaused: Bool
    /// Seconds that running transfers get after SIGTERM.
    package var drainSeconds: Double
    /// Seconds for which events are kept.
    package var eventRetention: Double
    /// Seconds for which finished jobs and their kept files stay.
    package var retentionSeconds: Double
    /// Bytes of a staged upload at most; `nil` for no limit.
    package var uploadByteCountMax: Int64?
    package var contentStore: ContentStoreSetting
    /// Key for the bucket of the content store.
    package var contentStoreAccessKeyID: String?
    package var contentStoreSecretAccessKey: String?
    package var contentStoreSessionToken: String?
    /// Age in seconds from which unused objects of the content store are removed.
    package var contentStoreUnusedSeconds: Double
    /// Environment variables that begin with `FERRY_` but are no settings.
    package var unknownSettings: [UnknownSetting]

    /// Reason for which the configuration cannot be used.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        /// One sentence that names the setting.
        package let description: String
    }
}

/// A setting, for `docs/configuration.md` and `ferry check`.
package struct Setting: Sendable {
    /// Name of the environment variable.
    package let name: String
    /// Meaning of the setting, in a few words.
    package let meaning: String
    /// Default as text; empty for none.
    package let fallback: String
    /// `true` if the value is secret: it is never shown, and can also be read from the file that `NAME_FILE`
    /// names.
    package let isSecret: Bool

    /// All settings.
    package static let all: [Setting] = [
        Setting("FERRY_LISTEN", "address and port of the API", "127.0.0.1:8080"),
        Setting("FERRY_NODE_URL", "address at which other nodes reach this one", ""),
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
            "FERRY_S3_CREDENTIALS_ALLOW",
            "TENANT:BUCKET or TENANT:BUCKET@URL (comma separated) whose requests the node's own key signs",
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
            "FERRY_CONTENT_STORE",
            "where results without a destination are: file:, file:/directory, or "
                + "s3://bucket/prefix?endpoint=URL&region=NAME", "file:"),
        Setting("FERRY_CONTENT_STORE_ACCESS_KEY_ID", "key for the bucket of FERRY_CONTENT_STORE", ""),
        Setting(
            "FERRY_CONTENT_STORE_SECRET_ACCESS_KEY", "secret of that key", "", isSecret: true),
        Setting(
            "FERRY_CONTENT_STORE_SESSION_TOKEN", "session token of that key, if it is a temporary one", "",
            isSecret: true),
        Setting(
            "FERRY_CONTENT_STORE_UNUSED_SECONDS",
            "seconds after which an unused object of the bucket is removed", "604800"),
        Setting("FERRY_UPLOAD_MAX_BYTES", "bytes of one staged upload, 0 for no limit", "0"),
        Setting("FERRY_LOW_SPEED_LIMIT", "bytes a second below which a connection is given up", ""),
        Setting("FERRY_LOW_SPEED_TIME", "seconds below FERRY_LOW_SPEED_LIMIT until it is given up", ""),
        Setting(
            "FERRY_MAX_BYTES_PER_SECOND", "bytes a second of all transfers together, in each direction", ""),
        Setting("FERRY_MAX_BYTES_PER_SECOND_PER_HOST", "bytes a second of one host on this node", ""),
        Setting("FERRY_CONCURRENCY", "transfers at once on this node", "256"),
        Setting("FERRY_MAX_UNFINISHED_JOBS", "unfinished jobs that one tenant may have", "5000000"),
        Setting(
            "FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST",
            "connections to one host of a session that sets no number; none for no limit",
            "\(Limits.sessionConnectionCountMax)"),
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
        Setting(
            "FERRY_PAUSED",
            "true or false: whether each start holds jobs, deliveries, schedules and probes of all nodes",
            "false"),
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

extension Configuration {
    /// Validates all settings. Throws for the first invalid one. `isTerminal`: `true` if the log goes to a
    /// terminal.
    package init(_ source: SettingSource, isTerminal: Bool) throws(Failure) {
        let read = SettingReader(source: source)
        (listenHost, listenPort) = try Self.address(read.value("FERRY_LISTEN"))
        nodeURL = try Self.nodeURL(source["FERRY_NODE_URL"])
        dataDirectory = absolutePath(read.value("FERRY_DATA_DIR"))
        storageRoot = absolutePath(source["FERRY_STORAGE_ROOT"] ?? dataDirectory + "/files")
        tenantStorageRoot = absolutePath(source["FERRY_TENANT_STORAGE_ROOT"] ?? dataDirectory + "/tenants")
        isStorageRootNamed = source["FERRY_STORAGE_ROOT"] != nil
        isTenantStorageRootNamed = source["FERRY_TENANT_STORAGE_ROOT"] != nil
        umask = try Self.umask(source["FERRY_UMASK"])
        databaseURL = source["FERRY_DATABASE_URL"]
        adminKey = source["FERRY_ADMIN_KEY"]?.trimmed
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
        storeAllowances = try Self.storeAllowances(read.value("FERRY_S3_CREDENTIALS_ALLOW"))
        proxy = try Self.proxy(source["FERRY_PROXY"], exceptions: read.value("FERRY_NO_PROXY"))
        fileSync = try read.choice("FERRY_FILE_SYNC")
        storageReserve = Int64(try read.integer("FERRY_STORAGE_RESERVE", 0...(1 << 53)))
        contentStore = try Self.contentStore(read.value("FERRY_CONTENT_STORE"))
        contentStoreAccessKeyID = source["FERRY_CONTENT_STORE_ACCESS_KEY_ID"]
        contentStoreSecretAccessKey = source["FERRY_CONTENT_STORE_SECRET_ACCESS_KEY"]
        contentStoreSessionToken = source["FERRY_CONTENT_STORE_SESSION_TOKEN"]
        contentStoreUnusedSeconds = try read.number("FERRY_CONTENT_STORE_UNUSED_SECONDS", 1...315_360_000)
        let uploadBytes = Int64(try read.integer("FERRY_UPLOAD_MAX_BYTES", 0...(1 << 53)))
        uploadByteCountMax = uploadBytes == 0 ? nil : uploadBytes
        storageTimeout = try read.number("FERRY_STORAGE_TIMEOUT", 12...86_400)
        lowSpeed = LowSpeed(
            bytesPerSecond: try read.rate("FERRY_LOW_SPEED_LIMIT"),
            seconds: read.value("FERRY_LOW_SPEED_TIME").isEmpty
                ? nil : try read.number("FERRY_LOW_SPEED_TIME", 1...604_800))
        let rate = try read.rate("FERRY_MAX_BYTES_PER_SECOND")
        limits = TransferLimits(
            bytesReceivedPerSecondMax: rate, bytesSentPerSecondMax: rate,
            bytesPerSecondPerHostMax: try read.rate("FERRY_MAX_BYTES_PER_SECOND_PER_HOST"))
        concurrency = try read.integer("FERRY_CONCURRENCY", 1...20_000)
        unfinishedJobs = Int64(try read.integer("FERRY_MAX_UNFINISHED_JOBS", 1...1_000_000_000))
        connectionsPerHostMax = try read.limit("FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST", 1...10_000)
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
        startsPaused = try read.choice("FERRY_PAUSED") as Truth == .true
        drainSeconds = try read.number("FERRY_DRAIN_SECONDS", 0...3600)
        eventRetention = try read.number("FERRY_EVENT_RETENTION", 60...315_360_000)
        unknownSettings = source.unknown
        try checkSecrets()
    }

    /// Parses an octal umask. Masks that take permissions from the owner are invalid, because they would take
    /// them from Ferry.
    private static func umask(_ text: String?) throws(Failure) -> UInt32? {
        guard let text else { return nil }
        guard text.utf8.count <= 4, text.utf8.allSatisfy({ (0x30...0x37).contains($0) }),
            let mask = UInt32(text, radix: 8), mask <= 0o077
        else {
            throw Failure(description: "FERRY_UMASK must be an octal number from 0000 to 0077, such as 0027.")
        }
        return mask
    }

    private static func storeAllowances(_ text: String) throws(Failure) -> StoreAllowances {
        do throws(StoreAllowances.InvalidEntry) {
            return try StoreAllowances(text.split(separator: ",").map { String($0).trimmed })
        } catch {
            throw Failure(
                description: "FERRY_S3_CREDENTIALS_ALLOW: \(error.text) is not TENANT:BUCKET, or "
                    + "TENANT:BUCKET@URL with the URL of a store.")
        }
    }

    private static func contentStore(_ text: String) throws(Failure) -> ContentStoreSetting {
        do throws(ContentBucket.Invalid) {
            return try ContentStoreSetting(text)
        } catch {
            throw Failure(description: "FERRY_CONTENT_STORE: \(error.message)")
        }
    }

    private static func proxy(_ text: String?, exceptions: String) throws(Failure) -> ServiceProxy? {
        let entries = exceptions.split(separator: ",").map { String($0).trimmed }
        for entry in entries where !ProxyBypass.isEntry(entry) {
            throw Failure(
                description: "FERRY_NO_PROXY: \(entry) is not a host name, address or network.")
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

    /// Returns the address as origin, without a slash at its end. A path could not be part of a signature: a
    /// proxy may remove it.
    private static func nodeURL(_ text: String?) throws(Failure) -> String? {
        guard let text else { return nil }
        let rule = "FERRY_NODE_URL must be an address such as http://10.1.0.5:8080"
        let url: WebURL
        do throws(WebURL.Failure) {
            url = try WebURL.parse(text)
        } catch {
            throw Failure(description: "\(rule). \(error.message)")
        }
        guard url.path == "/", url.query == nil else {
            throw Failure(description: "\(rule), without a path or query.")
        }
        return "\(url.scheme.rawValue)://\(url.host):\(url.port)"
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
                    "FERRY_ADMIN_KEY is too short: use at least 20 random characters.")
        }
        // Clients could not send such a key: a field value ends at a line end.
        if let adminKey, adminKey.unicodeScalars.contains(where: \.properties.isWhitespace) {
            throw Failure(description: "FERRY_ADMIN_KEY contains white space.")
        }
        if let secretKey, secretKey.utf8.count < 16 {
            throw Failure(
                description:
                    "FERRY_SECRET_KEY is too short: use at least 16 random characters.")
        }
        if (contentStoreAccessKeyID == nil) != (contentStoreSecretAccessKey == nil) {
            throw Failure(
                description: "FERRY_CONTENT_STORE_ACCESS_KEY_ID and FERRY_CONTENT_STORE_SECRET_ACCESS_KEY "
                    + "are set together or not at all.")
        }
        guard !roles.isEmpty else { throw Failure(description: "FERRY_ROLES contains no role.") }
    }

    /// Parses `127.0.0.1:8080`, `[::1]:8080` or `:8080` (all IPv4 addresses). A port alone is not enough.
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

/// Reads settings with their types. Errors name the setting.
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

    /// Returns `nil` if the setting is empty.
    func rate(_ name: String) throws(Configuration.Failure) -> Int64? {
        value(name).isEmpty ? nil : Int64(try integer(name, 1...(1 << 53 - 1)))
    }

    /// Returns `nil` for `none`.
    func limit(_ name: String, _ range: ClosedRange<Int>) throws(Configuration.Failure) -> Int? {
        if value(name) == "none" { return nil }
        guard let number = Int(value(name)), range.contains(number) else {
            throw Configuration.Failure(
                description:
                    "\(name) must be none or a whole number from \(range.lowerBound) to \(range.upperBound)."
            )
        }
        return number
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

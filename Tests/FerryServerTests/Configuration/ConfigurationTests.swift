import FerryCore
import TestSupport
import Testing

@testable import FerryServer

@Suite("Sources of settings")
struct ConfigurationTests {
    /// `file`: content of the file that FERRY_CONFIG names.
    private func configuration(
        file: String = "", environment: [String: String] = [:], flags: [String: String] = [:]
    ) throws -> Configuration {
        let directory = try TemporaryDirectory.make("settings")
        defer { TemporaryDirectory.remove(directory) }
        try writeFile(directory + "/settings", Array(file.utf8))
        let named = environment.merging(["FERRY_CONFIG": directory + "/settings"]) { $1 }
        return try Configuration(SettingSource(flags: flags, environment: named), isTerminal: false)
    }

    @Test("an empty setting counts as not set in the file, environment and command line")
    func nothing() throws {
        let names = Setting.all.flatMap(\.names)
        let empty = Dictionary(uniqueKeysWithValues: names.map { ($0, "") })
        let plain = try configuration()
        for found in [
            try configuration(file: names.map { "\($0)= \n" }.joined()),
            try configuration(environment: empty), try configuration(flags: empty),
        ] {
            #expect(found.databaseURL == nil && found.proxy == nil)
            #expect(found.adminKey == nil && found.secretKey == nil && found.webhookSecret == nil)
            #expect(found.dataDirectory == plain.dataDirectory && found.storageRoot == plain.storageRoot)
            #expect(found.tenantStorageRoot == plain.tenantStorageRoot)
            #expect(found.listenPort == 8080 && found.concurrency == 256 && found.roles == plain.roles)
            #expect(found.logFormat == .json)
        }
    }

    @Test("a byte order mark at the begin of a settings or secret file is skipped")
    func byteOrderMark() throws {
        #expect(try configuration(file: "\u{FEFF}FERRY_CONCURRENCY=3\n").concurrency == 3)
        let directory = try TemporaryDirectory.make("secret")
        defer { TemporaryDirectory.remove(directory) }
        try writeFile(directory + "/key", Array("\u{FEFF}an-admin-key-of-32-bytes-or-more-in-a-file\n".utf8))
        let found = try configuration(environment: ["FERRY_ADMIN_KEY_FILE": directory + "/key"])
        #expect(found.adminKey == "an-admin-key-of-32-bytes-or-more-in-a-file")
    }

    @Test("flags override the environment, which overrides the file, unless they are empty")
    func order() throws {
        let name = "FERRY_CONCURRENCY"
        let file = "\(name)=3\n\(name)=\n"
        #expect(try configuration(file: file).concurrency == 3)
        #expect(try configuration(file: file, environment: [name: ""]).concurrency == 3)
        #expect(try configuration(file: file, environment: [name: "4"]).concurrency == 4)
        #expect(try configuration(file: file, environment: [name: "4"], flags: [name: ""]).concurrency == 4)
        #expect(try configuration(file: file, environment: [name: "4"], flags: [name: "5"]).concurrency == 5)
        #expect(try configuration(file: file, flags: ["FERRY_CONFIG": ""]).concurrency == 3)
    }

    @Test("FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST is 6 unless it is another number or none")
    func connectionsPerHost() throws {
        let name = "FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST"
        #expect(try configuration().connectionsPerHostMax == 6)
        #expect(try configuration(environment: [name: "1"]).connectionsPerHostMax == 1)
        #expect(try configuration(environment: [name: "10000"]).connectionsPerHostMax == 10_000)
        #expect(try configuration(environment: [name: "none"]).connectionsPerHostMax == nil)
        for text in ["0", "10001", "six", "None", "-1"] {
            let failure = #expect(throws: Configuration.Failure.self) {
                try configuration(environment: [name: text])
            }
            #expect(failure?.description == "\(name) must be none or a whole number from 1 to 10000.")
        }
    }

    @Test("FERRY_PAUSED is false unless it is true")
    func paused() throws {
        #expect(try !configuration().startsPaused)
        #expect(try configuration(environment: ["FERRY_PAUSED": "true"]).startsPaused)
        #expect(try !configuration(environment: ["FERRY_PAUSED": "false"]).startsPaused)
        let failure = #expect(throws: Configuration.Failure.self) {
            try configuration(environment: ["FERRY_PAUSED": "yes"])
        }
        #expect(failure?.description == "FERRY_PAUSED must be one of true, false.")
    }

    @Test("FERRY_NODE_URL is an origin; its port is always named")
    func nodeURL() throws {
        let name = "FERRY_NODE_URL"
        #expect(try configuration().nodeURL == nil)
        for (text, url) in [
            ("http://10.1.0.5:8080", "http://10.1.0.5:8080"), ("https://Node-1/", "https://node-1:443"),
            ("http://[fd00::1]:81", "http://[fd00::1]:81"),
        ] {
            #expect(try configuration(environment: [name: text]).nodeURL == url)
        }
        for text in [
            "10.1.0.5:8080", "ftp://node", "http://node/ferry", "http://node/?a", "http://user:p@node",
            "http://",
        ] {
            let failure = #expect(throws: Configuration.Failure.self) {
                try configuration(environment: [name: text])
            }
            #expect(failure?.description.contains(name) == true)
        }
    }

    @Test("FERRY_UMASK must be octal and must not restrict the owner")
    func umask() throws {
        #expect(try configuration().umask == nil)
        for (text, mask) in [("0027", 0o027), ("22", 0o022), ("0", 0), ("077", 0o077)] as [(String, UInt32)] {
            #expect(try configuration(environment: ["FERRY_UMASK": text]).umask == mask)
        }
        for text in ["0100", "8", "0x1", "-1", "+7", "00027", "rwx"] {
            let failure = #expect(throws: Configuration.Failure.self) {
                try configuration(environment: ["FERRY_UMASK": text])
            }
            #expect(failure?.description.contains("FERRY_UMASK") == true, "\(text)")
        }
    }

    @Test("a settings file with CRLF line ends is read")
    func lineEnds() throws {
        let names = ["FERRY_CONCURRENCY", "FERRY_TRANSFER_LOOPS"]
        let found = try configuration(file: "# Of a node\r\n\r\n\(names[0])=3\r\n\(names[1])= 4 \r\n")
        #expect(found.concurrency == 3 && found.transferLoops == 4)
        let failure = #expect(throws: Configuration.Failure.self) {
            try configuration(file: "# Of a node\r\n\(names[0])=3\r\nFERRY_COLOUR=red\r\n")
        }
        #expect(failure?.description.contains("line 3:") == true)
    }

    @Test("an empty secret file is an error")
    func emptySecretFile() throws {
        let name = "FERRY_DATABASE_URL_FILE"
        let sources: [(file: String, environment: [String: String])] = [
            ("\(name)=/dev/null", [:]), ("", [name: "/dev/null"]),
        ]
        for (file, environment) in sources {
            let failure = #expect(throws: Configuration.Failure.self) {
                try configuration(file: file, environment: environment)
            }
            #expect(failure?.description == "\(name): the file /dev/null is empty.")
        }
    }

    @Test("a malformed webhook secret is an error")
    func webhookSecret() throws {
        let name = "FERRY_WEBHOOK_SECRET"
        for text in ["abc", "whsec_", "whsec_AAAA", "whsec_?"] {
            let failure = #expect(throws: Configuration.Failure.self, "\(text)") {
                try configuration(environment: [name: text])
            }
            #expect(failure?.description.hasPrefix(name) == true, "\(text)")
        }
        let secret = try #require(WebhookSecret(key: [UInt8](repeating: 7, count: 24)))
        #expect(try configuration(environment: [name: secret.text]).webhookSecret == secret)
    }
}

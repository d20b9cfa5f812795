import FerryCore
import Testing

@Suite("Egress policy")
struct EgressPolicyTests {
    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text: text)) }
    private func networks(_ texts: String...) -> [IPNetwork] { texts.compactMap { IPNetwork(cidr: $0) } }

    @Test(
        "the first and last address of every range that is not public are refused",
        arguments: [
            "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.170.2", "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0", "192.0.0.192", "192.0.0.255", "192.0.2.1", "192.88.99.1", "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255", "168.63.129.16", "100.100.100.200",
            "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::8.8.8.8",
            "64:ff9b:1::808:808",
            "100::1", "100:0:0:1::1", "5f00::1", "fc00::1", "fdff::1", "fd00:ec2::254", "fe80::1", "fec0::1",
            "ff02::1",
            "2001::1", "2001:1ff:ffff::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:30::1",
            "2001:db8::1",
            "2002:0808:0808::1", "3fff::1", "3fff:fff:ffff::1", "4000::1", "1fff::1",
            "2a00::5efe:10.0.0.1", "2a00::200:5efe:127.0.0.1",
        ])
    func refused(text: String) throws {
        #expect(!EgressPolicy().allows(try address(text), port: 443, for: .https))
    }

    @Test(
        "addresses next to these ranges and other public addresses are allowed",
        arguments: [
            "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0",
            "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
            "198.20.0.0", "198.51.99.255", "203.0.112.255", "203.0.114.0", "223.255.255.255", "168.63.129.15",
            "::ffff:8.8.8.8", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db7::1", "2003::1",
            "2a00::1",
            "3ffe::1", "3fff:1000::1", "2a00::5efe:8.8.8.8",
        ])
    func allowed(text: String) throws {
        #expect(EgressPolicy().allows(try address(text), port: 443, for: .https))
    }

    @Test("ports of other protocols are refused, ports of HTTP are allowed")
    func ports() throws {
        let address = try address("93.184.215.14")
        for port: UInt16 in [0, 22, 25, 139, 445, 465, 587, 993, 1433, 3306, 5432, 6379, 11211, 27017] {
            #expect(!EgressPolicy().allows(address, port: port, for: .https))
        }
        for port: UInt16 in [80, 443, 3000, 5000, 8080, 8443, 9000, 65535] {
            #expect(EgressPolicy().allows(address, port: port, for: .https))
        }
    }

    @Test("an allowed network is reachable on every port, also as IPv4-mapped addresses")
    func allowing() throws {
        let policy = EgressPolicy(allowing: networks("127.0.0.0/8", "fd00::/8", "::ffff:10.0.0.0/104"))
        #expect(policy.allows(try address("127.0.0.1"), port: 6379, for: .https))
        #expect(policy.allows(try address("::ffff:127.0.0.1"), port: 80, for: .https))
        #expect(policy.allows(try address("10.2.3.4"), port: 80, for: .https))
        #expect(policy.allows(try address("fd12::1"), port: 25, for: .https))
        #expect(!policy.allows(try address("127.0.0.1"), port: 0, for: .https))
        #expect(!policy.allows(try address("::1"), port: 80, for: .https))
        #expect(!policy.allows(try address("0.0.0.0"), port: 80, for: .https))
        #expect(!policy.allows(try address("8.8.8.8"), port: 25, for: .https))
    }

    @Test("a metadata address needs an entry of its own")
    func metadata() throws {
        let wide = EgressPolicy(allowing: networks("0.0.0.0/0", "::/0"))
        #expect(!wide.allows(try address("169.254.169.254"), port: 80, for: .https))
        #expect(!wide.allows(try address("168.63.129.16"), port: 80, for: .https))
        #expect(!wide.allows(try address("fd00:ec2::254"), port: 80, for: .https))
        #expect(wide.allows(try address("169.254.1.1"), port: 80, for: .https))
        let exact = EgressPolicy(allowing: networks("169.254.169.254"))
        #expect(exact.allows(try address("169.254.169.254"), port: 80, for: .https))
    }

    @Test("Ferry's own endpoints are refused whatever networks are allowed")
    func blockedEndpoints() throws {
        let policy = EgressPolicy(
            allowing: networks("127.0.0.0/8", "::1", "10.0.0.0/8"),
            own: OwnEndpoints(
                [.init(try address("10.0.0.5"), port: 5432), .init(try address("0.0.0.0"), port: 8080)],
                isOwnAddress: { $0 == IPAddress(text: "10.0.0.7") }))
        #expect(!policy.allows(try address("10.0.0.5"), port: 5432, for: .https))
        #expect(!policy.allows(try address("::ffff:10.0.0.5"), port: 5432, for: .https))
        #expect(policy.allows(try address("10.0.0.6"), port: 5432, for: .https))
        #expect(!policy.allows(try address("127.0.0.9"), port: 8080, for: .https))
        #expect(!policy.allows(try address("::1"), port: 8080, for: .https))
        #expect(!policy.allows(try address("10.0.0.7"), port: 8080, for: .https))
        #expect(!policy.allows(try address("::ffff:10.0.0.7"), port: 8080, for: .https))
        #expect(policy.allows(try address("10.0.0.8"), port: 8080, for: .https))
        #expect(policy.allows(try address("10.0.0.7"), port: 5432, for: .https))
        #expect(policy.allows(try address("127.0.0.1"), port: 8081, for: .https))
    }

    @Test(
        "a database on this machine is refused under all addresses of the machine, another one under its own")
    func ownServers() throws {
        let own = OwnEndpoints(isOwnAddress: { $0 == IPAddress(text: "10.0.0.7") })
        let policy = EgressPolicy(allowing: networks("127.0.0.0/8", "10.0.0.0/8"), own: own)
        let (local, own7, other) = (
            try address("127.0.0.1"), try address("10.0.0.7"), try address("10.0.0.9")
        )
        own.add(server: local, port: 6001)
        own.add(server: own7, port: 6002)
        own.add(server: nil, port: 6003)
        own.add(server: other, port: 6004)
        for port: UInt16 in [6001, 6002, 6003] {
            #expect(
                !policy.allows(local, port: port, for: .https)
                    && !policy.allows(own7, port: port, for: .https), "\(port)")
            #expect(policy.allows(other, port: port, for: .https), "\(port)")
        }
        #expect(!policy.allows(other, port: 6004, for: .https))
        #expect(policy.allows(local, port: 6004, for: .https) && policy.allows(own7, port: 6004, for: .https))
        for number in 0..<OwnEndpoints.serverCountMax { own.add(server: other, port: UInt16(7000 + number)) }
        #expect(
            !policy.allows(other, port: 7063, for: .https) && policy.allows(other, port: 6004, for: .https),
            "the number is limited")
    }

    @Test("behind an allowed NAT64 prefix, the embedded address is checked")
    func nat64() throws {
        let policy = EgressPolicy(allowing: networks("64:ff9b::/96", "64:ff9b:1::/48"))
        #expect(policy.allows(try address("64:ff9b::8.8.8.8"), port: 443, for: .https))
        #expect(!policy.allows(try address("64:ff9b::10.0.0.1"), port: 443, for: .https))
        #expect(!policy.allows(try address("64:ff9b::8.8.8.8"), port: 25, for: .https))
        // 8.8.8.8 and 10.0.0.1 at bits 48–63 and 72–87.
        #expect(policy.allows(try address("64:ff9b:1:808:8:800::"), port: 443, for: .https))
        #expect(!policy.allows(try address("64:ff9b:1:a00:0:100::"), port: 443, for: .https))
    }

    @Test(
        "every numeric form of a loopback address is refused at the submission",
        arguments: [
            "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
            "017700000001", "0",
            "0x0", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]",
            "localhost",
            "LOCALHOST", "localhost.", "a.localhost", "１２７.０.０.１", "127。0。0。1", "%31%32%37.1",
            "ｌｏｃａｌｈｏｓｔ", "%6cocalhost",
        ])
    func numericHosts(host: String) throws {
        #expect(EgressPolicy().refusal(of: try WebURL.parse("http://\(host)/").endpoint) != nil)
    }

    @Test("at the submission, names are not checked, and ports only if no network is allowed")
    func submission() throws {
        #expect(EgressPolicy().refusal(of: try WebURL.parse("https://example.com/").endpoint) == nil)
        #expect(EgressPolicy().refusal(of: try WebURL.parse("https://8.8.8.8/").endpoint) == nil)
        #expect(
            EgressPolicy().refusal(of: try WebURL.parse("http://8.8.8.8:25/").endpoint)?.contains("25")
                == true)
        #expect(
            EgressPolicy().refusal(of: try WebURL.parse("http://example.com:6379/").endpoint)?.contains(
                "6379") == true
        )
        let local = EgressPolicy(allowing: networks("127.0.0.0/8"))
        #expect(local.refusal(of: try WebURL.parse("http://example.com:6379/").endpoint) == nil)
        #expect(local.refusal(of: try WebURL.parse("http://localhost:6379/").endpoint) == nil)
        #expect(local.refusal(of: try WebURL.parse("http://127.1:6379/").endpoint) == nil)
    }

    @Test(
        "invalid addresses and networks are rejected",
        arguments: [
            "", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/-1",
            "1.2.3.4/8/8",
            ":", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::8:9", "::12345",
            "::1%eth0",
            "::1/129", "[::1]", "::1.2.3", "1.2.3.4::", ":1::", "::+1", "g::",
        ])
    func invalid(text: String) {
        #expect(IPNetwork(cidr: text) == nil)
    }

    @Test("all spellings of an IPv6 address are equal")
    func spellings() throws {
        #expect(try address("2001:DB8:0:0::1") == IPAddress(v6High: 0x2001_0DB8_0000_0000, low: 1))
        #expect(try address("::") == IPAddress(v6High: 0, low: 0))
        #expect(try address("1::") == IPAddress(v6High: 1 << 48, low: 0))
        #expect(
            try address("1:2:3:4:5:6:7::") == IPAddress(v6High: 0x1_0002_0003_0004, low: 0x5_0006_0007_0000))
        #expect(try address("::ffff:1.2.3.4").canonical == IPAddress(v4: 0x0102_0304))
    }

    @Test("a proxy is judged as an endpoint of its scheme", arguments: ["http", "https", "socks5"])
    func proxies(_ scheme: String) throws {
        let endpoint = { (host: String) throws(ProxyURL.Failure) in
            try ProxyURL("\(scheme)://\(host)").endpoint
        }
        #expect(try endpoint("8.8.8.8:1080").scheme.rawValue == scheme)
        #expect(EgressPolicy().refusal(of: try endpoint("8.8.8.8:1080")) == nil)
        #expect(EgressPolicy().refusal(of: try endpoint("proxy.example:1080")) == nil)
        #expect(EgressPolicy().refusal(of: try endpoint("8.8.8.8:25"))?.contains("25") == true)
        #expect(EgressPolicy().refusal(of: try endpoint("10.0.0.1:1080")) != nil)
    }
}

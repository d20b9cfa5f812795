import PublicSuffixList
import Testing

/// The wrapper of libpsl. The rules named here have been in the list for years.
@Suite("Public Suffix List") struct PublicSuffixListTests {
    @Test(
        "names that organizations register below are public suffixes",
        arguments: [
            ("com", true), ("example.com", false), ("co.uk", true), ("uk", true), ("example.co.uk", false),
            ("github.io", true), ("someone.github.io", false),
            // The rule is `*.ck`, with the exception `!www.ck`.
            ("anything.ck", true), ("www.ck", false),
            // The rule of `中国`.
            ("xn--fiqs8s", true), ("example.xn--fiqs8s", false),
            // No rule matches.
            ("localhost", true), ("printer.local-network", false), ("unlisted", true),
        ])
    func suffixes(name: String, isSuffix: Bool) {
        #expect(PublicSuffixList.contains(name) == isSuffix)
        #expect(PublicSuffixList.contains(name + ".") == isSuffix)
    }

    @Test(
        "a registrable domain is a public suffix and one label before it",
        arguments: [
            ("example.com", "example.com"), ("a.b.example.com", "example.com"), ("com", nil),
            ("a.example.co.uk", "example.co.uk"), ("co.uk", nil),
            ("a.someone.github.io", "someone.github.io"),
            ("a.b.anything.ck", "b.anything.ck"), ("a.www.ck", "www.ck"), ("localhost", nil),
            ("a.example.com.", "example.com."), ("", nil), (".", nil),
        ])
    func registrableDomains(name: String, domain: String?) {
        #expect(PublicSuffixList.registrableDomain(of: name) == domain)
    }

    @Test("threads ask at the same time")
    func threads() async {
        await withTaskGroup(of: Bool.self) { group in
            for number in 0..<8 {
                group.addTask {
                    (0..<200).allSatisfy {
                        let name = "a\($0).t\(number).co.uk"
                        return PublicSuffixList.registrableDomain(of: name) == "t\(number).co.uk"
                    }
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }
}

import FerryCore
import Testing

@Suite("Base64 and webhook secrets")
struct Base64Tests {
    // RFC 4648 §10.
    @Test(
        "the vectors of the RFC are encoded and decoded",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ])
    func vectors(plain: String, text: String) {
        #expect(Base64.encode(Array(plain.utf8)) == text)
        #expect(Base64.decode(text) == Array(plain.utf8))
    }

    @Test("every byte is decoded unchanged")
    func allBytes() {
        for count in 0...70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ count) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        }
    }

    @Test(
        "ambiguous base64 is rejected",
        arguments: [
            "Z", "Zg", "Zg=", "Zg===", "=", "====", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "Zm-_", "Z=g=", "Zmä=",
        ])
    func refused(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test("a webhook secret needs its prefix and 24 to 64 bytes")
    func secrets() throws {
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        #expect(secret.key.count == 24)
        #expect(secret.text == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        #expect(WebhookSecret("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") == nil)
        #expect(WebhookSecret("whsec_Zm9v") == nil)
        #expect(WebhookSecret(key: [UInt8](repeating: 0, count: 65)) == nil)
    }
}

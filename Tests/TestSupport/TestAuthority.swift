import Glibc

/// Certificates of a private authority, created with openssl(1) for TLS tests.
package struct TestAuthority: Sendable {
    /// A certificate and its key in PEM.
    package struct Identity: Sendable {
        package let certificate: String
        package let key: String
        /// Public key as `sha256//base64`.
        package let pin: String
    }

    /// Created once in a test process.
    package static let shared = Result { try TestAuthority() }

    package let certificate: String
    /// Valid for 127.0.0.1 and localhost.
    package let server: Identity
    /// Like `server`, expired yesterday.
    package let expired: Identity
    /// Valid only for other.example.
    package let elsewhere: Identity
    package let alice: Identity
    package let bob: Identity
    /// Certificate of an authority that has signed none of these.
    package let stranger: String
    /// Key of `alice`, encrypted with a password.
    package let encryptedKey: String

    private init() throws {
        let directory = try TemporaryDirectory.make("authority")
        defer { TemporaryDirectory.remove(directory) }
        try writeFile(directory + "/make", Array(Self.script.utf8))
        let pid = try ChildProcess.start(["sh", directory + "/make", directory])
        ChildProcess.wait(pid)
        func text(_ name: String) throws -> String {
            guard let bytes = readFile("\(directory)/\(name)"), !bytes.isEmpty else {
                throw TestSupportError("openssl has not made \(name)")
            }
            return String(decoding: bytes, as: UTF8.self)
        }
        func identity(_ name: String) throws -> Identity {
            Identity(
                certificate: try text(name + ".pem"), key: try text(name + ".key"),
                pin: "sha256//" + String(try text(name + ".pin").filter { !$0.isNewline }))
        }
        certificate = try text("ca.pem")
        server = try identity("server")
        expired = try identity("expired")
        elsewhere = try identity("elsewhere")
        alice = try identity("alice")
        bob = try identity("bob")
        stranger = try text("stranger.pem")
        encryptedKey = try text("encrypted.key")
    }

    private static let script = #"""
        set -e
        cd "$1"
        authority() {
          openssl ecparam -name prime256v1 -genkey -noout -out $1.key
          openssl req -x509 -new -key $1.key -days 30 -subj "/CN=$1" -out $1.pem
        }
        leaf() {
          openssl ecparam -name prime256v1 -genkey -noout -out $1.key
          openssl req -new -key $1.key -subj "/CN=$1" -out $1.csr
          echo "subjectAltName=$2" >$1.ext
          openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days $3 \
            -extfile $1.ext -out $1.pem
          openssl x509 -in $1.pem -noout -pubkey | openssl pkey -pubin -outform der |
            openssl dgst -sha256 -binary | openssl base64 >$1.pin
        }
        authority ca
        authority stranger
        leaf server IP:127.0.0.1,DNS:localhost 30
        leaf expired IP:127.0.0.1,DNS:localhost -1
        leaf elsewhere DNS:other.example 30
        leaf alice DNS:alice.example 30
        leaf bob DNS:bob.example 30
        openssl ec -in alice.key -aes256 -passout pass:secret -out encrypted.key
        """#
}

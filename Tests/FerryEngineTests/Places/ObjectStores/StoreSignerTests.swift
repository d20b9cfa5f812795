import Curl
import FerryCore
import Testing

@testable import FerryEngine

/// A request, and the signature that it must have.
private struct SignedRequest: Sendable, CustomTestStringConvertible {
    let method: String
    let url: String
    var headers: [TransferRequest.Header] = []
    var payload = StoreSigner.emptyPayload
    var token: String?
    var region = "us-east-1"
    var date = "2013-05-24T00:00:00Z"
    let names: String
    let signature: String
    var testDescription: String { "\(method) \(url) \(headers.map(\.name))" }
}

private let bucket = "https://examplebucket.s3.amazonaws.com"
private let usual = "host;x-amz-content-sha256;x-amz-date"
private let unsigned = StoreSigner.unsignedPayload

/// Requests whose only signed fields are `Host` and `x-amz-*`. The first two signatures are those of
/// the AWS documentation ("Authenticating Requests: Using the Authorization Header"). Other signatures were
/// computed by botocore 1.44.8: `S3SigV4Auth.add_auth` with `headers_to_sign` replaced by one that keeps only
/// these fields, and `payload` by one that returns the payload hash.
private let requests: [SignedRequest] = [
    .init(
        method: "GET", url: bucket + "/?lifecycle", names: usual,
        signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    .init(
        method: "GET", url: bucket + "/?max-keys=2&prefix=J", names: usual,
        signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    .init(
        method: "GET", url: bucket + "/test.txt", headers: [.init("Range", "bytes=0-9")], names: usual,
        signature: "df548e2ce037944d03f3e68682813b093763996d597cf890ca3d9037fd231eb4"),
    .init(
        method: "PUT", url: bucket + "/test%24file.text",
        headers: [.init("Expect", ""), .init("X-Amz-Storage-Class", "REDUCED_REDUNDANCY")],
        payload: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        names: usual + ";x-amz-storage-class",
        signature: "1ee3a9a719bf9cd67d34043a52b3d1f8b674e378dc99c0748019b43f49b5b9bb"),
    .init(
        method: "PUT", url: bucket + "/a", payload: unsigned, token: "AQoDYXdzEJr//token==",
        names: usual + ";x-amz-security-token",
        signature: "8ac690bd2df7724084a675edac05e9b3b31130d3feb8c75057da37dd63d3839c"),
    // A name that is the beginning of another one.
    .init(
        method: "PUT", url: bucket + "/a",
        headers: [.init("x-amz-meta-a-b", "2"), .init("x-amz-meta-a", "1")], payload: unsigned,
        names: usual + ";x-amz-meta-a;x-amz-meta-a-b",
        signature: "9883163936a933d8c7aa043af1a81372bcd1ee086f33623e9e0a0f19d70e4b0d"),
    .init(
        method: "PUT", url: bucket + "/a",
        headers: [.init("x-amz-meta-a", "2"), .init("X-AMZ-META-A", "1")], payload: unsigned,
        names: usual + ";x-amz-meta-a",
        signature: "8fab6e1e1d552e744212df7c6ee52a06e247a017c1f04afbda4c23b842fa6370"),
    .init(
        method: "PUT", url: bucket + "/a", headers: [.init("x-amz-meta-note", "  two   words  ")],
        payload: unsigned, names: usual + ";x-amz-meta-note",
        signature: "8aebef24b01518ba08f0160cba1697874b9ba6c1932af5654faa0ae4c9a91e89"),
    .init(
        method: "PUT", url: bucket + "/a", headers: [.init("x-amz-meta-note", "Grüße")],
        payload: unsigned, date: "2026-11-29T20:34:21.999999Z", names: usual + ";x-amz-meta-note",
        signature: "2832fd0b6998abbc957f9d332ed47cc091a5c1405f94baf10b1515d57c5bce57"),
    .init(
        method: "GET", url: bucket, date: "2026-11-29T20:34:21.999999Z", names: usual,
        signature: "40c5c9624cc30cf4106fd31a295dcc4421953d746a39d9da03864c029ffab266"),
    // Ports and addresses.
    .init(
        method: "GET", url: "http://127.0.0.1:9000/bucket/a%20b%2Bc/%C3%A9", region: "eu-central-1",
        names: usual, signature: "e27a8521b8b6ee7cb60fb8a7c1f131a1205f04ab2b1e9bbdbec17dbe7bb2d65a"),
    .init(
        method: "GET", url: "http://127.0.0.1:80/bucket/a", names: usual,
        signature: "836f8c4938f580cf508184671bca11637598819400b26dc1fcaeed95778bda00"),
    .init(
        method: "GET", url: "https://[::1]:443/bucket/a", names: usual,
        signature: "9062d8a3735101b30c82ea6e12ac4460e61af6e14164d0389c07c3993341bb94"),
    .init(
        method: "GET", url: "https://[::1]:9000/bucket/a", names: usual,
        signature: "7ee0cdfc2334b56f10224bda4ea18b00f832c78395c3efb01bdd4c0ad192d017"),
    .init(
        method: "GET", url: bucket + "/a", headers: [.init("Host", "s3.example:1")], names: usual,
        signature: "ed1617adb99a9c703f8a813adc69086db0a09e73d06aed3887d3b9aa3bbfd4d1"),
    // Queries.
    .init(
        method: "POST", url: bucket + "/a?uploads", names: usual,
        signature: "51b27c3a8ec9e956b75fc0136b4176c723a61310a6186ca3361d950e15f38c22"),
    .init(
        method: "PUT", url: bucket + "/a?uploadId=a%2Bb%2Fc%3D&partNumber=10", payload: unsigned,
        names: usual, signature: "3e89fe67ca080806d6aafb3f3f6621270b667fc5c76c62e626fa04b42d60965f"),
]

@Suite("Signatures for object stores") struct StoreSignerTests {
    private func signer(_ token: String? = nil, region: String = "us-east-1") -> StoreSigner {
        StoreSigner(
            region: region,
            credential: AccessKey(
                accessKeyID: "AKIAIOSFODNN7EXAMPLE",
                secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", sessionToken: token))
    }

    private func value(of name: String, in fields: [TransferRequest.Header]) -> String? {
        fields.first { $0.name == name }?.value
    }

    private func authorization(
        _ url: String, _ headers: [TransferRequest.Header] = [], payload: String = unsigned
    ) throws -> String? {
        let date = try #require(Timestamp(rfc3339: "2013-05-24T00:00:00Z"))
        let fields = signer().fields(
            method: "GET", url: try WebURL.parse(url), headers: headers, payloadHash: payload, at: date)
        return value(of: "Authorization", in: fields)
    }

    @Test("a request has the signature of the documentation or of botocore", arguments: requests)
    fileprivate func signature(of request: SignedRequest) throws {
        let date = try #require(Timestamp(rfc3339: request.date))
        let fields = signer(request.token, region: request.region).fields(
            method: request.method, url: try WebURL.parse(request.url), headers: request.headers,
            payloadHash: request.payload, at: date)
        let time = request.date.hasPrefix("2013") ? "20130524T000000Z" : "20261129T203421Z"
        let scope = "AKIAIOSFODNN7EXAMPLE/\(time.prefix(8))/\(request.region)/s3/aws4_request"
        var expected = [
            TransferRequest.Header("x-amz-date", time), .init("x-amz-content-sha256", request.payload),
        ]
        if let token = request.token { expected.append(.init("x-amz-security-token", token)) }
        expected.append(
            .init(
                "Authorization",
                "AWS4-HMAC-SHA256 Credential=\(scope), SignedHeaders=\(request.names), "
                    + "Signature=\(request.signature)"))
        #expect(fields == expected)
    }

    @Test(
        "URLs that a server decodes to the same path and parameters have the same signature",
        arguments: [
            ("/a%2bb%c3%a9", "/a%2Bb%C3%A9"), ("/a+b", "/a%2Bb"), ("/%61", "/a"), ("/a~b", "/a%7Eb"),
            ("/a!'()*;:@$&=,", "/a%21%27%28%29%2A%3B%3A%40%24%26%3D%2C"), ("/a%zz", "/a%25zz"),
            ("/a%", "/a%25"), ("/a//b", "/a/%2Fb"), ("/a?b=1&a=2", "/a?a=2&b=1"),
            ("/a?b=2&b=1", "/a?b=1&b=2"),
            ("/a?b&a", "/a?a=&b="), ("/a?b=x+y", "/a?b=x%20y"), ("/a?b=x/y", "/a?b=x%2Fy"),
            ("/a?b=x=y", "/a?b=x%3Dy"), ("/a?", "/a"), ("/a?&b=1&", "/a?b=1"),
            // `%2D` sorts as the dash that it is.
            ("/a?a%2Db=1&a=2", "/a?a=2&a-b=1"),
        ])
    func decodedURL(url: String, same: String) throws {
        let signature = try authorization(bucket + url)
        #expect(try signature == authorization(bucket + same))
        #expect(try signature != authorization(bucket + "/other"))
    }

    @Test("fields that are not signed may change, and those that the signer returns are not signed twice")
    func unsignedFields() throws {
        let plain = try authorization(bucket + "/a")
        let others = ["Range", "User-Agent", "traceparent", "Content-Type", "Content-MD5", "X-Amzn-Trace-Id"]
        #expect(try plain == authorization(bucket + "/a", others.map { .init($0, "value") }))
        let own = ["X-Amz-Date", "x-amz-content-sha256", "X-Amz-Security-Token"]
        #expect(try plain == authorization(bucket + "/a", own.map { .init($0, "old") }))
        #expect(try plain != authorization(bucket + "/a", [.init("x-amz-acl", "private")]))
        #expect(try plain != authorization(bucket + "/a", payload: StoreSigner.emptyPayload))
    }

    @Test("a value with octets is signed as the octets that are sent")
    func octets() throws {
        let utf8 = try authorization(bucket + "/a", [.init("x-amz-meta-a", "é")])
        let octets = TransferRequest.Header("x-amz-meta-a", "\u{C3}\u{A9}", hasOctets: true)
        #expect(try utf8 == authorization(bucket + "/a", [octets]))
    }

    /// The example of the AWS documentation ("Authenticating Requests: Using Query Parameters").
    @Test("a URL has its signature in the query")
    func presigned() throws {
        let signer = StoreSigner(
            region: "us-east-1",
            credential: AccessKey(
                accessKeyID: "AKIAIOSFODNN7EXAMPLE",
                secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", sessionToken: nil))
        let date = try #require(Timestamp(rfc3339: "2013-05-24T00:00:00Z"))
        let url = try WebURL.parse(bucket + "/test.txt")
        let signed = try #require(signer.presignedURL(url, query: "", seconds: 86_400, at: date))
        #expect(
            signed == bucket + "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
                + "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
                + "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
                + "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
    }
}

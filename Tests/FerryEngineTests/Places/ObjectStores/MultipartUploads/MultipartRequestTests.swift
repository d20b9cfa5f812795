import Curl
import FerryCore
import Testing

@testable import FerryEngine

@Suite struct MultipartRequestTests {
    private static let url = try? WebURL.parse("https://store.example/bucket/a%20b")

    private static let kinds: [MultipartRequest.Kind] = [
        .create, .list(after: 0), .list(after: 7), .part(3), .complete, .look, .abort,
    ]

    @Test("each request has its method and query, with the upload's identifier percent-encoded")
    func targets() throws {
        let object = try #require(Self.url)
        let targets = try Self.kinds.map { kind in
            let request = MultipartRequest(kind: kind, upload: "a/b+c=")
            return "\(request.method) \(try #require(request.url(of: object)).string)"
        }
        let place = "https://store.example/bucket/a%20b"
        #expect(
            targets == [
                "POST \(place)?uploads=",
                "GET \(place)?max-parts=1000&uploadId=a%2Fb%2Bc%3D",
                "GET \(place)?max-parts=1000&part-number-marker=7&uploadId=a%2Fb%2Bc%3D",
                "PUT \(place)?partNumber=3&uploadId=a%2Fb%2Bc%3D",
                "POST \(place)?uploadId=a%2Fb%2Bc%3D",
                "HEAD \(place)",
                "DELETE \(place)?uploadId=a%2Fb%2Bc%3D",
            ])
    }

    @Test("the members of the destination go with the request that begins the upload")
    func creationFields() {
        var destination = JobSpec.ObjectDestination()
        destination.storageClass = "STANDARD_IA"
        destination.encryption = "AES256"
        destination.metadata = [.init("owner", "me")]
        func fields(_ kind: MultipartRequest.Kind, _ checksum: DigestAlgorithm?) -> [String] {
            var request = MultipartRequest(kind: kind)
            let value = PayloadDigests(
                sha256: "", checksum: checksum.map { .init(algorithm: $0, value: [1, 2, 3]) }, byteCount: 3)
            if case .part = kind { request.payload = value }
            request.object = value
            return request.fields(of: destination, checksum, mayReplace: false)
                .map { "\($0.name): \($0.value)" }
        }
        let kept = [
            "x-amz-storage-class: STANDARD_IA", "x-amz-server-side-encryption: AES256",
            "x-amz-meta-owner: me",
        ]
        #expect(fields(.create, nil) == kept)
        #expect(
            fields(.create, .crc64nvme) == kept + [
                "x-amz-checksum-algorithm: CRC64NVME", "x-amz-checksum-type: FULL_OBJECT",
            ])
        #expect(
            fields(.create, .sha256) == kept + [
                "x-amz-checksum-algorithm: SHA256", "x-amz-checksum-type: COMPOSITE",
            ])
        #expect(fields(.part(1), .sha256) == ["x-amz-checksum-sha256: AQID"])
        #expect(fields(.part(1), nil) == [])
        #expect(
            fields(.complete, .crc32c) == [
                "x-amz-checksum-crc32c: AQID", "x-amz-checksum-type: FULL_OBJECT", "If-None-Match: *",
            ])
        // The store computes it from those of the parts.
        #expect(fields(.complete, .sha256) == ["If-None-Match: *"])
        #expect(fields(.list(after: 0), .sha256) == [] && fields(.abort, .sha256) == [])
    }

    @Test("fields of the job that describe the object begin the upload, and conditions complete it")
    func jobFields() {
        func having(_ name: String) -> [MultipartRequest.Kind] {
            Self.kinds.filter { MultipartRequest(kind: $0).has(name) }
        }
        for name in ["content-type", "content-disposition", "cache-control", "expires", "x-amz-acl"] {
            #expect(having(name) == [.create])
        }
        for name in ["if-match", "if-none-match"] { #expect(having(name) == [.complete]) }
        for name in ["content-md5", "content-digest", "repr-digest", "digest", "idempotency-key"] {
            #expect(having(name) == [])
        }
        for name in [
            "user-agent", "x-own", "x-amz-request-payer", "x-amz-server-side-encryption-customer-key",
        ] {
            #expect(having(name) == Self.kinds)
        }
    }

    @Test("the media type of the source is used if the job names none")
    func mediaType() {
        var request = TransferRequest(url: "https://store.example/")
        var create = MultipartRequest(kind: .create)
        create.contentType = "text/x-source"
        request.take(create)
        #expect(request.headers == [.init("Content-Type", "text/x-source")])
        request.headers = [.init("content-type", "text/x-job")]
        request.take(create)
        #expect(request.headers == [.init("content-type", "text/x-job")])
    }
}

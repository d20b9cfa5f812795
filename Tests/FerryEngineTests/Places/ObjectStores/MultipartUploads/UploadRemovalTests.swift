import Testing

@testable import FerryEngine

@Suite struct UploadRemovalTests {
    private static func document(_ code: String) -> [UInt8] {
        Array("<?xml version='1.0'?><Error><Code>\(code)</Code></Error>".utf8)
    }

    @Test(
        "a store has an upload no longer if it says so",
        arguments: [
            (204, [], true), (200, [], true), (404, document("NoSuchUpload"), true),
            (404, document("NoSuchBucket"), true), (404, document("NoSuchKey"), false),
            // That of a proxy.
            (404, Array("Not found".utf8), false), (404, [], false), (403, document("AccessDenied"), false),
            (403, document("NoSuchUpload"), false), (503, document("SlowDown"), false), (301, [], false),
        ])
    func gone(status: Int, body: [UInt8], isGone: Bool) {
        #expect(UploadRemoval.isGone(status, body) == isGone)
    }
}

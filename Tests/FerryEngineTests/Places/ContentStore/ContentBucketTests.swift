import FerryCore
import Testing

@testable import FerryEngine

@Suite("The bucket of the content store")
struct ContentBucketTests {
    @Test(
        "a setting names the bucket, the prefix and the store",
        arguments: [
            ("s3://a-bucket", "https://a-bucket.s3.us-east-1.amazonaws.com/c1/jobs/k"),
            ("s3://a-bucket/", "https://a-bucket.s3.us-east-1.amazonaws.com/c1/jobs/k"),
            ("s3://a-bucket?region=eu-west-1", "https://a-bucket.s3.eu-west-1.amazonaws.com/c1/jobs/k"),
            (
                "s3://a-bucket/x/y/?addressing=path",
                "https://s3.us-east-1.amazonaws.com/a-bucket/x/y/c1/jobs/k"
            ),
            (
                "s3://a-bucket/x?endpoint=http%3A%2F%2F127.0.0.1%3A9000&region=r",
                "http://127.0.0.1:9000/a-bucket/x/c1/jobs/k"
            ),
            (
                "s3://a-bucket/x?endpoint=http://store.example:9000/&addressing=virtual",
                "http://a-bucket.store.example:9000/x/c1/jobs/k"
            ),
        ])
    func address(text: String, url: String) throws {
        let bucket = try ContentBucket(text, cluster: "c1")
        #expect(bucket.object("jobs/k").url?.string == url)
        let home = try #require(bucket.address(StoreCorrection())?.string)
        #expect(url.hasPrefix(home) && !home.contains("c1"))
    }

    @Test(
        "a setting that names no bucket is refused with its reason",
        arguments: [
            ("", "neither"), ("/a/b", "neither"), ("https://a", "neither"), ("s3://", "no bucket"),
            ("s3:///a", "no bucket"), ("s3://a b/c", "visible"), ("s3://bucket/a/../b", "prefix"),
            ("s3://bucket/ä", "prefix"), ("s3://bucket?endpoint=", "endpoint"),
            ("s3://bucket?endpoint=http://a/b", "endpoint"), ("s3://bucket?region=a/b", "region"),
            ("s3://bucket?addressing=both", "addressing"),
            ("s3://bucket?Region=a", "unknown parameter Region"),
            ("s3://bucket/" + String(repeating: "a", count: 600), "URL"),
        ])
    func refused(text: String, word: String) {
        #expect {
            _ = try ContentBucket(text, cluster: "c1")
        } throws: { error in
            (error as? ContentBucket.Invalid)?.message.contains(word) ?? false
        }
    }
}

import FerryCore
import Testing

/// `source.s3` and `destination.s3`.
@Suite struct ObjectFieldTests {
    private static func download(_ object: String, _ rest: String = "") -> String {
        #"{"kind":"download","source":{"s3":\#(object)}\#(rest)}"#
    }

    private static func upload(_ destination: String, _ rest: String = "") -> String {
        #"{"kind":"upload","source":{"path":"a"},"destination":\#(destination)\#(rest)}"#
    }

    @Test(
        "the address of an object is the URL of its job",
        arguments: [
            (#"{"bucket":"bkt","key":"k"}"#, "https://bkt.s3.us-east-1.amazonaws.com/k"),
            (
                #"{"bucket":"bkt","key":"k","region":"cn-north-1"}"#,
                "https://bkt.s3.cn-north-1.amazonaws.com.cn/k"
            ),
            // A certificate covers no name with a dot, and a host has no upper case.
            (#"{"bucket":"a.b","key":"k"}"#, "https://s3.us-east-1.amazonaws.com/a.b/k"),
            (#"{"bucket":"Bkt","key":"k"}"#, "https://s3.us-east-1.amazonaws.com/Bkt/k"),
            (#"{"bucket":"bkt","key":"k","addressing":"path"}"#, "https://s3.us-east-1.amazonaws.com/bkt/k"),
            (
                #"{"bucket":"bkt","key":"k","endpoint":"http://h.example:9000"}"#,
                "http://h.example:9000/bkt/k"
            ),
            (#"{"bucket":"bkt","key":"k","endpoint":"https://h.example:443/"}"#, "https://h.example/bkt/k"),
            (
                #"{"bucket":"bkt","key":"k","endpoint":"http://h.example:9000","addressing":"virtual"}"#,
                "http://bkt.h.example:9000/k"
            ),
            (
                #"{"bucket":"bkt","key":"/a//b c+d%2F?é#~","endpoint":"http://h.example"}"#,
                "http://h.example/bkt//a//b%20c%2Bd%252F%3F%C3%A9%23~"
            ),
        ])
    func addresses(object: String, url: String) throws {
        #expect(try decode(Self.download(object)).spec.request.url == url)
        let upload = try decode(Self.upload(#"{"s3":\#(object)}"#)).spec
        #expect(upload.request.url == url && upload.request.method == "PUT")
        // What the job shows can be submitted again.
        let again = #","request":{"url":"\#(url)"}"#
        #expect(try decode(Self.download(object, again)).spec.request.url == url)
    }

    @Test("an s3 URL is short for an object in Amazon S3, with its key as written")
    func shortForm() throws {
        let long = try decode(Self.download(#"{"bucket":"bkt","key":"a/b%20c"}"#))
        let short = try decode(#"{"kind":"download","source":{"url":"s3://bkt/a/b%20c"}}"#)
        #expect(short == long)
        let upload = try decode(Self.upload(#"{"url":"s3://bkt/k","if_exists":"fail"}"#)).spec
        #expect(upload.destination?.object?.object.key == "k" && upload.destination?.ifExists == .fail)
    }

    @Test("the secrets of a credential are taken out of the spec, and a patch keeps them")
    func secrets() throws {
        let credential = #"{"access_key_id":"AK","secret_access_key":"sk/1","session_token":"st"}"#
        let job = try decode(Self.upload(#"{"s3":{"bucket":"bkt","key":"k","credential":\#(credential)}}"#))
        #expect(job.secrets.connection?.secretAccessKey == "sk/1")
        #expect(job.secrets.connection?.sessionToken == "st")
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(shown.contains(#""access_key_id":"AK","secret_access_key":{"set":true}"#))
        #expect(!shown.contains("sk/1"))
        #expect(try JobSpec(storedJSON: job.spec.encodeStored()) == job.spec)
        #expect(try JobSecrets(json: job.secrets.encode()) == job.secrets)
        let patched = try job.merging(
            JSONView(parsing: Array(#"{"request":{"headers":{"a":"b"}}}"#.utf8)), refusal: { _ in nil })
        #expect(patched.secrets.connection == job.secrets.connection)
    }

    @Test(
        "a member that an object cannot have is reported where it is",
        arguments: [
            (download(#"{"bucket":"b","key":"k"}"#), "#/source/s3/bucket", "invalid_value"),
            (download(#"{"bucket":"bkt"}"#), "#/source/s3/key", "required"),
            (download(#"{"bucket":"bkt","key":"a/../b"}"#), "#/source/s3/key", "invalid_value"),
            // A slash with a combining character is one character, but the slash separates parts.
            (download(#"{"bucket":"bkt","key":"a/../\u0301b"}"#), "#/source/s3/key", "invalid_value"),
            (
                download(
                    #"{"bucket":"bkt","key":"k","endpoint":"http://10.0.0.5:9000","addressing":"virtual"}"#),
                "#/source/s3", "invalid_value"
            ),
            (
                upload(#"{"s3":{"bucket":"\#(String(repeating: "b", count: 64))","key":"k"}}"#),
                "#/destination/s3", "invalid_value"
            ),
            (
                download(#"{"bucket":"bkt","key":"k","endpoint":"http://h.example/p"}"#),
                "#/source/s3/endpoint", "invalid_value"
            ),
            (
                download(#"{"bucket":"bkt","key":"k","credential":"name"}"#), "#/source/s3/credential",
                "not_supported"
            ),
            (
                download(#"{"bucket":"bkt","key":"k","metadata":{}}"#), "#/source/s3/metadata",
                "unknown_field"
            ),
            (
                #"{"kind":"download","request":{"url":"https://a.example/"},"source":{}}"#, "#/source",
                "required"
            ),
            (
                #"{"kind":"upload","request":{"url":"https://a.example/"},"source":{"text":"a"},"#
                    + #""destination":{"s3":null}}"#, "#/destination/s3", "wrong_type"
            ),
            (#"{"kind":"download","source":{"url":"s3://bkt"}}"#, "#/source/s3/key", "invalid_value"),
            (
                #"{"kind":"download","source":{"url":"ftp://h.example/x"},"#
                    + #""request":{"url":"https://a.example/"}}"#, "#/source/url", "not_supported"
            ),
            (
                download(#"{"bucket":"bkt","key":"k"}"#, #","request":{"url":"https://a.example/"}"#),
                "#/request/url", "invalid_combination"
            ),
            (
                download(#"{"bucket":"bkt","key":"k"}"#, #","request":{"method":"POST"}"#),
                "#/request/method", "invalid_combination"
            ),
            (
                upload(#"{"s3":{"bucket":"bkt","key":"k"},"if_exists":"rename"}"#),
                "#/destination/if_exists", "not_supported"
            ),
            (
                upload(#"{"s3":{"bucket":"bkt","key":"k","metadata":{"A":"1","a":"2"}}}"#),
                "#/destination/s3/metadata/a", "duplicate"
            ),
            (
                #"{"kind":"data","request":{"url":"https://a.example/"},"#
                    + #""destination":{"s3":{"bucket":"bkt","key":"k"}}}"#, "#/destination/s3",
                "not_supported"
            ),
            (
                #"{"kind":"upload","request":{"url":"https://a.example/"},"#
                    + #""source":{"s3":{"bucket":"bkt","key":"k"},"form":{}}}"#, "#/source/form",
                "invalid_combination"
            ),
            (
                #"{"kind":"upload","source":{"s3":{"bucket":"bkt","key":"k"}}}"#, "#/request", "required"
            ),
            (
                #"{"kind":"download","request":{"url":"https://a.example/"},"segments":2,"#
                    + #""destination":{"s3":{"bucket":"bkt","key":"k"}}}"#, "#/segments",
                "invalid_combination"
            ),
            (
                #"{"kind":"download","request":{"url":"https://a.example/"},"#
                    + #""destination":{"s3":{"bucket":"a.b","key":"k","addressing":"virtual","#
                    + #""endpoint":"http://[::1]:9000"}}}"#, "#/destination/s3", "invalid_value"
            ),
        ])
    func refused(job: String, pointer: String, code: String) {
        let found = errors(job)
        #expect(found.map(\.pointer) == [pointer] && found.map(\.code) == [code])
    }
}

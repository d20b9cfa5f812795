import FerryCore
import Testing

@testable import FerryEngine

@Suite("Listings of the content store")
struct StoreListingsTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test("a page of objects has their keys and times, and the token of the next page")
    func objects() throws {
        let page = try #require(
            ObjectPage(
                bytes(
                    """
                    <?xml version="1.0" encoding="UTF-8"?>
                    <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
                    <Name>bucket</Name><Prefix>a/jobs/</Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys>
                    <IsTruncated>true</IsTruncated>
                    <Contents><Key>a/jobs/1</Key><LastModified>2026-11-30T16:13:13.000Z</LastModified>
                    <ETag>&quot;x&quot;</ETag><Size>5</Size><StorageClass>STANDARD</StorageClass>
                    <Owner><ID>Key</ID></Owner></Contents>
                    <Contents><Key> a&amp;b </Key><LastModified>soon</LastModified></Contents>
                    <CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>
                    <NextContinuationToken>t/+=</NextContinuationToken>
                    </ListBucketResult>
                    """)))
        let modifiedAt = try #require(Timestamp(rfc3339: "2026-11-30T16:13:13Z"))
        #expect(
            page.entries == [
                .init(key: "a/jobs/1", modifiedAt: modifiedAt),
                // A time that cannot be read is never long ago.
                .init(key: " a&b ", modifiedAt: .distantFuture),
            ])
        #expect(page.next == "t/+=")
    }

    @Test("the last page of objects has no token, and an incomplete page is none")
    func lastObjects() throws {
        let text = """
            <ListBucketResult><IsTruncated>false</IsTruncated>
            <NextContinuationToken>t</NextContinuationToken></ListBucketResult>
            """
        let page = try #require(ObjectPage(bytes(text)))
        #expect(page.entries.isEmpty && page.next == nil)
        #expect(ObjectPage(bytes(String(text.dropLast(3)))) == nil)
        #expect(ObjectPage(bytes("")) == nil)
        #expect(ObjectPage(bytes("<Error><Code>AccessDenied</Code></Error>")) == nil)
    }

    @Test("a page of multipart uploads has their keys, identifiers and times, and the next marker")
    func uploads() throws {
        let page = try #require(
            MultipartUploadPage(
                bytes(
                    """
                    <ListMultipartUploadsResult><Bucket>bucket</Bucket><KeyMarker></KeyMarker>
                    <UploadIdMarker/><NextKeyMarker>a/jobs/2</NextKeyMarker>
                    <NextUploadIdMarker>u+2</NextUploadIdMarker><MaxUploads>2</MaxUploads>
                    <IsTruncated>true</IsTruncated>
                    <Upload><Key>a/jobs/1</Key><UploadId>u1</UploadId>
                    <Initiator><ID>Key</ID></Initiator><Initiated>2026-11-30T16:13:13Z</Initiated></Upload>
                    <Upload><Key>a/jobs/2</Key><UploadId>u+2</UploadId></Upload>
                    </ListMultipartUploadsResult>
                    """)))
        let initiatedAt = try #require(Timestamp(rfc3339: "2026-11-30T16:13:13Z"))
        #expect(
            page.entries == [
                .init(key: "a/jobs/1", upload: "u1", initiatedAt: initiatedAt),
                .init(key: "a/jobs/2", upload: "u+2", initiatedAt: .distantFuture),
            ])
        #expect(page.next == .init(key: "a/jobs/2", upload: "u+2"))
    }

    @Test("the last page of multipart uploads has no marker, and an incomplete page is none")
    func lastUploads() throws {
        let text = """
            <ListMultipartUploadsResult><NextKeyMarker>k</NextKeyMarker><IsTruncated>false</IsTruncated>
            </ListMultipartUploadsResult>
            """
        #expect(try #require(MultipartUploadPage(bytes(text))).next == nil)
        #expect(MultipartUploadPage(bytes(String(text.dropLast(3)))) == nil)
        #expect(MultipartUploadPage(bytes("<ListMultipartUploadsResult>")) == nil)
    }
}

import Testing

@testable import FerryEngine

@Suite struct StoreDocumentTests {
    private static func page(_ inside: String) -> PartPage? {
        PartPage(
            Array(
                ("<?xml version=\"1.0\"?>\n"
                    + "<ListPartsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" + inside
                    + "</ListPartsResult>").utf8))
    }

    @Test("the response to the creation names the upload")
    func creation() {
        let body = """
            <?xml version="1.0" encoding="UTF-8"?>
            <InitiateMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
              <Bucket>b</Bucket><Key>k</Key><UploadId> VXBsb2Fk/+= </UploadId>
            </InitiateMultipartUploadResult>
            """
        #expect(CreatedUpload(Array(body.utf8))?.upload == "VXBsb2Fk/+=")
        for other in [
            "", "<UploadId>x</UploadId>",
            "<InitiateMultipartUploadResult><UploadId/></InitiateMultipartUploadResult>",
            "<InitiateMultipartUploadResult><UploadId>\(String(repeating: "x", count: 2_049))"
                + "</UploadId></InitiateMultipartUploadResult>",
        ] {
            #expect(CreatedUpload(Array(other.utf8)) == nil)
        }
    }

    @Test("a page lists parts with sizes, tags and checksums, and names the next page")
    func pages() {
        let page = Self.page(
            "<IsTruncated>true</IsTruncated><NextPartNumberMarker>4</NextPartNumberMarker>"
                + "<Part><PartNumber>2</PartNumber><ETag>&quot;aa&quot;</ETag><Size>5</Size></Part>"
                + "<Part><ChecksumCRC32C>AAAAAA==</ChecksumCRC32C><Size>6</Size><ETag>\"bb\"</ETag>"
                + "<PartNumber>4</PartNumber></Part>")
        #expect(
            page?.parts == [
                ListedPart(number: 2, byteCount: 5, entityTag: "\"aa\""),
                ListedPart(
                    number: 4, byteCount: 6, entityTag: "\"bb\"", checksums: ["ChecksumCRC32C": "AAAAAA=="]),
            ])
        #expect(page?.next == 4)
        let last = Self.page(
            "<NextPartNumberMarker>4</NextPartNumberMarker><IsTruncated>false</IsTruncated>")
        #expect(last?.parts == [] && last?.next == nil)
        let unnamed = Self.page("<IsTruncated>true</IsTruncated><Part><PartNumber>9</PartNumber></Part>")
        #expect(unnamed?.next == 9)
    }

    @Test("a page that has been cut is no page")
    func cutPage() {
        #expect(PartPage(Array("<ListPartsResult><Part><PartNumber>1</PartNumber></Part>".utf8)) == nil)
        #expect(PartPage([]) == nil)
    }

    @Test("a completed upload has an entity tag in quotes; an error document is no completion")
    func completion() {
        func read(_ text: String) -> CompletedUpload? { CompletedUpload(Array(text.utf8)) }
        // Amazon S3 sends spaces while it makes the object.
        let head = "<?xml version=\"1.0\"?>\n    \n   <CompleteMultipartUploadResult>"
        let end = "</CompleteMultipartUploadResult>"
        #expect(read("\(head)<ETag>\"ab-2\"</ETag>\(end)")?.entityTag == "\"ab-2\"")
        #expect(read("\(head)<ETag>ab-2</ETag>\(end)")?.entityTag == "\"ab-2\"")
        #expect(read("\(head)\(end)") != nil && read("\(head)\(end)")?.entityTag == nil)
        #expect(read("\(head)<ETag>ab-2</ETag>") == nil)
        #expect(read("<Error><Code>InternalError</Code></Error>") == nil)
    }

    @Test("an entity tag is an MD5 only if it has 32 hexadecimal digits")
    func tags() {
        let tag = "d41d8cd98f00b204e9800998ecf8427e"
        #expect(StoreTag("\"\(tag)\"").digest?.count == 16)
        #expect(StoreTag(tag.uppercased()).digest == StoreTag(tag).digest)
        for other in ["", "\"\"", "\"\(tag)-2\"", "\"\(tag.dropLast())\"", "\"x\(tag.dropLast())\""] {
            #expect(StoreTag(other).digest == nil)
        }
    }
}

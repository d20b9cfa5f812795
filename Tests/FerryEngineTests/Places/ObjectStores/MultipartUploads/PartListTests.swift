import FerryCore
import OpenSSL
import Testing

@testable import FerryEngine

@Suite struct PartListTests {
    private static let mebi: Int64 = 1 << 20

    private static func list(parts count: Int) throws -> PartList {
        PartList(try #require(PartDivision(total: Int64(count) * 5 * mebi, partByteCount: 5 * mebi)))
    }

    private static func md5(_ part: Int) -> [UInt8] { Digest.of(Array("\(part)".utf8), .md5) }
    private static func tag(_ part: Int) -> String { "\"\(hexEncoded(md5(part)))\"" }

    private static func digests(_ part: Int, checksum: [UInt8]? = nil) -> PartDigests {
        PartDigests(
            payload: PayloadDigests(
                sha256: "\(part)", checksum: checksum.map { .init(algorithm: .crc32c, value: $0) },
                byteCount: 5 * mebi),
            md5: md5(part))
    }

    private static func listed(
        _ part: Int, size: Int64 = 5 * mebi, tag: String? = nil, checksums: [String: String] = [:]
    ) -> ListedPart {
        ListedPart(number: part, byteCount: size, entityTag: tag ?? Self.tag(part), checksums: checksums)
    }

    /// Takes all parts that are ready.
    private static func ready(_ list: inout PartList) -> [Int] {
        var numbers: [Int] = []
        while let part = list.takeReady() { numbers.append(part.number) }
        return numbers
    }

    private static func unhashed(_ list: inout PartList) -> [Int] {
        var numbers: [Int] = []
        while let part = list.takeUnhashed() { numbers.append(part) }
        return numbers
    }

    private static func arrive(_ list: inout PartList, _ byteCount: Int64, isWhole: Bool) -> Bool {
        list.arrived(byteCount, isWhole: isWhole)
    }

    private static func send(
        _ list: inout PartList, _ part: Int, _ tag: String, checksum: String? = nil, isDigest: Bool = true
    ) -> Bool {
        list.sent(part, tag: tag, checksum: checksum, hasDigestTag: isDigest)
    }

    @Test("parts are hashed and sent in their order, a failed one first")
    func order() throws {
        var list = try Self.list(parts: 4)
        #expect(Self.ready(&list) == [])
        #expect(Self.unhashed(&list) == [1, 2, 3, 4])
        list.hashed(2, Self.digests(2))
        #expect(list.hashedPrefix == 0)
        list.hashed(1, Self.digests(1))
        #expect(list.hashedPrefix == 10 * Self.mebi && list.readyCount == 2)
        #expect(Self.ready(&list) == [1, 2])
        list.hashed(3, Self.digests(3))
        list.failed(1)
        #expect(Self.ready(&list) == [1, 3])
        list.hashed(4, Self.digests(4))
        #expect(list.areHashed && list.hashedPrefix == 20 * Self.mebi && !list.areDone)
    }

    @Test("parts of a copy are hashed when their bytes have come")
    func copies() throws {
        let division = try #require(PartDivision(total: 11 * Self.mebi, partByteCount: 5 * Self.mebi))
        var list = PartList(ofCopy: division, total: division.total)
        #expect(Self.arrive(&list, 5 * Self.mebi - 1, isWhole: false))
        #expect(list.readablePartCount == 0)
        #expect(Self.unhashed(&list) == [])
        #expect(Self.arrive(&list, 10 * Self.mebi, isWhole: false))
        #expect(list.readablePartCount == 2)
        #expect(Self.unhashed(&list) == [1, 2])
        #expect(Self.arrive(&list, 11 * Self.mebi, isWhole: true))
        #expect(list.readablePartCount == 3)
        #expect(Self.unhashed(&list) == [3])
        for part in 1...3 { list.hashed(part, Self.digests(part)) }
        #expect(Self.ready(&list) == [1, 2, 3] && list.donePrefix == 0)
        #expect(Self.send(&list, 2, Self.tag(2)) && list.donePrefix == 0)
        #expect(Self.send(&list, 1, Self.tag(1)) && list.donePrefix == 10 * Self.mebi && !list.areDone)
        #expect(Self.send(&list, 3, Self.tag(3)) && list.donePrefix == 11 * Self.mebi && list.areDone)
    }

    @Test("a copy of unknown length has as many parts as come", arguments: [0, 4, 5, 10, 11] as [Int64])
    func openCopies(_ size: Int64) throws {
        let division = PartDivision(arrived: 0, isWhole: false, partByteCount: 5 * Self.mebi)
        var list = PartList(ofCopy: division, total: nil)
        var parts: [Int] = []
        for arrived in 0...size {
            #expect(Self.arrive(&list, arrived * Self.mebi, isWhole: false))
            #expect(list.readablePartCount == arrived / 5 && !list.areHashed && !list.areDone)
            parts += Self.unhashed(&list)
        }
        #expect(parts == Array(1..<(1 + Int(size) / 5)))
        #expect(Self.arrive(&list, size * Self.mebi, isWhole: true))
        parts += Self.unhashed(&list)
        let count = max(1, (Int(size) + 4) / 5)
        #expect(parts == Array(1...count) && list.division.total == size * Self.mebi)
        for part in parts { list.hashed(part, Self.digests(part)) }
        #expect(list.areHashed && list.hashedPrefix == size * Self.mebi)
        for part in Self.ready(&list) { #expect(Self.send(&list, part, Self.tag(part))) }
        #expect(list.areDone)
    }

    @Test("a copy of unknown length has no more parts than a store takes")
    func tooManyParts() {
        let division = PartDivision(arrived: 0, isWhole: false, partByteCount: Self.mebi)
        var list = PartList(ofCopy: division, total: nil)
        #expect(Self.arrive(&list, 10_000 * Self.mebi, isWhole: false))
        #expect(!Self.arrive(&list, 10_000 * Self.mebi + 1, isWhole: true))
    }

    @Test("listed parts with the same bytes are not sent; wrong sizes, tags and checksums are")
    func comparison() throws {
        var list = try Self.list(parts: 6)
        list.list([
            Self.listed(1), Self.listed(2, size: 1), Self.listed(3, tag: Self.tag(9)),
            Self.listed(4, checksums: ["ChecksumCRC32C": "AAAAAA=="]),
            Self.listed(5, tag: "\"of-keys-of-the-store\""), Self.listed(7), Self.listed(0),
        ])
        #expect(list.byteCountAtStore == 25 * Self.mebi && list.doneCount == 0)
        for part in 1...6 { list.hashed(part, Self.digests(part, checksum: [0, 0, 0, 1])) }
        #expect(list.doneByteCount == 10 * Self.mebi && list.byteCountAtStore == 10 * Self.mebi)
        #expect(Self.ready(&list) == [2, 3, 4, 6])
    }

    @Test("where tags are no digests, the size of a listed part is enough")
    func foreignTags() throws {
        var list = try Self.list(parts: 1)
        list.haveDigestTags = false
        list.list([Self.listed(1, tag: Self.tag(9))])
        list.hashed(1, Self.digests(1))
        #expect(list.areDone)
    }

    @Test("a part that the store has stored with other bytes is sent again")
    func otherBytes() throws {
        var list = try Self.list(parts: 1)
        list.hashed(1, Self.digests(1, checksum: [0, 0, 0, 1]))
        #expect(Self.ready(&list) == [1])
        #expect(!Self.send(&list, 1, Self.tag(2)))
        #expect(!Self.send(&list, 1, Self.tag(1), checksum: "AAAAAA=="))
        #expect(!list.areDone)
        list.failed(1)
        #expect(Self.ready(&list) == [1])
        #expect(Self.send(&list, 1, Self.tag(2), checksum: "AAAAAQ==", isDigest: false))
        #expect(list.areDone)
    }

    @Test("the completion names all parts with their tags and checksums, in their order")
    func completion() throws {
        var list = try Self.list(parts: 2)
        for part in [2, 1] { list.hashed(part, Self.digests(part, checksum: [0, 0, 0, UInt8(part)])) }
        #expect(Self.ready(&list) == [1, 2])
        #expect(Self.send(&list, 2, "\"<&>\"") && Self.send(&list, 1, Self.tag(1)))
        #expect(
            String(decoding: list.completion, as: UTF8.self)
                == "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                + "<Part><PartNumber>1</PartNumber><ETag>\(Self.tag(1))</ETag>"
                + "<ChecksumCRC32C>AAAAAQ==</ChecksumCRC32C></Part>"
                + "<Part><PartNumber>2</PartNumber><ETag>\"&lt;&amp;&gt;\"</ETag>"
                + "<ChecksumCRC32C>AAAAAg==</ChecksumCRC32C></Part></CompleteMultipartUpload>")
    }

    @Test("an object is that of the parts if its tag is the MD5 of their digests with their number")
    func object() throws {
        var list = try Self.list(parts: 2)
        let own = hexEncoded(Digest.of(Self.md5(1) + Self.md5(2), .md5))
        #expect(!list.isObject("\"\(own)-2\""))
        for part in 1...2 { list.hashed(part, Self.digests(part)) }
        #expect(list.isObject("\"\(own)-2\"") && list.isObject("\(own.uppercased())-2"))
        #expect(!list.isObject("\"\(own)-3\"") && !list.isObject("\"\(own)\""))
        #expect(list.mayBeObject("\"x-2\"", byteCount: 10 * Self.mebi))
        #expect(!list.mayBeObject("\"x-2\"", byteCount: 1) && !list.mayBeObject("\"x-2\"", byteCount: nil))
        #expect(!list.mayBeObject("\"x\"", byteCount: 10 * Self.mebi))
    }

    @Test("an upload that is gone leaves the digests: its parts are sent again without being hashed")
    func lostUpload() throws {
        var list = try Self.list(parts: 3)
        list.list([Self.listed(1), Self.listed(3)])
        list.hashed(1, Self.digests(1))
        list.hashed(2, Self.digests(2))
        #expect(list.doneCount == 1)
        list.forgetUpload()
        #expect(list.doneCount == 0 && list.byteCountAtStore == 0 && list.readyCount == 2)
        list.hashed(3, Self.digests(3))
        #expect(Self.ready(&list) == [1, 2, 3])
    }

    @Test("an object of 5 TiB has a completion below 2 MiB")
    func manyParts() {
        var list = PartList(PartDivision(total: 5 << 40))
        let count = list.division.count
        for _ in 1...count {
            guard let part = list.takeUnhashed() else { break }
            let size = Int64(list.division.range(of: part).count)
            list.hashed(
                part,
                PartDigests(payload: .init(sha256: "", checksum: nil, byteCount: size), md5: Self.md5(part)))
            guard let ready = list.takeReady() else { break }
            #expect(Self.send(&list, ready.number, Self.tag(part)))
        }
        #expect(list.areDone && list.doneByteCount == 5 << 40)
        #expect(list.completion.count < 2 << 20)
    }
}

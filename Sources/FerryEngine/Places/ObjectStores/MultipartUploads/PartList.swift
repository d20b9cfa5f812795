import FerryCore
import OpenSSL

/// The parts of a multipart upload: which are there, which are hashed, and which the store has. A pure value.
struct PartList: Sendable {
    private enum State: Sendable {
        case unknown
        /// Hashed, and not at the store.
        case ready(PartDigests)
        case sending(PartDigests)
        /// `tag`: as the store has named it.
        case done(PartDigests, tag: String)

        var digests: PartDigests? {
            switch self {
            case .unknown: nil
            case .ready(let digests), .sending(let digests), .done(let digests, _): digests
            }
        }
    }

    private(set) var division: PartDivision
    private var states: [State]
    /// Bytes from byte 0 on that are there; `nil`: all.
    private var arrivedByteCount: Int64?
    /// Whether more parts may follow: the length of the object is not known yet.
    private var isOpen = false
    /// Parts that the store has listed and that are not compared yet.
    private var listed: [Int: ListedPart] = [:]
    private var listedByteCount: Int64 = 0
    /// The next part to hash.
    private var next = 1
    /// Parts that are hashed and not at the store, in their order.
    private var ready: [Int] = []
    /// Number of parts at the store, and their bytes.
    private(set) var doneCount = 0
    private(set) var doneByteCount: Int64 = 0
    /// Number of parts that are hashed.
    private(set) var hashedCount = 0
    /// Parts before this one are hashed.
    private var firstUnhashed = 1
    /// Parts before this one are at the store.
    private var firstMissing = 1
    /// Whether entity tags of parts are MD5 digests.
    var haveDigestTags = true

    init(_ division: PartDivision) {
        self.division = division
        states = Array(repeating: .unknown, count: division.count)
    }

    /// Parts of a copy, of which no bytes have come yet. `total`: bytes of the object; `nil` if only its end
    /// tells.
    init(ofCopy division: PartDivision, total: Int64?) {
        self.division = division
        isOpen = total == nil
        arrivedByteCount = 0
        states = Array(repeating: .unknown, count: isOpen ? 0 : division.count)
    }

    var areDone: Bool { !isOpen && doneCount == division.count }
    var areHashed: Bool { !isOpen && hashedCount == division.count }
    /// Number of parts that could be sent now.
    var readyCount: Int { ready.count }
    /// Bytes at the beginning of the object that are hashed.
    var hashedPrefix: Int64 { start(of: firstUnhashed) }
    /// Bytes at the beginning of the object that the store has.
    var donePrefix: Int64 { start(of: firstMissing) }

    private func start(of part: Int) -> Int64 {
        part > states.count ? division.total : division.range(of: part).lowerBound
    }

    // MARK: Copies

    /// Number of parts all of whose bytes are there.
    var readablePartCount: Int {
        guard let arrivedByteCount, arrivedByteCount < division.total else { return states.count }
        return Int(arrivedByteCount / division.partByteCount)
    }

    /// Notes how many bytes have come. `isWhole`: whether they are all. Returns `false` if they are more than
    /// parts can have.
    mutating func arrived(_ byteCount: Int64, isWhole: Bool) -> Bool {
        arrivedByteCount = byteCount
        guard isOpen else { return true }
        division = PartDivision(
            arrived: byteCount, isWhole: isWhole, partByteCount: division.partByteCount)
        isOpen = !isWhole
        let count = isWhole || division.total > 0 ? division.count : 0
        guard count <= Limits.multipartPartCountMax else { return false }
        states += Array(repeating: .unknown, count: count - states.count)
        return true
    }

    // MARK: Hashing

    /// Takes the next part that is to be hashed; `nil` if there is none.
    mutating func takeUnhashed() -> Int? {
        guard next <= states.count,
            division.range(of: next).upperBound <= arrivedByteCount ?? .max
        else { return nil }
        next += 1
        return next - 1
    }

    /// Notes the digests of a part, and compares it with the one that the store has listed.
    mutating func hashed(_ part: Int, _ digests: PartDigests) {
        hashedCount += 1
        let found = listed.removeValue(forKey: part)
        if found != nil { listedByteCount -= Int64(division.range(of: part).count) }
        states[part - 1] = .ready(digests)
        while firstUnhashed <= states.count, states[firstUnhashed - 1].digests != nil { firstUnhashed += 1 }
        if let found, isSame(found, digests) {
            return finish(part, digests, tag: found.entityTag)
        }
        makeReady(part)
    }

    // MARK: Parts that the store has

    /// Notes parts of the store. Those that are hashed already are compared at once.
    mutating func list(_ parts: [ListedPart]) {
        for part in parts where part.number >= 1 && part.number <= states.count {
            switch states[part.number - 1] {
            case .unknown:
                if listed.updateValue(part, forKey: part.number) == nil {
                    listedByteCount += Int64(division.range(of: part.number).count)
                }
            case .ready(let digests):
                if isSame(part, digests) { finish(part.number, digests, tag: part.entityTag) }
            case .sending, .done: break
            }
        }
    }

    /// Bytes of parts that the store has, as far as it is known.
    var byteCountAtStore: Int64 { doneByteCount + listedByteCount }

    /// Whether the store has the bytes of the part. The source is known to be the same: digests that cannot
    /// be compared are not missed.
    private func isSame(_ part: ListedPart, _ digests: PartDigests) -> Bool {
        guard part.byteCount == digests.payload.byteCount, !part.entityTag.isEmpty else { return false }
        if let checksum = digests.payload.checksum, let listed = part.checksums[checksum.algorithm.element],
            listed != Base64.encode(checksum.value)
        {
            return false
        }
        guard haveDigestTags, let md5 = digests.md5, let tag = StoreTag(part.entityTag).digest else {
            return true
        }
        return tag == md5
    }

    /// Forgets what the store has: the upload is gone.
    mutating func forgetUpload() {
        (listed, listedByteCount) = ([:], 0)
        (doneCount, doneByteCount, firstMissing) = (0, 0, 1)
        ready = []
        for index in states.indices {
            guard let digests = states[index].digests else { continue }
            states[index] = .ready(digests)
            ready.append(index + 1)
        }
    }

    // MARK: Sending

    /// Takes the first part that is to be sent; `nil` if none is ready.
    mutating func takeReady() -> (number: Int, digests: PartDigests)? {
        guard let part = ready.first, case .ready(let digests) = states[part - 1] else { return nil }
        ready.removeFirst()
        states[part - 1] = .sending(digests)
        return (part, digests)
    }

    /// The part has to be sent again.
    mutating func failed(_ part: Int) {
        guard case .sending(let digests) = states[part - 1] else { return }
        states[part - 1] = .ready(digests)
        makeReady(part)
    }

    /// The store has taken the part. Returns `false` if its entity tag or checksum is that of other bytes.
    /// `checksum`: in Base64, or `nil` if the store has sent none.
    mutating func sent(_ part: Int, tag: String, checksum: String?, hasDigestTag: Bool) -> Bool {
        guard case .sending(let digests) = states[part - 1] else { return true }
        if let own = digests.payload.checksum, let checksum, checksum != Base64.encode(own.value) {
            return false
        }
        if hasDigestTag, let md5 = digests.md5, let found = StoreTag(tag).digest, found != md5 {
            return false
        }
        finish(part, digests, tag: tag)
        return true
    }

    private mutating func finish(_ part: Int, _ digests: PartDigests, tag: String) {
        states[part - 1] = .done(digests, tag: tag)
        doneCount += 1
        doneByteCount += digests.payload.byteCount
        ready.removeAll { $0 == part }
        while firstMissing <= states.count, case .done = states[firstMissing - 1] { firstMissing += 1 }
    }

    private mutating func makeReady(_ part: Int) {
        let place = ready.firstIndex { $0 > part } ?? ready.endIndex
        ready.insert(part, at: place)
    }

    // MARK: The whole object

    /// The body of `CompleteMultipartUpload`. All parts must be done.
    var completion: [UInt8] {
        Self.completion(
            states.map { state in
                guard case .done(let digests, let tag) = state else { return ("", "") }
                let checksum = digests.payload.checksum.map { checksum in
                    let name = checksum.algorithm.element
                    return "<\(name)>\(Base64.encode(checksum.value))</\(name)>"
                }
                return (tag, checksum ?? "")
            })
    }

    /// Returns the body of `CompleteMultipartUpload`. `parts`: for each part, in order, its entity tag and
    /// the element with its checksum, or an empty text.
    static func completion(_ parts: [(tag: String, checksum: String)]) -> [UInt8] {
        var text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        for (index, part) in parts.enumerated() {
            text += "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(escaped(part.tag))</ETag>"
            text += "\(part.checksum)</Part>"
        }
        return Array((text + "</CompleteMultipartUpload>").utf8)
    }

    /// Returns whether an object may be the one that the upload makes, without a look at its digests.
    func mayBeObject(_ tag: String, byteCount: Int64?) -> Bool {
        byteCount == division.total && StoreTag(tag).text.hasSuffix("-\(division.count)")
    }

    /// Returns whether an object's entity tag is that of the parts: the MD5 of their MD5 digests, and their
    /// number. All parts must be hashed.
    func isObject(_ tag: String) -> Bool {
        var all: [UInt8] = []
        for state in states {
            guard let md5 = state.digests?.md5 else { return false }
            all += md5
        }
        return StoreTag(tag).text == "\(hexEncoded(Digest.of(all, .md5)))-\(division.count)"
    }
}

extension DigestAlgorithm {
    /// Name of the element that has this checksum of a part, such as `ChecksumCRC32C`.
    fileprivate var element: String { "Checksum\(rawValue.uppercased())" }
}

private func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        default: escaped.unicodeScalars.append(scalar)
        }
    }
    return escaped
}

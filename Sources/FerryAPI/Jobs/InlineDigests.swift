internal import FerryCore
internal import OpenSSL
internal import Sys

extension ValidatedJob {
    /// Throws when the bytes that came along are not those that `integrity` names: no attempt could mend it.
    func checkInlineDigests(at prefix: String) throws(InvalidFields) {
        let integrity = spec.integrity
        guard !integrity.isEmpty, let payload, let count = spec.inlineFileByteCount, count <= payload.count
        else { return }
        let file = Array(payload.suffix(count))
        let complaints = ValidationErrors()
        func check(_ name: String, _ expected: String?, _ actual: () -> [UInt8]) {
            guard let expected, hexEncoded(actual()) != expected else { return }
            complaints.add(
                "\(prefix)/integrity/\(name)", "invalid_combination", "The source has another digest.")
        }
        check("md5", integrity.md5) { digest(.md5, of: file) }
        check("sha1", integrity.sha1) { digest(.sha1, of: file) }
        check("sha256", integrity.sha256) { digest(.sha256, of: file) }
        check("sha512", integrity.sha512) { digest(.sha512, of: file) }
        check("crc32c", integrity.crc32c) { networkOrder(Checksum.crc32c(file)) }
        check("adler32", integrity.adler32) { networkOrder(Checksum.adler32(file)) }
        if !complaints.isEmpty { throw InvalidFields(complaints.errors) }
    }
}

private func digest(_ algorithm: Digest.Algorithm, of bytes: [UInt8]) -> [UInt8] {
    var digest = Digest(algorithm)
    digest.update(bytes)
    return digest.finish()
}

private func networkOrder(_ value: UInt32) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
}

// The stored form of cookies: packed bytes, which the store encrypts.

extension Cookie {
    /// Version of the stored form.
    private static let version: UInt8 = 1

    /// Flags of the stored form.
    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let hostOnly = Flags(rawValue: 1)
        static let secure = Flags(rawValue: 2)
        static let httpOnly = Flags(rawValue: 4)
        static let expires = Flags(rawValue: 8)
    }

    /// Stored bytes are damaged or of an unknown version.
    public struct Damage: Error, Sendable, Equatable {
        /// Creates an error.
        public init() {}
    }

    /// The stored form.
    public var stored: [UInt8] {
        var bytes = [Self.version]
        var flags: Flags = isHostOnly ? .hostOnly : []
        if isSecure { flags.insert(.secure) }
        if isHTTPOnly { flags.insert(.httpOnly) }
        if expiresAt != nil { flags.insert(.expires) }
        bytes.append(flags.rawValue)
        bytes.appendPacked(sameSite?.rawValue ?? "")
        bytes.appendPacked(bytes: name)
        bytes.appendPacked(bytes: value)
        bytes.appendPacked(domain)
        bytes.appendPacked(path)
        bytes.appendPacked(signed: createdAt.microseconds)
        bytes.appendPacked(signed: lastAccessAt.microseconds)
        if let expiresAt { bytes.appendPacked(signed: expiresAt.microseconds) }
        return bytes
    }

    /// Reads the stored form.
    public init(stored bytes: [UInt8]) throws(Damage) {
        do throws(PackedReader.Damage) {
            var reader = PackedReader(bytes)
            guard try reader.byte() == Self.version else { throw PackedReader.Damage() }
            let flags = Flags(rawValue: try reader.byte())
            let sameSite = try reader.text()
            self.init(
                name: try reader.blob(), value: try reader.blob(), domain: try reader.text(),
                isHostOnly: flags.contains(.hostOnly), path: try reader.text(),
                isSecure: flags.contains(.secure), isHTTPOnly: flags.contains(.httpOnly),
                sameSite: SameSite(rawValue: sameSite),
                createdAt: Timestamp(microseconds: try reader.signed()),
                lastAccessAt: Timestamp(microseconds: try reader.signed()))
            if flags.contains(.expires) { expiresAt = Timestamp(microseconds: try reader.signed()) }
            guard reader.isAtEnd, flags.rawValue < 16, (self.sameSite?.rawValue ?? "") == sameSite else {
                throw PackedReader.Damage()
            }
        } catch {
            throw Damage()
        }
    }
}

extension Cookie.Key {
    /// An encoding that differs for different keys.
    public var octets: [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendPacked(domain)
        bytes.appendPacked(path)
        bytes.appendPacked(bytes: name)
        bytes.append(isHostOnly ? 1 : 0)
        return bytes
    }

    /// Reads what `octets` returned.
    public init(octets: [UInt8]) throws(Cookie.Damage) {
        do throws(PackedReader.Damage) {
            var reader = PackedReader(octets)
            domain = try reader.text()
            path = try reader.text()
            name = try reader.blob()
            let flag = try reader.byte()
            guard flag <= 1, reader.isAtEnd else { throw PackedReader.Damage() }
            isHostOnly = flag == 1
        } catch {
            throw Cookie.Damage()
        }
    }
}

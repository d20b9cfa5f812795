import FerryCore
import OpenSSL

/// Builds a `multipart/form-data` body (RFC 7578). Names are sent as UTF-8 and escaped as browsers do it
/// (WHATWG HTML, "multipart/form-data encoding algorithm").
struct MultipartForm {
    /// One part whose bytes are opened.
    struct Part {
        let name: String
        let fileName: String?
        let contentType: String?
        let content: BodyContents.Piece
    }

    private let boundary: String
    private var pieces: [BodyContents.Piece] = []
    /// Bytes that are not a piece yet.
    private var text: [UInt8] = []

    /// `boundary`: that of the same form in an earlier attempt; `nil`: 128 random bits, so that no part can
    /// contain it.
    init(boundary: String? = nil) { self.boundary = boundary ?? "ferry-" + hexEncoded(randomBytes(16)) }

    /// Returns the whole body. `subject`: index of the part that becomes a piece of its own, to be hashed.
    static func contents(_ parts: [Part], subject: Int?, form: MultipartForm = MultipartForm())
        -> BodyContents
    {
        var form = form
        var subjectPiece: Int?
        for (index, part) in parts.enumerated() {
            form.begin(part)
            if case .bytes(let bytes) = part.content, index != subject {
                form.text += bytes
            } else {
                form.flush()
                if index == subject { subjectPiece = form.pieces.count }
                form.pieces.append(part.content)
            }
            form.text += "\r\n".utf8
        }
        form.text += "--\(form.boundary)--\r\n".utf8
        form.flush()
        var contents = BodyContents(form.pieces, subject: subjectPiece)
        contents.boundary = form.boundary
        contents.contentType = "multipart/form-data; boundary=\(form.boundary)"
        return contents
    }

    private mutating func begin(_ part: Part) {
        text += "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(Self.escaped(part.name))\"".utf8
        if let fileName = part.fileName { text += "; filename=\"\(Self.escaped(fileName))\"".utf8 }
        text += "\r\n".utf8
        if let type = part.contentType { text += "Content-Type: \(type)\r\n".utf8 }
        text += "\r\n".utf8
    }

    private mutating func flush() {
        guard !text.isEmpty else { return }
        pieces.append(.bytes(text))
        text = []
    }

    private static func escaped(_ name: String) -> String {
        var escaped: [UInt8] = []
        escaped.reserveCapacity(name.utf8.count)
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "\""): escaped += "%22".utf8
            case 0x0D: escaped += "%0D".utf8
            case 0x0A: escaped += "%0A".utf8
            default: escaped.append(byte)
            }
        }
        return String(decoding: escaped, as: UTF8.self)
    }
}

import FerryCore
import OpenSSL

/// Resume data as clients see it: sealed, so that nobody can make it who has not got it from this service.
extension SecretBox {
    func resumeData(_ point: ResumePoint) -> String { Base64.encode(seal(point.encode())) }

    /// Nil for anything that `resumeData` has not made.
    func resumePoint(_ text: String) -> ResumePoint? {
        guard let sealed = Base64.decode(text), let plain = try? open(sealed) else { return nil }
        return ResumePoint(json: plain)
    }
}

import FerryCore
import OpenSSL

/// Resume data for clients: sealed, so that only this service can create it.
extension SecretBox {
    func resumeData(_ point: ResumePoint) -> String { Base64.encode(seal(point.encode())) }

    /// Returns the resume point, or `nil` for text that `resumeData` has not created.
    func resumePoint(_ text: String) -> ResumePoint? {
        // The only error of `open`: another service has sealed it.
        guard let sealed = Base64.decode(text), let plain = try? open(sealed) else { return nil }
        return ResumePoint(json: plain)
    }
}

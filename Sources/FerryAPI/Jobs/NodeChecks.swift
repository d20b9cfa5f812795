package import FerryCore
internal import OpenSSL

extension NodeAbilities {
    /// Returns the abilities of this node. OpenSSL checks certificates and keys, and tells which digests it
    /// can compute.
    package static func reading(hasHTTP3: Bool, hasNTLM: Bool) -> NodeAbilities {
        var abilities = NodeAbilities(
            hasHTTP3: hasHTTP3, certificateError: error(inCertificates:), keyError: error(inKey:of:))
        abilities.hasNTLM = hasNTLM
        abilities.missingDigests = Set(
            Digest.Algorithm.ofContents.filter { !$0.isAvailable }.map(\.rawValue))
        return abilities
    }

    private static func error(inCertificates pem: String) -> String? {
        do throws(PEM.Failure) {
            try PEM.checkCertificates(pem)
            return nil
        } catch {
            return "The text is not PEM with readable certificates."
        }
    }

    private static func error(inKey pem: String, of certificate: String?) -> String? {
        do throws(PEM.Failure) {
            try PEM.checkKey(pem, of: certificate)
            return nil
        } catch {
            return switch error {
            case .unreadable: "The text is not PEM with a readable private key."
            case .encrypted: "The key is encrypted; send it without a password. Ferry stores it encrypted."
            case .tooLarge: "A key may have at most \(PEM.keyBitCountMax) bits."
            case .mismatch: "The key does not belong to the client certificate."
            }
        }
    }
}

package import FerryCore
internal import OpenSSL

extension NodeAbilities {
    /// Returns the abilities of this node. OpenSSL checks certificates and keys, and tells which digests it can
    /// compute.
    package static func reading(hasHTTP3: Bool, hasNTLM: Bool) -> NodeAbilities {
        var abilities = NodeAbilities(
            hasHTTP3: hasHTTP3, complaintAboutCertificates: complaint(aboutCertificates:),
            complaintAboutKey: complaint(aboutKey:of:))
        abilities.hasNTLM = hasNTLM
        abilities.missingDigests = Set(
            Digest.Algorithm.allCases.filter { !$0.isAvailable }.map(\.rawValue))
        return abilities
    }

    private static func complaint(aboutCertificates pem: String) -> String? {
        do throws(PEM.Failure) {
            try PEM.checkCertificates(pem)
            return nil
        } catch {
            return "This is not a PEM text of certificates that can be read."
        }
    }

    private static func complaint(aboutKey pem: String, of certificate: String?) -> String? {
        do throws(PEM.Failure) {
            try PEM.checkKey(pem, of: certificate)
            return nil
        } catch {
            return switch error {
            case .unreadable: "This is not a PEM text of a private key that can be read."
            case .encrypted: "The key is encrypted; give it without a password, it is kept sealed."
            case .tooLarge: "A key may have at most \(PEM.keyBitCountMax) bits."
            case .mismatch: "The key does not belong to the client certificate."
            }
        }
    }
}

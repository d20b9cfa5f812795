import FerryCore
import Synchronization

/// The protection spaces that servers have shown to this node. Later requests of the same session send their
/// credential without a challenge. Any thread.
final class KnownSpaces: Sendable {
    fileprivate struct Place: Hashable {
        let session: SessionKey
        let origin: String
        var isProxy = false
    }

    private struct Space {
        let chosen: ChosenCredential
        /// `nil` for all paths of the origin.
        var paths: ProtectedPaths?
        let digest: DigestSession?
    }

    /// Places that are remembered before all are forgotten.
    private static let placeCountMax = 10_000

    private let places = Mutex<[Place: [Space]]>([:])

    /// Notes that a server has accepted a credential after a challenge. Basic and Bearer are sent to paths at
    /// the same depth and below (RFC 7617 §2.2), Digest and NTLM to the whole origin (RFC 7616 §3.3),
    /// and each to the whole proxy. `path`: of the request.
    func learn(_ sent: SentCredential, _ path: String, of session: SessionKey) {
        let isAboutPaths =
            !sent.isProxy && (sent.chosen.scheme == .basic || sent.chosen.scheme == .bearer)
        places.withLock { places in
            let place = Place(sent, session)
            if places[place] == nil, places.count >= Self.placeCountMax { places = [:] }
            var spaces = places[place] ?? []
            var paths = isAboutPaths ? ProtectedPaths() : nil
            if let known = spaces.first(where: { $0.chosen == sent.chosen })?.paths, isAboutPaths {
                paths = known
            }
            paths?.add(path)
            spaces.removeAll { $0.chosen.name == sent.chosen.name }
            spaces.append(Space(chosen: sent.chosen, paths: paths, digest: sent.digest))
            places[place] = spaces
        }
    }

    /// Forgets a credential that a server has refused.
    func forget(_ sent: SentCredential, of session: SessionKey) {
        places.withLock { places in
            places[Place(sent, session)]?.removeAll { $0.chosen == sent.chosen }
        }
    }

    /// Returns the credential that a request sends to a proxy without a challenge; `nil` if it sends none.
    func credential(
        for proxy: ProxyURL, of session: SessionKey, among credentials: [CredentialRecord]
    ) -> SentCredential? {
        places.withLock { places in
            let place = Place(session: session, origin: proxy.string, isProxy: true)
            return places[place]?.first { credentials.has($0.chosen) }.map {
                SentCredential(
                    chosen: $0.chosen, origin: proxy.string, isProxy: true, digest: nil,
                    answersChallenge: false)
            }
        }
    }

    /// Returns the credential that a request sends without a challenge; `nil` if it sends none.
    /// `credentials`: those of the session now.
    func credential(
        for hop: Hop, of session: SessionKey, among credentials: [CredentialRecord]
    ) -> SentCredential? {
        let origin = hop.url.origin
        return places.withLock { places in
            let place = Place(session: session, origin: origin)
            guard let spaces = places[place] else { return nil }
            let current = spaces.filter { credentials.has($0.chosen) }
            if current.count < spaces.count { places[place] = current.isEmpty ? nil : current }
            var best: (depth: Int, space: Space)?
            for space in current {
                // 0: the space is the whole origin.
                guard let depth = space.paths.map({ $0.depth(of: hop.url.path) }) ?? 0,
                    depth >= best?.depth ?? 0, !(hop.sendsBody && space.digest?.isWithoutBody == true)
                else { continue }
                best = (depth, space)
            }
            return best.map {
                SentCredential(
                    chosen: $0.space.chosen, origin: origin, digest: $0.space.digest,
                    answersChallenge: false)
            }
        }
    }
}

extension KnownSpaces.Place {
    fileprivate init(_ sent: SentCredential, _ session: SessionKey) {
        self.init(session: session, origin: sent.origin, isProxy: sent.isProxy)
    }
}

package import FerryCore
internal import HTTPServer

/// Shows the content store in a bucket, and lets operators accept a restored database.
package protocol ContentStoreControl: Sendable {
    /// Replies with the state that this node sees.
    func status(reply: @escaping Reply<ContentStoreStatus>)
    /// Makes the database take over the generation of the store, so that sweeps begin again. Replies with
    /// `nil` if the database has it already, and with `unavailable` if the store does not answer.
    func accept(reply: @escaping Reply<ContentStoreStatus?>)
}

/// Shows the content store, and accepts a restored database.
final class ContentStoreHandlers: Sendable {
    private let control: (any ContentStoreControl)?

    init(_ ports: APIPorts) { control = ports.contentStore }

    /// `GET /v1/admin/content-store`
    func read(_ request: RequestContext) {
        guard let control else { return send(ShownContentStore(status: nil), request) }
        control.status(reply: request.onSuccess { send(ShownContentStore(status: $0), request) })
    }

    /// `POST /v1/admin/content-store/accept`
    func accept(_ request: RequestContext) throws(Problem) {
        try request.needEmptyObject()
        guard let control else {
            throw Problem(.invalidState, "The content store is not a bucket.")
        }
        control.accept(
            reply: request.onSuccess { status throws(Problem) in
                guard let status else {
                    throw Problem(
                        .invalidState,
                        "There is nothing to accept: the database has the generation of the content store.")
                }
                send(ShownContentStore(status: status), request)
            })
    }
}

private func send(_ store: ShownContentStore, _ request: RequestContext) {
    request.send(200, json: store.shown())
}

/// The content store.
struct ShownContentStore: ShownObject {
    static let summary = "Where results without a destination and kept bodies are."
    static let schemaName = "ContentStore"

    /// Form of the contents.
    enum Kind: String, ShownChoice {
        case files, bucket
    }

    /// `nil` if contents are files of the nodes.
    fileprivate let status: ContentStoreStatus?

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "kind", { $0.status == nil ? Kind.files : .bucket },
            "bucket if contents are objects of the bucket of FERRY_CONTENT_STORE, files if each node keeps "
                + "its own.")
        list.member(
            "available", { $0.status?.isAvailable },
            "true if the bucket has answered the last request of this node. Null if there is no bucket, as "
                + "the following members.")
        list.member(
            "generation", { $0.status?.generation },
            "Number in the database that each sweep raises, there and in the bucket.")
        list.member("swept_at", { $0.status?.sweptAt }, "Begin of the last sweep of a node, or null.")
        list.member(
            "restored", { $0.status?.isRestored },
            "true if the bucket has a higher number: the database was restored, and no object is removed "
                + "until POST /v1/admin/content-store/accept.")
        list.member(
            "removed", { $0.status?.removedCount },
            "Number of unused objects that this node has removed since its start.")
        list.member(
            "missing", { $0.status?.missingCount },
            "Number of reads of contents on this node since its start whose object was missing.")
    }
}

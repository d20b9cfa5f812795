package import FerryCore
internal import HTTPServer

/// What is known of hosts, and what operators say about them.
package protocol HostStore: Sendable {
    /// In order of their names, those after `origin`.
    func hosts(after origin: String, limit: Int, reply: @escaping Reply<[HostRecord]>)
    /// One that nobody knows is as it is by itself.
    func host(_ origin: String, reply: @escaping Reply<HostRecord>)
    /// For every node. `isAllowed` as in `LimitStore`; `overloaded` when there are too many hosts already.
    func changeHost(
        _ origin: String, _ patch: HostPatch, if isAllowed: @escaping @Sendable (HostRecord) -> Bool,
        reply: @escaping Reply<Result<HostRecord, InvalidFields>>)
}

extension API {
    /// `GET /v1/admin/hosts`
    func listHosts(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, after) = try call.page(hostPosition)
            ports.hosts.hosts(after: after ?? "", limit: limit + 1) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let hosts):
                    let next = hosts.count > limit ? hosts[limit - 1].origin : nil
                    Page(hosts.prefix(limit), nextCursor: next).send(call, reservingCapacity: 8_192) {
                        $0.write(into: &$1)
                    }
                }
            }
        }
    }

    /// `GET /v1/admin/hosts/{host}`
    func readHost(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            ports.hosts.host(try origin(call)) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let host): sendHost(host, call)
                }
            }
        }
    }

    /// `PATCH /v1/admin/hosts/{host}`: a merge patch.
    func changeHost(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let origin = try origin(call)
            let json = try call.mergePatch()
            let patch: HostPatch
            do throws(InvalidFields) {
                patch = try HostPatch(json)
            } catch {
                throw Problem(error)
            }
            let isAllowed = call.changeCondition
            ports.hosts.changeHost(origin, patch, if: { isAllowed($0.changeable) }) { result in
                switch result {
                case .failure(.overloaded):
                    call.fail(
                        Problem(
                            .limitReached,
                            "As many hosts as may be are configured or in trouble; clear others' settings."))
                case .failure(let error): call.fail(error)
                case .success(.failure(let invalid)): call.fail(Problem(invalid))
                case .success(.success(let host)): sendHost(host, call)
                }
            }
        }
    }
}

private func origin(_ call: RequestContext) throws(Problem) -> String {
    guard let reference = call.parameters.first.flatMap(HostReference.init) else {
        throw Problem(
            .invalidParameter,
            "A host is named as https://host:port, percent-encoded, or as host or host:port.")
    }
    return reference.origin
}

/// Cursors of this list are origins.
private func hostPosition(_ cursor: String) throws(Problem) -> String {
    guard HostReference(cursor)?.origin == cursor else { throw Problem.unknownCursor }
    return cursor
}

private func sendHost(_ host: HostRecord, _ call: RequestContext) {
    var writer = JSONWriter(reservingCapacity: 4_096)
    host.write(into: &writer)
    let json = writer.bytes
    call.send(200, tag: entityTag(changeable: host.changeable, shown: json)) { json }
}

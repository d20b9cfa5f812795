internal import FerryCore
internal import HTTPServer

/// Shows and changes the cookies of sessions, resets and flushes sessions.
final class CookieHandlers: Sendable {
    private let store: any CookieStore
    private let clock: any WallClock

    init(_ ports: APIPorts) {
        store = ports.store.cookies
        clock = ports.clock
    }

    /// `GET /v1/sessions/{id}/cookies`
    func list(_ request: RequestContext) throws(Problem) {
        let key = try request.sessionKey()
        let asText = request.prefers("text/plain")
        if asText, request.disclosure.isRedacted {
            throw Problem(.forbidden, "The text format has the values of cookies, which viewers do not see.")
        }
        var (filter, after, limit) = (CookieFilter(), Cookie.Key?.none, Limits.listLimitDefault)
        for (name, value) in request.query {
            switch name {
            case "limit": limit = try pageLimit(value)
            case "cursor": after = try position(value)
            default: try filter.narrow(name, value)
            }
        }
        store.cookies(
            of: key,
            reply: request.onSuccess { [filter, after, limit, clock] storage in
                let now = clock.now()
                if asText {
                    let all = storage.change { $0.cookies(where: filter, now: now) }
                    return request.send(netscape: all)
                }
                let found = storage.change {
                    $0.cookies(where: filter, after: after, limit: limit + 1, now: now)
                }
                page(found, limit).send(
                    request, reservingCapacity: min(found.count, limit) * 384)
            })
    }

    /// `PUT /v1/sessions/{id}/cookies`
    func replace(_ request: RequestContext) throws(Problem) { try put(request, replaces: true) }

    /// `POST /v1/sessions/{id}/cookies`
    func add(_ request: RequestContext) throws(Problem) { try put(request, replaces: false) }

    private func put(_ request: RequestContext, replaces: Bool) throws(Problem) {
        let key = try request.sessionKey()
        let now = clock.now()
        let given = try request.cookies(at: now)
        store.changeCookies(
            of: key,
            { jar in
                if replaces { _ = jar.remove(where: .all, now: now) }
                // Each was checked as it was read.
                for cookie in given { try? jar.set(cookie, now: now) }
                return jar.cookies(limit: Limits.listLimitDefault + 1, now: now)
            },
            reply: request.onSuccess { found in
                page(found, Limits.listLimitDefault).send(
                    request, reservingCapacity: found.count * 384)
            })
    }

    /// `DELETE /v1/sessions/{id}/cookies`
    func delete(_ request: RequestContext) throws(Problem) {
        let key = try request.sessionKey()
        var filter = CookieFilter()
        for (name, value) in request.query { try filter.narrow(name, value) }
        let now = clock.now()
        store.changeCookies(
            of: key, { [filter] jar in jar.remove(where: filter, now: now) },
            reply: request.onSuccess { _ in request.send(Response(status: 204)) })
    }

    /// `POST /v1/sessions/{id}/reset`
    func reset(_ request: RequestContext) throws(Problem) {
        let key = try request.sessionKey()
        try request.needEmptyObject()
        store.resetSession(key, reply: request.onSuccess { send($0, 200, request) })
    }

    /// `POST /v1/sessions/{id}/flush`
    func flush(_ request: RequestContext) throws(Problem) {
        let key = try request.sessionKey()
        try request.needEmptyObject()
        store.flushSession(key, reply: request.onSuccess { send($0, 200, request) })
    }
}

extension RequestContext {
    /// The cookies of the body, in JSON or in Netscape's format.
    fileprivate func cookies(at now: Timestamp) throws(Problem) -> [Cookie] {
        try needMediaType(["application/json", "text/plain"])
        guard try isMediaType(fields, ["text/plain"]) else {
            let json = try parse(body)
            return try valid(try CookieList(body: json)).cookies.map { $0.cookie(now: now) }
        }
        do throws(CookieFile.Failure) {
            return try CookieFile.cookies(in: body, now: now)
        } catch {
            throw Problem(InvalidFields(error))
        }
    }
}

extension RequestContext {
    /// Sends cookies in Netscape's format.
    fileprivate func send(netscape cookies: [Cookie]) {
        let fields = HTTPFields([
            ("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"),
        ])
        send(Response(status: 200, fields: fields, body: .bytes(CookieFile.text(of: cookies))))
    }
}

extension InvalidFields {
    /// The errors of a text: one for each line.
    fileprivate init(_ failure: CookieFile.Failure) {
        let errors = ValidationErrors()
        for line in failure.lines {
            errors.add("#", "invalid_value", "Line \(line.number): \(line.message)")
        }
        self.init(errors.all)
    }
}

extension CookieFilter {
    /// Reads a query parameter.
    fileprivate mutating func narrow(_ name: String, _ value: String) throws(Problem) {
        switch name {
        case "name": self.name = Array(value.utf8)
        case "domain": self.host = CookieFilter(domain: value).host
        case "path": path = value
        default: since = try time(name, value)
        }
    }
}

/// Returns a page of the cookies of a session. `found`: one more than `limit` if there is a next page.
private func page(_ found: [Cookie], _ limit: Int) -> Page<ShownFields<CookieFields>> {
    Page(found.map { ShownFields(CookieFields($0)) }, limit: limit) { _ in
        found.prefix(limit).last.map(cursor(after:)) ?? ""
    }
}

/// Begins the cursors of lists of cookies.
private let cursorPrefix = "cookie."

/// Returns the cursor of the page after a cookie.
private func cursor(after cookie: Cookie) -> String { cursorPrefix + hexEncoded(cookie.key.octets) }

/// Returns the cookie of a cursor.
private func position(_ cursor: String) throws(Problem) -> Cookie.Key {
    // Not even a part of a key of this service: `nil` stands for all that is wrong.
    guard cursor.hasPrefix(cursorPrefix),
        let octets = hexDecoded(String(cursor.dropFirst(cursorPrefix.count))),
        let key = try? Cookie.Key(octets: octets)
    else { throw Problem.unknownCursor }
    return key
}

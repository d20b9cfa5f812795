extension Operation {
    /// Descriptions of the operations on cookies.
    var cookieDescription: OperationDescription {
        switch self {
        case .listCookies:
            OperationDescription(
                "List the cookies of a session by domain, path and name",
                ["CookieName", "CookieDomain", "Limit", "CookieCursor"], nil,
                .init(
                    200, "A page of cookies; with Accept: text/plain all of them in Netscape's format.",
                    Self.cookieContent("CookieList"), ["Link"]), problems: [409])
        case .deleteCookies:
            OperationDescription(
                "Delete the cookies of a session that match; all without a query",
                ["CookieName", "CookieDomain", "CookiePath", "CookieSince"], nil,
                .init(204, "The cookies are deleted."), problems: [409])
        case .replaceCookies: writing("Replace the cookies of a session")
        default: writing("Add cookies to a session, in place of those with the same name, domain and path")
        }
    }

    private func writing(_ summary: String) -> OperationDescription {
        OperationDescription(
            summary, [], .init(content: Self.cookieContent("CookieListRequest")),
            .init(200, "The first page of the session's cookies.", json("CookieList"), ["Link"]),
            problems: [409])
    }

    /// A list in JSON or in Netscape's format.
    private static func cookieContent(_ schema: String) -> String {
        ##"""
        {"application/json": {"schema": {"$ref": "#/components/schemas/\##(schema)"}},
         "text/plain": {"schema": {"type": "string"}}}
        """##
    }
}

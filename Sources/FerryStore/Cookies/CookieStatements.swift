package import Postgres

extension Statements {
    package static let changedCookies = make(
        "changed_cookies", PackageResources.changed_cookies_sql, parameters: 3)
    package static let storeCookies = make(
        "store_cookies", PackageResources.store_cookies_sql, parameters: 7)
}

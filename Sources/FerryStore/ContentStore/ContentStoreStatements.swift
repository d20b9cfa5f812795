package import Postgres

extension Statements {
    package static let acceptContentStore = make(
        "accept_content_store", PackageResources.accept_content_store_sql, parameters: 1)
    package static let claimContentSweep = make(
        "claim_content_sweep", PackageResources.claim_content_sweep_sql, parameters: 2)
    package static let readContentStore = make(
        "read_content_store", PackageResources.read_content_store_sql)
    package static let unusedContents = make(
        "unused_contents", PackageResources.unused_contents_sql, parameters: 3)
}

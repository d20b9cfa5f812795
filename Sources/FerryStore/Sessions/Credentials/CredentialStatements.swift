package import Postgres

extension Statements {
    package static let changedCredentials = make(
        "changed_credentials", PackageResources.changed_credentials_sql, parameters: 1)
    package static let countCredentials = make(
        "count_credentials", PackageResources.count_credentials_sql, parameters: 2)
    package static let deleteCredential = make(
        "delete_credential", PackageResources.delete_credential_sql, parameters: 4)
    package static let listCredentials = make(
        "list_credentials", PackageResources.list_credentials_sql, parameters: 4)
    package static let putCredential = make(
        "put_credential", PackageResources.put_credential_sql, parameters: 8)
    package static let readCredential = make(
        "read_credential", PackageResources.read_credential_sql, parameters: 3)
    package static let removeCredentials = make(
        "remove_credentials", PackageResources.remove_credentials_sql, parameters: 2)
}

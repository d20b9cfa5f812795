package import Postgres

extension Statements {
    package static let changeSetting = make(
        "change_setting", PackageResources.change_setting_sql, parameters: 3)
    package static let putSetting = make("put_setting", PackageResources.put_setting_sql, parameters: 2)
    package static let readSetting = make("read_setting", PackageResources.read_setting_sql, parameters: 1)
    package static let setSetting = make("set_setting", PackageResources.set_setting_sql, parameters: 2)
}

package import Postgres

extension Statements {
    package static let sessionRoom = make("session_room", PackageResources.session_room_sql)
}

package import Postgres

// Statements about webhook endpoints and their deliveries.
extension Statements {
    static let createWebhook = make("create_webhook", PackageResources.create_webhook_sql, parameters: 21)
    static let deleteWebhook = make("delete_webhook", PackageResources.delete_webhook_sql, parameters: 2)
    static let editWebhook = make("edit_webhook", PackageResources.edit_webhook_sql, parameters: 15)
    static let listWebhooks = make("list_webhooks", PackageResources.list_webhooks_sql, parameters: 3)
    package static let lookAtLanes = make("look_at_lanes", PackageResources.look_at_lanes_sql, parameters: 2)
    static let pingWebhook = make("ping_webhook", PackageResources.ping_webhook_sql, parameters: 6)
    static let readFirstWebhook = make(
        "read_first_webhook", PackageResources.read_first_webhook_sql, parameters: 2)
    static let readInterests = make("read_interests", PackageResources.read_interests_sql, parameters: 1)
    static let readLanes = make("read_lanes", PackageResources.read_lanes_sql, parameters: 2)
    static let readWebhook = make("read_webhook", PackageResources.read_webhook_sql, parameters: 2)
    package static let removeOldDeliveries = make(
        "remove_old_deliveries", PackageResources.remove_old_deliveries_sql, parameters: 2)
    static let replayDeliveries = make(
        "replay_deliveries", PackageResources.replay_deliveries_sql, parameters: 6)
    package static let takeBackDeliveries = make(
        "take_back_deliveries", PackageResources.take_back_deliveries_sql, parameters: 2)

    static let webhooks = [
        createWebhook, deleteWebhook, editWebhook, listWebhooks, lookAtLanes, pingWebhook,
        readFirstWebhook,
        readInterests, readLanes, readWebhook, removeOldDeliveries, replayDeliveries,
        takeBackDeliveries,
    ]
}

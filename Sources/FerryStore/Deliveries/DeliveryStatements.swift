package import Postgres

extension Statements {
    package static let addDeliveries = make(
        "add_deliveries", PackageResources.add_deliveries_sql, parameters: 17)
    package static let addSessionReceivers = make(
        "add_session_receivers", PackageResources.add_session_receivers_sql, parameters: 7)
    package static let claimDeliveries = make(
        "claim_deliveries", PackageResources.claim_deliveries_sql, parameters: 7)
    package static let createWebhook = make(
        "create_webhook", PackageResources.create_webhook_sql, parameters: 25)
    package static let deleteWebhook = make(
        "delete_webhook", PackageResources.delete_webhook_sql, parameters: 2)
    package static let editWebhook = make("edit_webhook", PackageResources.edit_webhook_sql, parameters: 18)
    package static let expireDeliveries = make(
        "expire_deliveries", PackageResources.expire_deliveries_sql, parameters: 3)
    package static let listDeliveries = make(
        "list_deliveries", PackageResources.list_deliveries_sql, parameters: 8)
    package static let listWebhooks = make("list_webhooks", PackageResources.list_webhooks_sql, parameters: 3)
    package static let readReceiverQueues = make(
        "read_receiver_queues", PackageResources.read_receiver_queues_sql, parameters: 2)
    package static let pingWebhook = make("ping_webhook", PackageResources.ping_webhook_sql, parameters: 6)
    package static let readDelivery = make("read_delivery", PackageResources.read_delivery_sql, parameters: 2)
    package static let readFirstWebhook = make(
        "read_first_webhook", PackageResources.read_first_webhook_sql, parameters: 2)
    package static let readInterests = make(
        "read_interests", PackageResources.read_interests_sql, parameters: 1)
    package static let hashReceiverQueues = make(
        "hash_receiver_queues", PackageResources.hash_receiver_queues_sql, parameters: 2)
    package static let readWebhook = make("read_webhook", PackageResources.read_webhook_sql, parameters: 2)
    package static let recordTries = make("record_tries", PackageResources.record_tries_sql, parameters: 9)
    package static let redeliver = make("redeliver", PackageResources.redeliver_sql, parameters: 2)
    package static let removeOldDeliveries = make(
        "remove_old_deliveries", PackageResources.remove_old_deliveries_sql, parameters: 2)
    package static let replayDeliveries = make(
        "replay_deliveries", PackageResources.replay_deliveries_sql, parameters: 6)
    package static let takeBackDeliveries = make(
        "take_back_deliveries", PackageResources.take_back_deliveries_sql, parameters: 2)
    package static let takeSessionReceivers = make(
        "take_session_receivers", PackageResources.take_session_receivers_sql, parameters: 6)
}

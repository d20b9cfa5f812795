extension Operation {
    /// Descriptions of the operations on webhook endpoints.
    var webhookDescription: OperationDescription {
        switch self {
        case .createWebhook:
            OperationDescription(
                tag: "webhooks", summary: "Create an endpoint; only this response shows its secret",
                parameters: ["IdempotencyKey"], body: json("WebhookEndpointRequest"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 201, text: "The endpoint with its secret.",
                        content: json("WebhookWithSecret"),
                        headers: ["Location", "ETag", "Idempotency-Replayed"])
                ], problems: [409, 413, 415, 422])
        case .listWebhooks:
            OperationDescription(
                tag: "webhooks", summary: "List endpoints, newest first", parameters: ["Limit", "Cursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of endpoints.", content: json("WebhookList"),
                        headers: ["Link"])
                ])
        case .readWebhook:
            OperationDescription(
                tag: "webhooks", summary: "Read an endpoint", parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The endpoint.", content: json("Webhook"), headers: ["ETag"]),
                    .unchanged,
                ], problems: [404])
        case .editWebhook:
            OperationDescription(
                tag: "webhooks", summary: "Change an endpoint; enabling it sends its pending deliveries",
                parameters: ["IfMatch"], body: mergePatch("WebhookPatch"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 200, text: "The changed endpoint.", content: json("Webhook"),
                        headers: ["ETag"])
                ],
                problems: [404, 412, 413, 415, 422])
        case .deleteWebhook:
            OperationDescription(
                tag: "webhooks", summary: "Delete an endpoint and its deliveries",
                parameters: ["IfMatch"],
                answers: [.init(status: 204, text: "The endpoint is deleted.")], problems: [404, 412])
        default: webhookCommandDescription
        }
    }

    private var webhookCommandDescription: OperationDescription {
        switch self {
        case .rotateSecret:
            OperationDescription(
                tag: "webhooks", summary: "Rotate the secret of an endpoint; only this response shows it",
                parameters: ["IfMatch"], body: json("RotateSecretRequest"),
                answers: [
                    .init(
                        status: 200, text: "The endpoint with its new secret.",
                        content: json("WebhookWithSecret"), headers: ["ETag"])
                ], problems: [404, 412, 413, 415, 422])
        case .testWebhook:
            OperationDescription(
                tag: "webhooks", summary: "Send a signed webhook.ping once and show the response",
                parameters: ["Traceparent"], body: json("EmptyRequest"),
                answers: [
                    .init(
                        status: 200, text: "The delivery, without a try if none ended within 20 seconds.",
                        content: json("Delivery"), headers: ["ETag"])
                ], problems: [404, 413, 415, 422])
        case .replayDeliveries:
            OperationDescription(
                tag: "webhooks", summary: "Send the deliveries of a period again, with the same identifiers",
                body: json("ReplayRequest"), isBodyRequired: true,
                answers: [
                    .init(status: 200, text: "The deliveries are due now.", content: json("ReplayAnswer"))
                ], problems: [404, 413, 415, 422])
        default:
            OperationDescription(
                tag: "webhooks", summary: "List an endpoint's deliveries with every try, newest first",
                parameters: ["DeliveryState", "DeliveryType", "Limit", "Cursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of deliveries.", content: json("DeliveryList"),
                        headers: ["Link"])
                ], problems: [404])
        }
    }
}

internal import FerryCore

/// Schemas of bodies by name. They are made from the declarations of `FieldObject.fields` and
/// `ShownObject.members`, besides a few that are given as JSON.
let componentSchemas: [JSON.Member] = {
    let schemas = FieldSchemas()
    schemas.addRequests()
    schemas.addAnswers()
    schemas.add(
        ShownJob.self, SessionOverview.self, CredentialRecord.self, ShownSchedule.self, WebhookRecord.self,
        ShownNewWebhook.self,
        ShownAttempts.self, BatchAnswer.self, ShownProblem.self, DeliveredEvent.self, ReplayAnswer.self,
        BulkOperation.self, BulkDryRun.self, JobSummary.self, JobGroup.self, StagedUpload.self,
        ShownNewKey.self, Pause.self, ShownContentStore.self, Status.self, ShownWindows.self)
    schemas.add(TransferLimits.self, .response)
    schemas.add(TenantLimits.self, .response)
    schemas.addPage(of: ShownJob.self, "JobList", "jobs", "newest first")
    schemas.addPage(of: SessionOverview.self, "SessionList", "sessions", "ordered by name")
    schemas.addPage(
        of: ShownFields<CookieFields>.self, "CookieList", "cookies", "ordered by domain, path and name")
    schemas.addPage(of: CredentialRecord.self, "CredentialList", "credentials", "ordered by name")
    schemas.addPage(of: ShownSchedule.self, "ScheduleList", "schedules", "newest first")
    schemas.addPage(of: BulkOperation.self, "BulkOperationList", "operations", "newest first")
    schemas.addPage(of: LoggedEvent.self, "EventList", "events", "newest first")
    schemas.addPage(of: JobGroup.self, "JobGroupList", "groups", "newest first")
    schemas.addPage(of: StagedUpload.self, "UploadList", "uploads", "newest first")
    schemas.addPage(of: WebhookRecord.self, "WebhookList", "endpoints", "newest first")
    schemas.addPage(of: DeliveryRecord.self, "DeliveryList", "deliveries", "newest first")
    schemas.addPage(of: HostRecord.self, "HostList", "hosts", "ordered by name")
    schemas.addPage(of: APIKey.self, "KeyList", "keys", "newest first")
    schemas.addPage(of: NodeStatus.self, "NodeList", "nodes", "newest first")
    schemas.addPage(of: TenantStatus.self, "TenantList", "tenants", "ordered by name")
    schemas.addPage(of: AuditEntry.self, "Audit", "entries", "newest first")
    for member in JSON.rules("{\(answerSchemas)}") {
        schemas.reference(member.name) { member.value }
    }
    return schemas.components
}()

extension FieldSchemas {
    fileprivate func addRequests() {
        reference("JobRequest") {
            let kinds = [
                ("download", "DownloadRequest"), ("upload", "UploadRequest"), ("data", "DataRequest"),
            ]
            return [
                "description":
                    "A job to be done. Only kind and request.url are required, and source for uploads.",
                "oneOf": .array(kinds.map { .schema($1) }),
                "discriminator": [
                    "propertyName": "kind",
                    "mapping": .object(
                        kinds.map { .init($0, .string("#/components/schemas/\($1)")) }),
                ],
                "examples": [
                    [
                        "kind": "download", "request": ["url": "https://example.org/a.csv"],
                        "destination": ["path": "reports/a.csv"],
                    ]
                ],
            ]
        }
        add(
            JobSpec.self, .request(.download), named: "DownloadRequest",
            "Fetches a file. Succeeds on a 2xx response unless accept.status determines otherwise.")
        add(
            JobSpec.self, .request(.upload), named: "UploadRequest",
            "Sends a file, the file of another job, or inline bytes, as they are or in a form. Succeeds on a "
                + "2xx response unless accept.status determines otherwise.")
        add(
            JobSpec.self, .request(.data), named: "DataRequest",
            "Makes a request and stores the body of the response. Succeeds on any response unless "
                + "accept.status determines otherwise.")
        add(
            JobSpec.self, .patch, named: "JobPatch",
            "A merge patch (RFC 7396) of the job as it is shown; null sets the default. description, "
                + "metadata, schedule.priority, network.max_bytes_per_second, and of request url, headers, "
                + "auth, tls and proxy can be changed until the job is terminal, the other fields while it "
                + "does not run; earliest_begin_at and confirm_before_begin until it has begun. The next "
                + "request of the job uses them. A download resumes from its bytes with another URL if the "
                + "validator shows that it is the same file. The result is validated like a submission.")
        add(JobSpec.RequestSpec.self, .answer)
        add(HeaderLine.self, .request(nil), named: HeaderLine.schemaName)
        add(JobSpec.Part.self, .request(nil))
        add(JobSpec.Part.self, .response)
        add(JobSpec.ObjectSource.self, .request(nil))
        add(JobSpec.ObjectDestination.self, .request(nil))
        add(JobSpec.StoreCredential.self, .request(nil))
        add(JobSpec.ObjectSource.self, .response)
        add(JobSpec.ObjectDestination.self, .response)
        add(JobSpec.StoreCredential.self, .response)
        add(TransferResult.Content.self, .response)
        add(TransferResult.Parts.self, .response)
        add(AcknowledgementRules.self, .request(nil))
        add(AcknowledgementRules.self, .response)
        add(SessionConfiguration.self, .request(nil), named: "SessionRequest")
        add(SessionCredential.self, .request(nil), named: "CredentialRequest")
        add(InvalidateRequest.self, .request(nil), named: "InvalidationRequest")
        add(CookieList.self, .request(nil), named: CookieList.schemaName)
        add(CookieFields.self, .request(nil))
        add(ScheduleBody.self, .request(nil), named: "ScheduleRequest")
        add(WebhookEndpoint.self, .request(nil), named: "WebhookEndpointRequest")
        add(
            WebhookEndpoint.self, .patch, named: "WebhookPatch",
            "A merge patch (RFC 7396): fields that are named change, null sets the default.")
        add(RotateRequest.self, .request(nil), named: "RotateSecretRequest")
        add(ReplayRequest.self, .request(nil), named: "ReplayRequest")
        add(BatchRequest.self, .request(nil), named: "BatchRequest")
        add(CancelRequest.self, .request(nil), named: "CancelRequest")
        add(JobFilter.self, .request(nil), named: JobFilter.schemaName)
        add(BulkRequest.self, .request(nil), named: "BulkRequest")
        add(BulkCancelRequest.self, .request(nil), named: "BulkCancelRequest")
        add(GroupCommand.self, .request(nil), named: "GroupCommand")
        add(GroupCancellation.self, .request(nil), named: "GroupCancellation")
        add(GroupDraft.self, .request(nil), named: GroupDraft.schemaName)
        add(KeyRequest.self, .request(nil), named: "KeyRequest")
        add(TransferLimits.self, .patch, named: "LimitsPatch")
        add(TenantLimits.self, .request(nil), named: "TenantLimitsRequest")
        add(HostPatch.self, .patch, named: "HostPatch")
        add(OffPeakWindow.self, .request(nil), named: "WindowInput")
        add(OffPeakWindows.self, .patch, named: "WindowsPatch")
    }

    /// Adds a page of a list.
    fileprivate func addPage(
        of type: any ShownObject.Type, _ name: String, _ plural: String, _ order: String
    ) {
        let items = JSON.object(type.shownSchema(in: self))
        reference(name) {
            .schema(
                "A page of \(plural).", required: ["data", "next_cursor"],
                [
                    .property(
                        "data", ["type": "array", "items": items], "The \(plural) of the page, \(order)."),
                    .property(
                        "next_cursor", ["type": ["string", "null"]],
                        "Cursor of the next page, or null on the last page."),
                ])
        }
    }
}

/// Returns the schema of an object without other members.
func closed(
    _ text: String, _ required: [JSON.Member], optional: [JSON.Member] = [], _ rules: [JSON.Member] = []
) -> JSON {
    .schema(text, required: required.map { .string($0.name) }, required + optional, isClosed: true, rules)
}

/// Returns the schema of one of several values.
func oneOf(_ text: String, _ choices: JSON...) -> JSON {
    ["description": .string(text), "oneOf": .array(choices)]
}

extension JSON {
    /// Returns a reference to a schema.
    static func schema(_ name: String) -> JSON { .reference("schemas", name) }
}

extension JSON.Member {
    /// Describes a member of an object.
    static func property(_ name: String, _ schema: JSON, _ text: String) -> Self {
        Self(name, .object((schema.members ?? []) + [Self("description", .string(text))]))
    }
    /// Describes a member that is null or has the schema with this name.
    static func nullable(_ name: String, _ schema: String, _ text: String) -> Self {
        property(name, ["oneOf": [["type": "null"], .schema(schema)]], text)
    }
}

/// The body of a request that creates a group.
public struct GroupDraft: FieldObject {
    public static let summary = "A group of jobs."
    public static let schemaName = "JobGroupRequest"

    /// Name, unique for the tenant.
    public var name = ""
    /// Text of the client, or `nil`.
    public var description: String?
    /// Name-value pairs of the client, in its order; names are unique.
    public var metadata: [JobSpec.Pair] = []
    /// The group's own webhook, or `nil`.
    public var webhook: GroupWebhook?

    /// Creates a draft without a name.
    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "name", &name, .groupName, .of(required: true),
            "Name of the group, unique for the tenant: 1 to 128 letters, digits and ._:-.")
        visitor.field(
            "description", &description, .description, .plain,
            "Text of the client: at most 1,024 bytes of UTF-8 without U+0000.")
        metadataField(&visitor, &metadata, .plain)
        visitor.object(
            "webhook", &webhook, .plain, "A receiver of the group's event group.finished; null for none.")
    }

    /// Creates the draft of a group that its first job creates.
    public init(name: String) { self.name = name }

    /// Moves the texts of secrets out of the draft.
    public mutating func takeSecrets() -> JobSecrets { webhook?.takeSecrets() ?? JobSecrets() }

    /// Returns the stored form, which has no secrets.
    public func encodeStored() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writer.beginObject()
        storeFields(into: &writer, isRedacted: false)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encodeStored` returned. Throws if it is damaged.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: StoredObject(storedJSON))
    }
}

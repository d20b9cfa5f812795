extension EventRecord {
    /// The group of the event `group.finished` as it was shown then (`JobGroup`); `nil` for other events.
    public var finishedGroup: [UInt8]? { type == .groupFinished ? detail : nil }

    /// Name of that group; `nil` for other events.
    public var finishedGroupName: String? {
        // A damaged text is the event of no group.
        finishedGroup.flatMap { try? JSON.parse($0) }?["name"]?.string
    }
}

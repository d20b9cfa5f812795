extension EventRecord {
    /// The group of the event `group.finished` as it was shown then (`JobGroup`); `nil` for other events.
    public var finishedGroup: [UInt8]? { type == .groupFinished ? detail : nil }
}

import FerryCore

/// The order of the requests of a multipart upload. A pure value: takes what the store has answered, and
/// tells the next step.
struct MultipartConversation: Sendable {
    enum Step: Sendable, Equatable {
        /// Send this request, and no other one meanwhile.
        case request(MultipartRequest.Kind)
        /// Send the parts that the store does not have.
        case send
        /// Hash all parts: the object is there, and may be the one that this upload has made.
        case compare(StoreObjectFacts)
        /// The object is there.
        case done(StoreObjectFacts)
        /// The store loses every upload.
        case giveUp
    }

    private(set) var step: Step
    /// Identifier of the upload; `nil` if there is none.
    private(set) var upload: String?
    /// Whether the upload is another one than that with which the attempt was to go on.
    private(set) var hasBegunAnew = false
    /// Whether a request that completes the upload may have been carried out.
    private var mayBeComplete = false
    private var lossCount = 0
    /// Number of uploads that an attempt begins because the store has lost one.
    private static let lossCountMax = 2

    /// `earlier`: the upload of an earlier attempt, or `nil`. `isUsable`: whether it is of the same bytes.
    init(earlier: String?, isUsable: Bool) {
        upload = earlier
        guard earlier != nil else {
            step = .request(.create)
            return
        }
        mayBeComplete = isUsable
        hasBegunAnew = !isUsable
        step = .request(isUsable ? .list(after: 0) : .abort)
    }

    mutating func created(_ upload: String) {
        self.upload = upload
        step = .send
    }

    /// An upload of other bytes is gone, as far as the store has told.
    mutating func aborted() {
        upload = nil
        step = .request(.create)
    }

    /// `next`: the part after which the next page begins, or `nil`.
    mutating func listed(after part: Int, next: Int?) {
        // A page that does not lead on is the last one.
        step = if let next, next > part { .request(.list(after: next)) } else { .send }
    }

    /// The store has all parts.
    mutating func sentAll() { step = .request(.complete) }

    /// The response to a request that completes the upload is lost, or does not tell what has become of it.
    mutating func completionIsUnknown() { mayBeComplete = true }

    mutating func completed(_ object: StoreObjectFacts) {
        upload = nil
        step = .done(object)
    }

    /// The store does not have all parts of which the upload was to be completed.
    mutating func lacksParts() { step = .request(.list(after: 0)) }

    /// The store does not have the upload: it was completed, or it begins anew.
    mutating func lost() { if !looksForObject() { beginAnew() } }

    /// Asks for the object if the upload may have been completed. Returns `false` if it cannot have been.
    mutating func looksForObject() -> Bool {
        if mayBeComplete { step = .request(.look) }
        return mayBeComplete
    }

    /// `object`: the object that may be that of the upload; `nil` if there is none.
    mutating func looked(_ object: StoreObjectFacts?) {
        if let object { step = .compare(object) } else { beginAnew() }
    }

    /// The object is that of the upload, or not. `isEarlier`: it is that of an earlier upload of the same
    /// bytes, and this one is still there.
    mutating func compared(_ object: StoreObjectFacts, isSame: Bool, isEarlier: Bool = false) {
        guard isSame else { return beginAnew() }
        if isEarlier { step = .done(object) } else { completed(object) }
    }

    private mutating func beginAnew() {
        lossCount += 1
        upload = nil
        (hasBegunAnew, mayBeComplete) = (true, false)
        step = lossCount > Self.lossCountMax ? .giveUp : .request(.create)
    }
}

/// Facts about an object at its store.
struct StoreObjectFacts: Sendable, Equatable {
    /// `ETag` with its quotes, or `nil`.
    let entityTag: String?
    /// `x-amz-version-id`, or `nil`.
    let versionID: String?
    /// Checksum of all bytes in Base64; `nil` if the store has told none.
    var checksum: String?
}

import Testing

@testable import FerryEngine

@Suite struct MultipartConversationTests {
    private static let object = StoreObjectFacts(entityTag: "\"a-2\"", versionID: nil)

    @Test("an upload is created, sent and completed")
    func whole() {
        var one = MultipartConversation(earlier: nil, isUsable: false)
        #expect(one.step == .request(.create) && one.upload == nil)
        one.created("u")
        #expect(one.step == .send && one.upload == "u")
        one.sentAll()
        #expect(one.step == .request(.complete))
        one.completed(Self.object)
        #expect(one.step == .done(Self.object) && one.upload == nil && !one.hasBegunAnew)
    }

    @Test("an upload of an earlier attempt is listed page by page")
    func pages() {
        var one = MultipartConversation(earlier: "u", isUsable: true)
        #expect(one.step == .request(.list(after: 0)))
        one.listed(after: 0, next: 1_000)
        #expect(one.step == .request(.list(after: 1_000)))
        // A page that leads back is the last one.
        one.listed(after: 1_000, next: 1_000)
        #expect(one.step == .send && !one.hasBegunAnew)
    }

    @Test("an upload of other bytes is removed before another one begins")
    func otherBytes() {
        var one = MultipartConversation(earlier: "u", isUsable: false)
        #expect(one.step == .request(.abort) && one.upload == "u" && one.hasBegunAnew)
        one.aborted()
        #expect(one.step == .request(.create) && one.upload == nil)
    }

    @Test("an upload that its store has lost begins anew, a limited number of times")
    func lost() {
        var one = MultipartConversation(earlier: nil, isUsable: false)
        for _ in 1...2 {
            one.created("u")
            one.lost()
            #expect(one.step == .request(.create) && one.upload == nil && one.hasBegunAnew)
        }
        one.created("u")
        one.lost()
        #expect(one.step == .giveUp)
    }

    @Test("after a lost response to the completion, the object is looked at")
    func lostResponse() {
        for isSame in [true, false] {
            var one = MultipartConversation(earlier: nil, isUsable: false)
            one.created("u")
            one.sentAll()
            one.completionIsUnknown()
            #expect(one.step == .request(.complete))
            one.lost()
            #expect(one.step == .request(.look) && one.upload == "u")
            one.looked(Self.object)
            #expect(one.step == .compare(Self.object))
            one.compared(Self.object, isSame: isSame)
            #expect(one.step == (isSame ? .done(Self.object) : .request(.create)))
            #expect(one.hasBegunAnew == !isSame)
        }
    }

    @Test("an earlier attempt may have completed an upload that is gone")
    func earlierCompletion() {
        var one = MultipartConversation(earlier: "u", isUsable: true)
        one.lost()
        #expect(one.step == .request(.look))
        one.looked(nil)
        #expect(one.step == .request(.create) && one.upload == nil)
    }

    @Test("an object in the way is looked at only if it may be that of the upload")
    func objectInTheWay() {
        var one = MultipartConversation(earlier: nil, isUsable: false)
        one.created("u")
        one.sentAll()
        let looksAtOnce = one.looksForObject()
        #expect(!looksAtOnce && one.step == .request(.complete))
        one.completionIsUnknown()
        let looksLater = one.looksForObject()
        #expect(looksLater && one.step == .request(.look))
    }
}

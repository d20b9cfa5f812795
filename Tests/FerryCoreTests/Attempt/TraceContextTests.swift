import Testing

@testable import FerryCore

@Suite("Trace context")
struct TraceContextTests {
    @Test("parent and state are read back from the stored text")
    func text() {
        let both = TraceContext(TraceContext.text(parent: "00-a-b-01", state: "v=a b,w=c"))
        #expect(both.parent == "00-a-b-01" && both.state == "v=a b,w=c")
        let alone = TraceContext(TraceContext.text(parent: "00-a-b-01", state: nil))
        #expect(alone.parent == "00-a-b-01" && alone.state == nil)
    }

    @Test("several tracestate fields form one list without white space around members")
    func fields() {
        #expect(TraceContext.state(["a=1 , b=x y", "\tt@v/*-_=2", ""]) == "a=1,b=x y,t@v/*-_=2")
        #expect(TraceContext.state([]) == nil && TraceContext.state([""]) == nil)
    }

    @Test(
        "an invalid tracestate is dropped",
        arguments: [
            "a", "=1", "a=", "A=1", "a=1=2", "a=\u{e9}", "a=1,a=2", "a=1\r\nb: 2", "_a=1", "a=\u{7f}",
        ])
    func invalid(_ value: String) { #expect(TraceContext.state([value]) == nil) }

    @Test("a tracestate that is too long loses long members first, then the last ones")
    func long() {
        let long = "long=" + String(repeating: "x", count: 200)
        let many = (0..<30).map { "k\($0)=" + String(repeating: "y", count: 15) }
        let state = TraceContext.state([long] + many) ?? ""
        #expect(state.utf8.count <= 512 && state.hasPrefix("k0=y") && !state.contains("long"))
        #expect(many.joined(separator: ",").hasPrefix(state + ","))
        #expect(TraceContext.state((0..<33).map { "k\($0)=v" }) == nil)
        let whole = (0..<32).map { "k\($0)=v" }.joined(separator: ",")
        #expect(TraceContext.state([whole]) == whole)
    }
}

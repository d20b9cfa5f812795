import TestSupport
import Testing

@testable import FerryEngine

private typealias Element = XMLScanner.Element

/// A document, and its elements as `parent/name=text`.
private let documents: [(String, [String])] = [
    ("<a>text</a>", ["/a=text"]),
    ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a>text</a>\n", ["/a=text"]),
    ("\u{FEFF}<a>text</a>", ["/a=text"]),
    ("<a><b>1</b>\n <c> 2 </c></a>", ["a/b=1", "a/c= 2 ", "/a="]),
    ("<a><p><n>1</n></p><p><n>2</n></p></a>", ["p/n=1", "a/p=", "p/n=2", "a/p=", "/a="]),
    ("<a xmlns='u:v' x=\"a>b\"><s:b s:x='/>'>1</s:b></a>", ["a/b=1", "/a="]),
    ("<a><b/><c /><d x='1'/></a >", ["a/b=", "a/c=", "a/d=", "/a="]),
    ("<a>x<!-- <b> -- > -->y<?p <c>?>z</a>", ["/a=xyz"]),
    ("<a>1<![CDATA[<b>&amp;]]]]>2</a>", ["/a=1<b>&amp;]]2"]),
    ("<a>&amp;&lt;&gt;&quot;&apos;</a>", ["/a=&<>\"'"]),
    ("<a>&#65;&#x42;&#xe9;&#x1F600;</a>", ["/a=ABé😀"]),
    ("<a>&amp;lt;</a>", ["/a=&lt;"]),
    ("<a>&#0;&#xD800;&#x110000;</a>", ["/a=\u{FFFD}\u{FFFD}\u{FFFD}"]),
    ("<a>&nbsp;&;&&#;&#x;&#+1;&#-1;</a>", ["/a=&nbsp;&;&&#;&#x;&#+1;&#-1;"]),
    ("<a>&#12a;&longername;& </a>", ["/a=&#12a;&longername;& "]),
    ("", []), ("text", []), ("<", []), ("</", []), ("<>", []), ("</>", []), ("< a></a>", []), ("</a>", []),
    ("<a>text", []), ("<a>text<", []), ("<a>text</", []), ("<a>text</a", []), ("<a b='", []),
    ("<a><b>1</b><c>2</c", ["a/b=1"]), ("<a><b>1</b><c>2", ["a/b=1"]), ("<a><b>1</b>&am", ["a/b=1"]),
    ("<a><b>1</b><!-- ", ["a/b=1"]), ("<a><b>1</b><![CDATA[ ", ["a/b=1"]), ("<a><b>1</b><?", ["a/b=1"]),
    ("<a><b>1</b><c></b></c></a>", ["a/b=1"]), ("<a><b>1</b></c></a>", ["a/b=1"]),
    ("<a><b>1</b><c<d>2</d></a>", ["a/b=1"]), ("<a><b>1</b></b/></a>", ["a/b=1"]),
    ("<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", []),
    ("<a>1</a><b>2</b>", ["/a=1", "/b=2"]),
]

@Suite("XML of object stores") struct XMLScannerTests {
    private func elements(_ bytes: [UInt8]) -> [Element] {
        var scanner = XMLScanner(bytes)
        var elements: [Element] = []
        while let element = scanner.next() { elements.append(element) }
        #expect(scanner.next() == nil)
        return elements
    }

    private func lines(_ bytes: [UInt8]) -> [String] {
        elements(bytes).map { "\($0.parent)/\($0.name)=\($0.text)" }
    }

    @Test("a document has these elements", arguments: documents)
    func document(text: String, expected: [String]) {
        #expect(lines(Array(text.utf8)) == expected)
    }

    @Test("the beginning of a document has the elements that end in it", arguments: documents)
    func beginnings(text: String, expected: [String]) {
        let bytes = Array(text.utf8)
        for count in 0..<bytes.count {
            let found = lines(Array(bytes[..<count]))
            #expect(found == Array(expected.prefix(found.count)), "the first \(count) bytes")
        }
    }

    @Test("a document of any bytes ends", arguments: UInt64(0)..<100)
    func hostile(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let pieces = [
            "<", ">", "</", "/>", "a", "b", "<a>", "</a>", "<b x='", "\"", "<!--", "-->", "<![CDATA[", "]]>",
            "<?", "?>", "&", ";", "&#", "&amp;", " ", ":", "\0", "é", "<!DOCTYPE",
        ]
        for _ in 0..<50 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0..<60, using: &random) {
                bytes += Array(pieces[Int.random(in: 0..<pieces.count, using: &random)].utf8)
                if Bool.random(using: &random) { continue }
                bytes.append(.random(in: 0...255, using: &random))
            }
            #expect(elements(bytes).count <= bytes.count)
        }
    }

    @Test("names, texts and depth are bounded")
    func bounds() {
        let name = String(repeating: "n", count: XMLScanner.nameByteCountMax)
        #expect(lines(Array("<\(name)>1</\(name)>".utf8)) == ["/\(name)=1"])
        #expect(lines(Array("<\(name)n>1</\(name)n>".utf8)) == [])
        let text = String(repeating: "t", count: XMLScanner.textByteCountMax)
        #expect(lines(Array("<a>\(text)more<![CDATA[more]]>&amp;</a>".utf8)) == ["/a=\(text)"])
        let depth = XMLScanner.depthMax
        let starts = String(repeating: "<a>", count: depth)
        let ends = String(repeating: "</a>", count: depth)
        #expect(elements(Array((starts + ends).utf8)).count == depth)
        #expect(elements(Array("\(starts)<a></a>\(ends)".utf8)).isEmpty)
        #expect(elements(Array(String(repeating: "<a>", count: 100_000).utf8)).isEmpty)
    }
}

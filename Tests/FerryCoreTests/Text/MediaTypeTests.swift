import Testing

@testable import FerryCore

@Suite("Media types")
struct MediaTypeTests {
    @Test(
        "parameters are kept as sent",
        arguments: [
            ("text/csv; charset=utf-8", "; charset=utf-8"),
            ("Text/CSV;charset=\"iso-8859-1\"", ";charset=\"iso-8859-1\""),
            ("text/csv ; a=b;c=\"d\\\"e f\"", "; a=b;c=\"d\\\"e f\""), ("text/csv;", ";"), ("text/csv", ""),
        ])
    func kept(_ value: String, _ parameters: String) {
        #expect(MediaType.parameters(of: value, type: "text/csv") == parameters)
    }

    @Test(
        "unsafe, invalid or foreign parameters are dropped",
        arguments: [
            "text/csv; charset=utf-8\r\nX: y", "text/csv; charset=\"utf-8\r\nX: y\"", "text/csv; a=\"b",
            "text/csv; a",
            "text/csv; a=", "text/csv; =b", "text/csv; a=b c=d", "text/csv; a=b, text/html",
            "text/csv; a=\u{e9}",
            "text/csv; a=\"\u{7f}\"", "text/csv; a=\"b\\", "text/html; charset=utf-8", "; charset=utf-8", "",
            "text/csv; a=" + String(repeating: "b", count: 250),
        ])
    func refused(_ value: String) {
        #expect(MediaType.parameters(of: value, type: "text/csv").isEmpty)
    }
}

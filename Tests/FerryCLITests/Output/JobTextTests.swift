import FerryCLI
import FerryCore
import Testing

@Suite("Text output of jobs")
struct JobTextTests {
    @Test("byte counts have one decimal and a binary unit")
    func bytes() {
        #expect(byteCountText(0) == "0 B")
        #expect(byteCountText(1_023) == "1023 B")
        #expect(byteCountText(1_024) == "1.0 KiB")
        #expect(byteCountText(1_536) == "1.5 KiB")
        #expect(byteCountText(1_048_575) == "1.0 MiB")
        #expect(byteCountText(20 << 30) == "20.0 GiB")
        #expect(byteCountText(Int64.max) == "8388608.0 TiB")
    }

    @Test("durations are rounded up to seconds")
    func durations() {
        #expect(durationText(0) == "00:00")
        #expect(durationText(4.2) == "00:05")
        #expect(durationText(754) == "12:34")
        #expect(durationText(18_123) == "5:02:03")
        #expect(durationText(-1) == "00:00")
    }

    @Test("a progress line has bar, bytes, rate and time and fits the terminal")
    func progress() throws {
        let text = """
            {"state":"running","kind":"download","progress":{"bytes_received":524288,
            "bytes_expected_to_receive":1048576,"fraction_completed":0.5,"bytes_per_second":1024,
            "seconds_remaining":512}}
            """
        let job = try JSON.parse(Array(text.utf8))
        #expect(
            progressLine(job, width: 80)
                == "[" + String(repeating: "=", count: 13) + String(repeating: " ", count: 13)
                + "]  50 %  512.0 KiB of 1.0 MiB  1.0 KiB/s  08:32 left")
        for width in 1...200 { #expect(progressLine(job, width: width).count <= max(1, width - 1)) }
    }

    @Test("a progress line without length has no bar; a waiting job shows its reason")
    func withoutLength() throws {
        let unknown = try JSON.parse(
            Array(#"{"state":"running","progress":{"bytes_received":2048,"fraction_completed":null}}"#.utf8))
        #expect(progressLine(unknown, width: 80) == "2.0 KiB")
        let waiting = try JSON.parse(Array(#"{"state":"waiting","waiting_for":"retry"}"#.utf8))
        #expect(progressLine(waiting, width: 80) == "waiting: retry")
    }
}

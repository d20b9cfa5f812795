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

    @Test("the bytes of a progress line go backwards only if the transfer begins again, which it says")
    func counter() throws {
        var counter = ByteCounter()
        let half = "50 %  500 B of 1000 B"
        func line(_ progress: String) throws -> String {
            let members = #""bytes_expected_to_receive":1000,\#(progress)"#
            let text = #"{"state":"running","kind":"download","progress":{\#(members)}}"#
            let job = try JSON.parse(Array(text.utf8))
            counter.take(try #require(job["progress"]), isUpload: false)
            return progressLine(job, width: 40, counter: counter)
        }
        #expect(try line(#""bytes_received":500,"fraction_completed":0.5"#).hasSuffix(half))
        // The next attempt has no response yet, or the job's node does not answer.
        for nothing in [
            #""bytes_received":0"#, #""bytes_received":9,"fraction_completed":0.009,"unavailable":{}"#,
        ] {
            #expect(try line(nothing).hasSuffix(half), "\(nothing)")
        }
        // It resumes before the end of what was received.
        #expect(try line(#""bytes_received":410,"resumed_at_offset":400"#).hasSuffix(half))
        #expect(try line(#""bytes_received":600,"resumed_at_offset":400"#).hasSuffix("60 %  600 B of 1000 B"))
        for count in [100, 599] {
            let again = try line(#""bytes_received":\#(count),"resumed_at_offset":0"#)
            #expect(again.hasSuffix(" \(count) B of 1000 B  begun again"), "\(again)")
        }
        #expect(try line(#""bytes_received":600,"resumed_at_offset":0"#).hasSuffix("60 %  600 B of 1000 B"))
        var upload = ByteCounter()
        upload.take(try JSON.parse(Array(#"{"bytes_received":3,"bytes_sent":7}"#.utf8)), isUpload: true)
        #expect(upload.byteCount == 7 && !upload.hasBegunAgain)
    }

    @Test("ages have one unit")
    func ages() {
        let ages: [(Double, String)] = [
            (-1, "0s"), (59.9, "59s"), (60, "1m"), (3_599, "59m"), (86_399, "23h"), (86_400, "1d"),
        ]
        for (seconds, text) in ages { #expect(ageText(seconds) == text) }
    }

    @Test("host and path keep the beginning of the host and the end of the path in any width")
    func places() {
        let url = "https://files.example/2026/11/part-0001.csv?token=x"
        #expect(placeText(url, width: 40) == "files.example/2026/11/part-0001.csv")
        #expect(placeText(url, width: 24) == "files.exampl…rt-0001.csv")
        #expect(placeText(url, width: 12) == "files.…1.csv")
        #expect(placeText("http://a", width: 10) == "a")
        #expect(placeText("http://files.example/a.csv", width: 12) == "files…/a.csv")
        for width in 1...60 { #expect(placeText(url, width: width).count <= width, "\(width)") }
    }

    @Test("the reason of a waiting job has times in place of the names of fields")
    func reasonTimes() throws {
        let now = try #require(Timestamp(rfc3339: "2026-11-28T22:00:00Z"))
        let job = try JSON.parse(
            Array(
                #"""
                {"next_attempt_at": "2026-11-28T22:14:05.5Z", "schedule": {"earliest_begin_at": null},
                 "waiting_reason": {"detail": "Begins at next_attempt_at, next_check_at, earliest_begin_at.",
                 "next_check_at": "2026-11-29T01:00:00Z"}}
                """#.utf8))
        #expect(
            waitingDetail(job, now: now, offset: 0)
                == "Begins at 22:14:05, 2026-11-29 01:00:00, earliest_begin_at.")
        #expect(
            waitingDetail(job, now: now, offset: 3_600)
                == "Begins at 23:14:05, 2026-11-29 02:00:00, earliest_begin_at.")
        #expect(waitingDetail(.null, now: now) == nil)
    }

    @Test("a progress line without length has no bar; a waiting job shows its reason")
    func withoutLength() throws {
        let unknown = try JSON.parse(
            Array(#"{"state":"running","progress":{"bytes_received":2048,"fraction_completed":null}}"#.utf8))
        #expect(progressLine(unknown, width: 80) == "2.0 KiB")
        let waiting = try JSON.parse(Array(#"{"state":"waiting","waiting_for":"retry"}"#.utf8))
        #expect(progressLine(waiting, width: 80) == "waiting: retry")
    }

    @Test("the line of a waiting job shows the cause, the attempt of how many, and the seconds")
    func waiting() throws {
        let now = try #require(Timestamp(rfc3339: "2026-11-27T00:00:00Z"))
        let line = { (job: String, waited: Double) in
            progressLine(
                try JSON.parse(Array(job.utf8)), width: 200, wait: WaitTime(now: now, waitedSeconds: waited))
        }
        let error = #""error":{"code":"could_not_connect","message":"The server could not be connected."}"#
        let retry = #""attempt":2,"retry":{"max_attempts":5}"#
        #expect(
            try line(
                #"{"state":"waiting",\#(retry),"next_attempt_at":"2026-11-27T00:00:11.2Z",\#(error)}"#, 1)
                == "waiting: could_not_connect, attempt 2 of 5, next in 12 s: "
                + "The server could not be connected.")
        // No time is known: the seconds that the job has waited.
        #expect(
            try line(#"{"state":"waiting",\#(retry),"next_attempt_at":null,\#(error)}"#, 7.9)
                == "waiting: could_not_connect, attempt 2 of 5, for 7 s: The server could not be connected.")
        // Attempts that use up none are numbered too.
        #expect(
            try line(#"{"state":"waiting","attempt":9,"retry":{"max_attempts":5},\#(error)}"#, 0)
                .contains("attempt 9 (5 may fail), for 0 s"))
        let reason =
            #""waiting_reason":{"code":"no_free_slot","detail":"It starts soon.","next_check_at":null}"#
        #expect(
            try line(#"{"state":"queued","attempt":0,"error":null,\#(reason)}"#, 3)
                == "queued: for 3 s: It starts soon.")
    }
}

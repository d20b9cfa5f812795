import FerryCore
import Testing

@testable import FerryCLI

@Suite("Text output of attempts")
struct AttemptTextTests {
    private static let list = """
        {"data":[{"number":3,"node":"nod_a","started_at":"2026-11-21T22:00:00.000000Z",
          "finished_at":"2026-11-21T22:00:00.250000Z","outcome":"failed",
          "error":{"code":"timed_out","message":"Late.","class":"timeout","phase":"waiting","retryable":true},
          "transactions":[{"request":{"method":"GET","url":"https://a.example/x"},"response":{"status":302},
            "fetch_start_at":"2026-11-21T22:00:00.010000Z",
            "domain_lookup_start_at":"2026-11-21T22:00:00.010000Z",
            "domain_lookup_end_at":"2026-11-21T22:00:00.020000Z",
            "connect_start_at":"2026-11-21T22:00:00.020000Z",
            "secure_connection_start_at":"2026-11-21T22:00:00.030000Z",
            "secure_connection_end_at":"2026-11-21T22:00:00.050000Z",
            "connect_end_at":"2026-11-21T22:00:00.050000Z",
            "request_start_at":"2026-11-21T22:00:00.050000Z","request_end_at":"2026-11-21T22:00:00.050042Z",
            "response_start_at":"2026-11-21T22:00:00.080000Z","response_end_at":null,
            "network_protocol_name":"http/1.1","is_proxy_connection":false,"is_reused_connection":true,
            "remote_address":"2001:db8::1","remote_port":443,"tls_protocol_version":"TLSv1.3",
            "count_of_request_header_bytes_sent":100,"count_of_request_body_bytes_sent":1000,
            "count_of_response_header_bytes_received":20,"count_of_response_body_bytes_received":3}],
          "omitted_transactions":2,
          "diagnostics":{"curl_code":28,"curl_message":"Too late","os_error":110}},
         {"number":4,"node":null,"started_at":null,"finished_at":null,"outcome":null,"error":null,
          "transactions":[],"omitted_transactions":0}],"omitted_attempts":2}
        """

    @Test("the phases of a request have start, duration and a bar on a common scale")
    func waterfall() throws {
        let lines = AttemptText(width: 100).lines(try JSON.parse(Array(Self.list.utf8)))
        #expect(
            lines == [
                "(2 earlier attempts are not kept)",
                "attempt 3  failed after 250 ms  2026-11-21T22:00:00.000000Z  nod_a",
                "  Late. (timed_out, waiting)",
                "  curl 28: Too late, errno 110",
                "  1  GET https://a.example/x  302  http/1.1  TLSv1.3  [2001:db8::1]:443  kept connection",
                "     lookup      0.000 ms       10.0 ms  |=====                                   |",
                "     connect      10.0 ms       10.0 ms  |     ======                             |",
                "     tls          20.0 ms       20.0 ms  |           ===========                  |",
                "     send         40.0 ms      0.042 ms  |                      =                 |",
                "     wait         40.0 ms       29.9 ms  |                      ==================|",
                "     receive      70.0 ms     not ended  |                                       ?|",
                "     sent 1.1 KiB, received 23 B",
                "  (2 requests before the last one are not kept)",
                "attempt 4  running",
            ])
    }

    @Test("an operating system error without curl message shows its errno")
    func refusedFile() throws {
        let list = """
            {"data":[{"number":1,"node":null,"started_at":null,"finished_at":null,"outcome":"failed",
              "error":{"code":"storage_unavailable","message":"No.","phase":"finishing"},
              "transactions":[],"omitted_transactions":0,
              "diagnostics":{"curl_code":null,"curl_message":null,"os_error":30}}],"omitted_attempts":0}
            """
        #expect(
            AttemptText(width: 100).lines(try JSON.parse(Array(list.utf8))) == [
                "attempt 1  failed", "  No. (storage_unavailable, finishing)", "  errno 30",
            ])
    }

    @Test("a narrow terminal has no bars, and nothing is wider than it", arguments: 50...120)
    func narrow(width: Int) throws {
        let lines = AttemptText(width: width).lines(try JSON.parse(Array(Self.list.utf8)))
        let spans = lines.filter { $0.hasPrefix("     ") && !$0.contains("sent ") }
        #expect(spans.count == 6 && spans.allSatisfy { $0.count <= width })
        #expect(spans.contains { $0.contains("|") } == (width >= 51))
    }

    @Test("a job without attempts prints a sentence")
    func none() throws {
        let list = try JSON.parse(Array(#"{"data":[],"omitted_attempts":0}"#.utf8))
        #expect(AttemptText(width: 80).lines(list) == ["No attempt has begun."])
    }
}

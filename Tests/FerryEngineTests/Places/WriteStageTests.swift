import FerryCore
import FerryEngine
import TestSupport
import Testing

/// Bytes of large files gather before they are written: none may be lost, or get into another file.
@Suite struct WriteStageTests {
    @Test(
        "large files of several transfers of one loop arrive whole, each with its own bytes",
        arguments: [1, 5])
    func interleaved(segmentCount: Int) throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture { $0.loopCount = 1 }
        defer { fixture.stop() }
        var sizes: [String: Int] = [:]
        for number in 0..<6 {
            // None a multiple of what is gathered.
            let size = 3_000_017 + number * 777_777
            sizes["large-\(number)"] = size
            var word = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 | 1
            let bytes = (0..<size).map { _ in
                word ^= word << 13
                word ^= word >> 7
                word ^= word << 17
                return UInt8(truncatingIfNeeded: word)
            }
            try nginx.serve("large-\(number)", bytes)
        }
        fixture.engine.begin(
            sizes.keys.map { name in
                fixture.attempt(.download, "\(nginx.url)/\(name)") {
                    $0.to(name)
                    $0.spec.segmentCountMax = segmentCount
                }
            })
        let results = fixture.sink.arrived.wait(for: 6)
        #expect(results.count == 6)
        for result in results {
            guard case .succeeded(let stored) = result.outcome, let path = stored.location?.path else {
                Issue.record("\(result.outcome)")
                continue
            }
            #expect(stored.size == Int64(sizes[path] ?? 0))
            let served = readFile("\(nginx.root)/\(path)")
            let kept = readFile("\(fixture.root)/\(path)")
            #expect(served == kept && kept != nil)
        }
    }
}

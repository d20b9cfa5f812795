import FerryCore
import Synchronization
import Sys

/// Sends the files of a `ferry put`, several at once, and shows their progress and results.
final class PutRun: Sendable {
    private struct State {
        /// Next target that no thread has taken.
        var next = 0
        /// Results that are not printed yet, by the number of their target.
        var lines: [Int: [UInt8]] = [:]
        /// Number of targets whose results are printed.
        var printedCount = 0
        var failures: [Int: ClientFailure] = [:]
        /// Staged uploads of files that were sent.
        var sentUploads: [String] = []
        var outputFailure: ClientFailure?
    }

    private let plan: PutPlan
    private let targets: [PutTarget]
    /// Source that is not a local file; `nil` for local files.
    private let source: JSON.Member?
    private let asJSON: Bool
    private let display: ProgressDisplay
    private let interruption: PutInterruption
    private let state = Mutex(State())

    init(_ plan: PutPlan, _ targets: [PutTarget], source: JSON.Member?, asJSON: Bool, console: Console) {
        self.plan = plan
        self.targets = targets
        self.source = source
        self.asJSON = asJSON
        display = ProgressDisplay(console)
        interruption = PutInterruption(
            fileCount: targets.count, canContinue: source != nil || targets.allSatisfy { $0.name != nil })
    }

    /// Sends all files. Throws afterwards with the failures of all files that were not sent. `parallel`:
    /// files to send at once.
    func run(parallel: Int) throws(ClientFailure) {
        if targets.count == 1 {
            work(0)
        } else {
            let threads = (0..<min(parallel, targets.count)).map { number in
                Thread(name: "ferry-put") { self.work(number) }
            }
            for thread in threads { thread.join() }
        }
        display.end()
        let state = state.withLock { $0 }
        // If a file was not sent, the same command will be run again: the uploads then tell it which were.
        if state.failures.isEmpty, state.outputFailure == nil {
            for upload in state.sentUploads { plan.removeUpload(upload) }
        }
        let failures = state.failures.sorted { $0.key < $1.key }
        if let first = failures.first?.value {
            throw ClientFailure(first.kind, failures.map(\.value.description).joined(separator: "\n"))
        }
        if let failure = state.outputFailure { throw failure }
    }

    private func work(_ row: Int) {
        while let number = next() {
            let target = targets[number]
            let title = targets.count > 1 ? target.name?.text ?? "" : ""
            let job = PutJob(
                plan: plan, target: target, row: ProgressRow(display, number: row, title: title),
                interruption: interruption)
            do throws(ClientFailure) {
                let outcome = if let source { try job.send(source) } else { try job.send() }
                display.remove(row: row)
                finish(number, outcome)
            } catch {
                display.remove(row: row)
                fail(number, error)
            }
        }
    }

    private func next() -> Int? {
        state.withLock { state in
            guard state.next < targets.count else { return nil }
            state.next += 1
            return state.next - 1
        }
    }

    private func finish(_ number: Int, _ outcome: PutJob.Outcome) {
        let job = outcome.job.json
        let id = job["id"]?.string ?? ""
        let hasSucceeded = job["state"]?.string == JobState.succeeded.rawValue
        let name = LocalPath(targets[number].file).text
        if plan.waits {
            if asJSON { show(number, outcome.job.bytes) } else { show(number, []) }
            guard hasSucceeded else { return fail(number, ClientFailure(.failed, failureText(job))) }
            if let upload = outcome.uploadID { state.withLock { $0.sentUploads.append(upload) } }
            let status = job["response"]?["status"]?.integer.map { ", answered with \($0)" } ?? ""
            let sent = "\(byteCountText(job["result"]?["size"]?.integer ?? 0)) sent\(status)"
            display.message(targets.count == 1 ? "\(id): \(sent)." : "\(name): \(sent) (\(id)).")
        } else if asJSON {
            show(number, outcome.job.bytes)
        } else {
            show(number, Array(printable(targets.count == 1 ? id : "\(id)\t\(name)", keeping: "\t").utf8))
        }
    }

    private func fail(_ number: Int, _ failure: ClientFailure) {
        show(number, [])
        let name = LocalPath(targets[number].file).text
        let hasName = targets.count == 1 || failure.description.hasPrefix(name)
        let text = hasName ? failure.description : "\(name): \(failure.description)"
        state.withLock { $0.failures[number] = ClientFailure(failure.kind, text) }
    }

    /// Prints the result of a target when those of the targets before it are printed; nothing if it is empty.
    private func show(_ number: Int, _ line: [UInt8]) {
        state.withLock { state in
            if state.lines[number] == nil, number >= state.printedCount { state.lines[number] = line }
            while let line = state.lines.removeValue(forKey: state.printedCount) {
                state.printedCount += 1
                guard !line.isEmpty, state.outputFailure == nil else { continue }
                do throws(ClientFailure) {
                    try display.console.data(json: line)
                } catch {
                    state.outputFailure = error
                }
            }
        }
    }
}

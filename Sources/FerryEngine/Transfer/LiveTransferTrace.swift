import Curl
import FerryCore
import Sys

/// What an attempt leaves for `/attempts`.
extension LiveTransfer {
    /// One request is over, or stopped. Does nothing when none runs.
    func noteTransaction(_ info: TransferInfo, isWhole: Bool, hidesRemote: Bool = false) {
        guard let metrics = transaction(info, isWhole: isWhole, hidesRemote: hidesRemote) else { return }
        meter = nil
        transactions.append(metrics)
    }

    /// libcurl goes on by itself after an answer.
    func noteFollowed(_ followed: TransactionMeter.Followed?) {
        guard let followed else { return }
        noteTransaction(followed.info, isWhole: true)
        meter = followed.next
    }

    private func transaction(
        _ info: TransferInfo, isWhole: Bool, isRunning: Bool = false, hidesRemote: Bool = false
    ) -> TransactionMetrics? {
        let isOwn = hop.redirectCount == 0
        return meter?.metrics(
            info, isOwn ? nil : .init(method: hop.method, url: hop.url.string), hop.url, isWhole: isWhole,
            isRunning: isRunning,
            hidesRemote: hidesRemote || context.builder.usesServiceProxy(attempt, hop.url))
    }

    var trace: AttemptTrace {
        AttemptTrace(
            startedAt: startedAt, finishedAt: context.clock.now(), transactions: transactions,
            diagnostics: diagnostics)
    }

    /// The attempt as far as it is, with the request that runs.
    var snapshot: AttemptSnapshot {
        var transactions = transactions
        if let transfer, let metrics = transaction(transfer.info, isWhole: false, isRunning: true) {
            transactions.append(metrics)
        }
        return AttemptSnapshot(number: attempt.number, startedAt: startedAt, transactions: transactions)
    }
}

/// Functions to be called once the results that came before them are committed. Results are committed in the
/// order in which they came.
struct CommitWaits {
    private var waits: [(resultCount: Int, done: @Sendable () -> Void)] = []

    /// Adds a function that waits for the next `resultCount` results; calls it at once if there are none.
    mutating func add(_ done: @escaping @Sendable () -> Void, after resultCount: Int) {
        if resultCount == 0 { done() } else { waits.append((resultCount, done)) }
    }

    /// Calls the functions that wait for no more results after the commit of the first `count` ones.
    mutating func noteCommit(of count: Int) {
        guard !waits.isEmpty, count > 0 else { return }
        for index in waits.indices { waits[index].resultCount -= count }
        // A function waits for as many results as the one before it, or for more.
        let doneCount = waits.prefix { $0.resultCount <= 0 }.count
        for wait in waits.prefix(doneCount) { wait.done() }
        waits.removeFirst(doneCount)
    }
}

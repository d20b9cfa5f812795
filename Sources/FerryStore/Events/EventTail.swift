package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Reads the log as it grows, while event streams are open on this node: at once after this node's passes,
/// when another node notifies it, and every second.
package final class EventTail: Sendable {
    enum Message: Sendable {
        case wake
        /// `ready`: called when all events that are numbered from now on will be received.
        case follow(any EventSink, ready: @Sendable () -> Void)
        case stop(unless: @Sendable () -> Bool)
    }

    private static let interval: Int32 = 1_000
    private let context: StoreContext
    private let signals: StoreSignals
    private let mailbox = Mailbox<Message>()

    init(_ context: StoreContext, _ signals: StoreSignals) {
        self.context = context
        self.signals = signals
        signals.events.onNumbered { [mailbox] in mailbox.send(.wake) }
    }

    /// Sends new events to `sink`. May be called from any thread. `ready` is called once, on the tail's
    /// thread; if the database is unreachable, after the next successful read.
    package func follow(_ sink: any EventSink, ready: @escaping @Sendable () -> Void) {
        if !mailbox.send(.follow(sink, ready: ready)) { ready() }
    }

    /// Stops reading, unless `isNeeded` returns `true` when the message is processed.
    package func stopFollowing(unless isNeeded: @escaping @Sendable () -> Bool) {
        mailbox.send(.stop(unless: isNeeded))
    }

    func wake() { mailbox.send(.wake) }

    func close() { mailbox.close() }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection(
            "event-tail",
            adjust: { options in
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(10)
                options.readInOrderOfIndexes()
            })
        var reader: Reader?
        var waiting: [@Sendable () -> Void] = []
        while true {
            let pause = max(Self.interval, Int32(database.retryIn / .milliseconds(1)) + 1)
            let messages = mailbox.wait(milliseconds: reader == nil ? -1 : pause)
            for message in messages {
                switch message {
                case .wake: break
                case .follow(let sink, let ready):
                    signals.events.hasListeners.store(true, ordering: .relaxed)
                    if reader == nil { reader = Reader(context, sink) }
                    waiting.append(ready)
                case .stop(let isNeeded):
                    guard !isNeeded() else { continue }
                    signals.events.hasListeners.store(false, ordering: .relaxed)
                    reader = nil
                    database.close()
                }
            }
            if mailbox.isClosed {
                waiting.forEach { $0() }
                return
            }
            if reader == nil {
                waiting.forEach { $0() }
                waiting = []
            } else if read(&reader, database) {
                waiting.forEach { $0() }
                waiting = []
            }
        }
    }

    /// Returns `false` if the database is unreachable.
    private func read(_ reader: inout Reader?, _ database: ReconnectingConnection) -> Bool {
        do {
            try database.withConnection { connection throws(PostgresError) in
                try reader?.read(&connection)
            }
            return true
        } catch {
            if !error.isConnectionLost, !error.isRetryable {
                context.logger.error("reading the event log failed", metadata: ["error": "\(error)"])
            }
            return false
        }
    }

    /// Position in the log, and the receiver of events.
    private struct Reader {
        /// Maximum number of events passed on at once: their jobs are read with them.
        private static let eventMax = 50

        let context: StoreContext
        let sink: any EventSink
        /// An id above all received events; `nil` before the first read.
        var next: EventID?

        init(_ context: StoreContext, _ sink: any EventSink) {
            self.context = context
            self.sink = sink
        }

        mutating func read(_ connection: inout Connection) throws(PostgresError) {
            guard var from = next else {
                next = try EventQueries.lastEvent(&connection).successor
                return
            }
            while true {
                let rows = try EventQueries.rows(from: from, nil, nil, &connection)
                guard let last = rows.last else { return }
                let events = rows.flatMap(\.events).filter { sink.wants($0) }
                // After a failure the first events are sent again; a listener skips those it has.
                for start in stride(from: 0, to: events.count, by: Self.eventMax) {
                    let some = Array(events[start..<min(events.count, start + Self.eventMax)])
                    sink.receive(try context.entries(some, &connection))
                }
                from = last.id.rowEnd.successor
                next = from
            }
        }
    }
}

extension Identifier<EventKindTag> {
    fileprivate var successor: Self {
        low == .max ? Self(high: high + 1, low: 0) : Self(high: high, low: low + 1)
    }
}

import FerryCore

/// The requests of an attempt: one after the other (`SerialExchanges`), or several at once for parts of one
/// content that is fetched (`PartExchanges`) or sent to a store (`MultipartExchanges`). Loop thread only.
protocol AttemptExchanges: AnyObject {
    /// The attempt's content at its place; `nil` until bytes are to be stored.
    var sink: (any ByteSink)? { get }
    /// Prepares the first request. Throws what ends the preparation.
    func begin() throws(TransferError)
    /// Takes what the sink has found. `failure`: why the content cannot be at its location, or `nil`.
    func sinkOpened(_ failure: TransferError?)
    /// Returns the event as the attempt's machine is to see it; `nil` if it concerns only the exchanges.
    func revise(_ event: AttemptMachine.Event) -> AttemptMachine.Event?
    /// Carries out an action of the attempt's machine as far as it concerns the exchanges.
    func perform(_ action: AttemptMachine.Action)
    /// Returns the result of the attempt as it is now.
    func result(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) -> AttemptResult
    /// Takes a reply that another thread has given.
    func take(_ reply: ExchangeReply)
    /// Takes the answer about a connection. Returns `false` if no request waits for it.
    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool
    /// Uses the edited fields of the job: the limit of speed at once, those of the request for the next one.
    func adopt(_ edit: AttemptEdit)
    /// Applies changed limits that transfers share.
    func limitsChanged()
    /// Called about once a second. `now`: monotonic nanoseconds. `seconds`: since the last call.
    func secondPassed(_ now: Int64, _ seconds: Double)
    var activity: ExchangeActivity { get }
    /// Scope of the server that has got a request and has not begun to respond; `nil` if there is none, or if
    /// the job's own proxy may be the one that does not respond.
    var unansweredScope: RequestScope? { get }
    /// Measurements of the requests that run.
    var runningTransactions: [TransactionMetrics] { get }
}

/// A reply to exchanges from another thread.
enum ExchangeReply: Sendable {
    /// The body is assembled.
    case bodyOpened(Result<BodyContents, BodyAssembly.Failure>)
    /// The whole body is hashed.
    case bodyHashed(Result<PayloadDigests, TransferError>)
    /// A part of the body is hashed.
    case partHashed(Int, Result<PartDigests, TransferError>)
    /// The source of the body has bytes again.
    case bodyReadable
    /// The body needs something of the source of a copy.
    case sourceDemanded(FetchDemand)
    /// A file thread has hashed more of the body of a copy to a store.
    case fetchedHashed
    /// The database knows that a request may have been sent that must not be sent twice. `isHeld`: the node
    /// holds the lease of the attempt.
    case marked(isHeld: Bool)
    /// The place of the content is no longer far behind.
    case placeCaughtUp
    /// A useless content is removed, and another one can begin.
    case contentRemoved
}

/// State of the exchanges of an attempt, as the loop looks at it.
struct ExchangeActivity {
    /// Nanoseconds since a byte moved; 0 while the attempt does not wait for its server.
    var idleTime: Int64
    /// Whether the attempt has not reached a server yet.
    var isConnecting: Bool
    /// Whether the attempt waits for its next request or for its server, and reading is not paused.
    var waitsForServer: Bool
    /// Whether reading pauses until the place of the content has caught up.
    var waitsForPlace: Bool
}

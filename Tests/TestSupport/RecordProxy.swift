import Glibc
import Synchronization
import Sys

/// A fault of one TLS record in transit (RFC 8446 §5.1).
package struct RecordFault: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// Flips one bit of this byte, or of the last byte if the record is shorter.
        case flip(byte: Int, bit: Int)
        case drop
        case duplicate
        /// Swaps the record with the next one.
        case swap
        /// Closes both connections after this number of bytes of the record.
        case cut(after: Int)
    }

    package let isFromServer: Bool
    /// Index of the record in its direction, starting at 0.
    package let index: Int
    package let kind: Kind

    package init(isFromServer: Bool, index: Int, kind: Kind) {
        self.isFromServer = isFromServer
        self.index = index
        self.kind = kind
    }
}

/// Forwards TLS to a local server record by record. Each connection has one of the remaining faults.
package final class RecordProxy: Sendable {
    private struct State {
        var faults: [RecordFault] = []
        var met: Set<RecordFault> = []
        var lengths: (client: [Int], server: [Int]) = ([], [])
        var open: Set<Int32> = []
        var threads: [Thread] = []
        var isStopped = false
    }

    package let port: UInt16
    private let target: UInt16
    private let listener: Int32
    private let state = Mutex(State())
    private let acceptor = Mutex<Thread?>(nil)

    package var url: String { "https://127.0.0.1:\(port)" }

    package init(to target: UInt16) throws {
        self.target = target
        (listener, port) = try FreePort.listen(backlog: 4_096)
        let thread = Thread(name: "record-proxy") { [self] in acceptAll() }
        acceptor.withLock { $0 = thread }
    }

    package func take(_ faults: [RecordFault]) {
        state.withLock { state in
            state.faults = faults.reversed()
            state.met = []
        }
    }

    /// Number of unused faults.
    package var waitingCount: Int { state.withLock { $0.faults.count } }
    /// Faults whose record occurred.
    package var met: Set<RecordFault> { state.withLock { $0.met } }

    /// Lengths of the records of the last connection without a fault that the server has ended.
    package var lengths: (client: [Int], server: [Int]) { state.withLock { $0.lengths } }

    package func stop() {
        let isFirst = state.withLock { state in
            guard !state.isStopped else { return false }
            state.isStopped = true
            for descriptor in state.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
            return true
        }
        guard isFirst else { return }
        shutdown(listener, Int32(SHUT_RDWR))
        acceptor.withLock { $0.take() }?.join()
        close(listener)
        while let thread = state.withLock({ $0.threads.popLast() }) { thread.join() }
    }

    private func acceptAll() {
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else {
                let code = errno
                if code == ECONNABORTED || code == EINTR { continue }
                // Out of descriptors: wait until others are closed; clients wait meanwhile.
                guard code == EMFILE || code == ENFILE, !state.withLock({ $0.isStopped }) else { return }
                poll(nil, 0, 10)
                continue
            }
            let server = connect()
            for descriptor in [client, server] { prepare(descriptor) }
            state.withLock { state in
                guard !state.isStopped, server >= 0 else {
                    close(client)
                    close(server)
                    return
                }
                let fault = state.faults.popLast()
                state.open.formUnion([client, server])
                state.threads.append(
                    Thread(name: "record-peer", stackSize: 256 << 10) { [self] in
                        let connection = RecordConnection(client, server, fault)
                        connection.run { [self] in note($0) }
                        leave(client, server)
                    })
            }
        }
    }

    private func note(_ connection: RecordConnection) {
        state.withLock { state in
            if let fault = connection.fault {
                if connection.hasMet { state.met.insert(fault) }
            } else {
                state.lengths = (connection.upward.lengths, connection.downward.lengths)
            }
        }
    }

    private func leave(_ client: Int32, _ server: Int32) {
        state.withLock { state in
            for descriptor in [client, server] {
                state.open.remove(descriptor)
                close(descriptor)
            }
        }
    }

    private func prepare(_ descriptor: Int32) {
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), 1, &yes, socklen_t(MemoryLayout<Int32>.size))
    }

    private func connect() -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = target.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        if isConnected { return descriptor }
        close(descriptor)
        return -1
    }
}

/// One direction of a connection.
private final class RecordStream {
    let source: Int32
    let sink: Int32
    private(set) var lengths: [Int] = []
    private(set) var isOpen = true
    private var buffer: [UInt8] = []

    init(_ source: Int32, _ sink: Int32) {
        self.source = source
        self.sink = sink
    }

    /// Adds received bytes. Returns the records that are complete now, and at the end the rest of the last
    /// one.
    func take() -> [[UInt8]] {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = recv(source, &bytes, bytes.count, 0)
        guard count > 0 else {
            isOpen = false
            defer { buffer = [] }
            return buffer.isEmpty ? [] : [buffer]
        }
        buffer += bytes[..<count]
        var records: [[UInt8]] = []
        while buffer.count >= 5 {
            let length = 5 + Int(buffer[3]) << 8 + Int(buffer[4])
            guard buffer.count >= length else { break }
            records.append(Array(buffer[..<length]))
            lengths.append(length)
            buffer.removeFirst(length)
        }
        return records
    }

    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(sink, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    func end() { shutdown(sink, Int32(SHUT_WR)) }
}

/// Both directions of a connection, on one thread.
private final class RecordConnection {
    let fault: RecordFault?
    let upward: RecordStream
    let downward: RecordStream
    private(set) var hasMet = false
    private var index = 0
    private var delayed: [UInt8]?
    private var isCut = false

    init(_ client: Int32, _ server: Int32, _ fault: RecordFault?) {
        self.fault = fault
        upward = RecordStream(client, server)
        downward = RecordStream(server, client)
    }

    /// `note` is called when the server has closed its connection, and at the end.
    func run(_ note: (RecordConnection) -> Void) {
        defer { note(self) }
        while !isCut {
            let streams = [upward, downward].filter(\.isOpen)
            guard !streams.isEmpty else { return }
            var sockets = streams.map { pollfd(fd: $0.source, events: Int16(POLLIN), revents: 0) }
            guard poll(&sockets, nfds_t(sockets.count), -1) > 0 else { continue }
            for (stream, socket) in zip(streams, sockets) where socket.revents != 0 {
                pass(stream)
                if !downward.isOpen { note(self) }
            }
        }
        for descriptor in [upward.source, downward.source] { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    private func pass(_ stream: RecordStream) {
        let isFaulty = fault.map { $0.isFromServer == (stream === downward) } ?? false
        for record in stream.take() where !isCut {
            if isFaulty { damage(record, stream) } else { stream.send(record) }
        }
        guard !stream.isOpen else { return }
        if isFaulty { release(stream) }
        stream.end()
    }

    private func damage(_ record: [UInt8], _ stream: RecordStream) {
        defer { index += 1 }
        guard let fault, index == fault.index else {
            stream.send(record)
            return release(stream)
        }
        hasMet = true
        switch fault.kind {
        case .flip(let byte, let bit):
            var record = record
            record[min(byte, record.count - 1)] ^= 1 << bit
            stream.send(record)
        case .drop: break
        case .duplicate: stream.send(record + record)
        case .swap: delayed = record
        case .cut(let count):
            stream.send(Array(record.prefix(count)))
            isCut = true
        }
    }

    private func release(_ stream: RecordStream) {
        if let delayed { stream.send(delayed) }
        delayed = nil
    }
}

import CSys
import Glibc
import Sys

/// Sockets that a loop waits for: an epoll(7) descriptor, which this object owns, and the registered events.
/// The sockets themselves belong to libcurl.
final class SocketSet {
    private let descriptor: Int32
    /// Registered events by descriptor number; 0: not registered.
    private var registered: [UInt32] = []
    private var events = [epoll_event](repeating: epoll_event(), count: 256)

    init() throws(SystemError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw SystemError("epoll_create1") }
    }

    deinit { close(descriptor) }

    /// Waits for these directions from now on. Removes the socket if there are none.
    ///
    /// libcurl may have closed a socket, and a new one may have its number, before libcurl reports either. So
    /// the kernel's result is used and not `registered`.
    func watch(_ socket: Int32, reads: Bool, writes: Bool) {
        let number = Int(socket)
        if number >= registered.count {
            registered.append(contentsOf: repeatElement(0, count: number + 64 - registered.count))
        }
        let wanted = (reads ? EPOLLIN.rawValue : 0) | (writes ? EPOLLOUT.rawValue : 0)
        let before = registered[number]
        registered[number] = wanted
        var event = epoll_event(events: wanted, data: epoll_data(fd: socket))
        if wanted == 0 {
            // EPOLL_CTL_MOD to no events would not do: epoll always reports a hang-up, again and again.
            epoll_ctl(descriptor, EPOLL_CTL_DEL, socket, &event)
        } else if before == 0 {
            if epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event) != 0, errno == EEXIST {
                epoll_ctl(descriptor, EPOLL_CTL_MOD, socket, &event)
            }
        } else if epoll_ctl(descriptor, EPOLL_CTL_MOD, socket, &event) != 0, errno == ENOENT {
            epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event)
        }
    }

    /// `true` if the socket is registered.
    func isWatched(_ socket: Int32) -> Bool {
        Int(socket) < registered.count && registered[Int(socket)] != 0
    }

    /// Waits for at most `milliseconds`. Returns the number of ready sockets, at most 256.
    func wait(milliseconds: Int32) -> Int {
        max(0, Int(epoll_wait(descriptor, &events, Int32(events.count), milliseconds)))
    }

    /// Returns one of the sockets that the last `wait` counted.
    func ready(_ index: Int) -> (socket: Int32, events: UInt32) {
        (events[index].data.fd, events[index].events)
    }
}

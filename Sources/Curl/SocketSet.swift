import CSys
import Glibc
import Sys

/// The sockets that a loop waits for: an epoll(7) descriptor and what is registered in it.
final class SocketSet {
    private let descriptor: Int32
    /// The registered events of each descriptor, by number; 0 is not registered.
    private var registered: [UInt32] = []
    private var events = [epoll_event](repeating: epoll_event(), count: 256)

    init() throws(SystemError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw SystemError("epoll_create1") }
    }

    deinit { close(descriptor) }

    /// Waits for these directions from now on; for none, forgets the socket.
    ///
    /// libcurl may have closed a socket, and the kernel given its number to another, before we hear of
    /// either: so what the kernel says wins over what we remember.
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
            // Not "modify to nothing": a hang-up would still be reported, again and again.
            epoll_ctl(descriptor, EPOLL_CTL_DEL, socket, &event)
        } else if before == 0 {
            if epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event) != 0, errno == EEXIST {
                epoll_ctl(descriptor, EPOLL_CTL_MOD, socket, &event)
            }
        } else if epoll_ctl(descriptor, EPOLL_CTL_MOD, socket, &event) != 0, errno == ENOENT {
            epoll_ctl(descriptor, EPOLL_CTL_ADD, socket, &event)
        }
    }

    /// Whether events of this socket still interest anybody.
    func isWatched(_ socket: Int32) -> Bool {
        Int(socket) < registered.count && registered[Int(socket)] != 0
    }

    /// Waits at most so long; returns how many sockets are ready, at most 256 at once.
    func wait(milliseconds: Int32) -> Int {
        max(0, Int(epoll_wait(descriptor, &events, Int32(events.count), milliseconds)))
    }

    /// One of those that the last `wait` counted.
    func ready(_ index: Int) -> (socket: Int32, events: UInt32) {
        (events[index].data.fd, events[index].events)
    }
}

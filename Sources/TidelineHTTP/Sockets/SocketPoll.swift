// SocketPoll: reports which of many sockets are ready (epoll, Linux only). It knows nothing of connections.

import CEpoll
import Glibc

/// An epoll descriptor, confined to the thread of its loop.
struct SocketPoll: ~Copyable {
    struct Ready {
        var descriptor: Int32
        var mayRead: Bool
        /// Whether the peer has sent its last byte, or has disconnected.
        var isEnding: Bool
        /// Whether the peer has disconnected and no longer reads.
        var isGone: Bool
    }

    private let descriptor: Int32
    private let events: UnsafeMutableBufferPointer<epoll_event>

    init() throws(HTTPServerError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw .exhausted("no descriptor for an event loop") }
        events = .allocate(capacity: 256)
    }

    deinit {
        close(descriptor)
        events.deallocate()
    }

    /// Reports a descriptor while it is readable.
    func watchForReading(_ watched: Int32) -> Bool {
        tideline_epoll_set(descriptor, EPOLL_CTL_ADD, watched, tideline_epoll_in) == 0
    }

    /// Reports a descriptor that other loops watch as well, without waking all of them for each change.
    func watchShared(_ watched: Int32) -> Bool {
        tideline_epoll_set(descriptor, EPOLL_CTL_ADD, watched, tideline_epoll_shared) == 0
    }

    /// Stops reporting a descriptor; required before a copy of a descriptor is closed.
    func forget(_ watched: Int32) {
        _ = tideline_epoll_set(descriptor, EPOLL_CTL_DEL, watched, 0)
    }

    /// Turns the reports of `watchForReading` off and on.
    func pause(_ watched: Int32, _ isPaused: Bool) {
        let events = isPaused ? 0 : tideline_epoll_in
        _ = tideline_epoll_set(descriptor, EPOLL_CTL_MOD, watched, events)
    }

    /// Reports each time a socket becomes readable or writable, until the socket is closed.
    func watchChanges(of watched: Int32) -> Bool {
        let events = tideline_epoll_in | tideline_epoll_out | tideline_epoll_edge
        return tideline_epoll_set(descriptor, EPOLL_CTL_ADD, watched, events) == 0
    }

    /// Waits until a descriptor is ready, or until the timeout; a negative timeout is infinite.
    func wait(milliseconds: Int32, _ body: (Ready) -> Void) {
        let count = epoll_wait(
            descriptor,
            events.baseAddress,
            Int32(events.count),
            milliseconds
        )
        for index in 0..<max(0, Int(count)) {
            let event = events[index]
            let isEnding = event.events & tideline_epoll_ending != 0
            body(
                Ready(
                    descriptor: event.data.fd,
                    mayRead: isEnding || event.events & tideline_epoll_in != 0,
                    isEnding: isEnding,
                    isGone: event.events & tideline_epoll_gone != 0
                )
            )
        }
    }
}

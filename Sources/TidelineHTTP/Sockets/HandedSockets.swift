// HandedSockets: sockets of a supervisor.
//
// The supervisor that started the process keeps them open as well: connections wait in the kernel while one server
// ends and the next one begins, and none is rejected.

import Glibc

/// The listening sockets that the process was started with (sd_listen_fds(3)).
package struct HandedSockets: Sendable {
    /// The descriptors, which belong to this process and are not inherited by child processes.
    package let descriptors: [Int32]
    /// The address of the first socket that other machines can reach, or of the first socket if there is none.
    package let host: String
    /// The port of that socket.
    package let port: Int

    /// The first descriptor that is passed, by convention.
    private static let first: Int32 = 3
    private static let most = 64

    /// Adopts the sockets that the environment lists; nil if it lists none for this process.
    ///
    /// - Throws: ``HTTPServerError`` for descriptors that are not listening TCP sockets.
    package init?(environment: [String: String]) throws(HTTPServerError) {
        guard environment["LISTEN_PID"].flatMap({ Int32($0) }) == getpid(),
            let text = environment["LISTEN_FDS"]
        else { return nil }
        guard let count = Int(text), (0...Self.most).contains(count) else {
            throw .handedOver("LISTEN_FDS is '\(text)', but a count up to \(Self.most) is expected")
        }
        guard count > 0 else { return nil }
        let descriptors = (0..<Int32(count)).map { Self.first + $0 }
        var addresses: [(host: String, port: Int)] = []
        for descriptor in descriptors {
            guard Self.isListening(descriptor), let address = PeerAddress.own(descriptor) else {
                throw .handedOver("descriptor \(descriptor) is not a listening TCP socket")
            }
            addresses.append(address)
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        }
        let open = addresses.first { !$0.host.hasPrefix("127.") && $0.host != "::1" }
        guard let shown = open ?? addresses.first else { return nil }
        self.descriptors = descriptors
        host = shown.host
        port = shown.port
    }

    private static func isListening(_ descriptor: Int32) -> Bool {
        option(SO_ACCEPTCONN, of: descriptor) == 1
            && option(SO_TYPE, of: descriptor) == Int32(SOCK_STREAM.rawValue)
    }

    private static func option(_ name: Int32, of descriptor: Int32) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
    }

    /// Returns a copy of each socket for one event loop.
    func copies() throws(HTTPServerError) -> [Int32] {
        var copies: [Int32] = []
        for descriptor in descriptors {
            let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            guard copy >= 0 else {
                for created in copies { close(created) }
                throw .exhausted("no descriptor for an event loop")
            }
            copies.append(copy)
        }
        return copies
    }

    /// Closes this process's descriptors; other processes with the same sockets continue to listen.
    func release() {
        for descriptor in descriptors { close(descriptor) }
    }
}

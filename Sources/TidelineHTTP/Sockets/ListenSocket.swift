// ListenSocket: opens listening sockets.
//
// The kernel spreads connections over sockets that share a port by SO_REUSEPORT. The first socket is bound *without*
// that option and gets it afterwards, so that a second server on the same port fails instead of silently taking half
// of the connections.

import Glibc

/// The listening sockets of a server, one for each event loop, all on the same address and port.
enum ListenSocket {
    /// Opens `count` listening sockets; the port is the one that was bound.
    static func open(
        host: String,
        port: Int,
        count: Int
    ) throws(HTTPServerError) -> (sockets: [Int32], port: Int) {
        guard let number = UInt16(exactly: port) else { throw .invalid(port: port) }
        var address = try ListenAddress(host: host, port: number)
        var sockets: [Int32] = []
        do {
            for _ in 0..<count {
                sockets.append(try address.listen(isFirst: sockets.isEmpty))
            }
        } catch {
            for socket in sockets { close(socket) }
            throw error
        }
        return (sockets, Int(address.port))
    }

    static func code(of systemError: Int32) -> HTTPServerError.Code {
        switch systemError {
        case EADDRINUSE: .addressInUse
        case EACCES, EPERM: .addressNotPermitted
        case EADDRNOTAVAIL, EAFNOSUPPORT: .addressUnavailable
        default: .resourcesExhausted
        }
    }

    static func remedy(of systemError: Int32) -> String {
        switch systemError {
        case EADDRINUSE: "Stop the other server, or choose another port."
        case EACCES, EPERM: "Choose a port above 1023, or grant CAP_NET_BIND_SERVICE."
        case EADDRNOTAVAIL, EAFNOSUPPORT: "Choose an address of this machine, or 0.0.0.0 for all."
        default: "Check the limits of the process (ulimit -a)."
        }
    }
}

/// An IPv4 or IPv6 address with a port.
private struct ListenAddress {
    private let host: String
    private var storage = sockaddr_storage()
    private let length: socklen_t
    private(set) var port: UInt16

    init(host: String, port: UInt16) throws(HTTPServerError) {
        self.host = host
        self.port = port
        var name = host == "localhost" ? "127.0.0.1" : host
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        var four = sockaddr_in()
        var six = sockaddr_in6()
        if inet_pton(AF_INET, name, &four.sin_addr) == 1 {
            four.sin_family = sa_family_t(AF_INET)
            length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: four, as: sockaddr_in.self) }
        } else if inet_pton(AF_INET6, name, &six.sin6_addr) == 1 {
            six.sin6_family = sa_family_t(AF_INET6)
            length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: six, as: sockaddr_in6.self) }
        } else {
            throw .invalid(host: host)
        }
    }

    /// Binds and listens; the first socket determines the port.
    mutating func listen(isFirst: Bool) throws(HTTPServerError) -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let socket = Glibc.socket(Int32(storage.ss_family), type, 0)
        guard socket >= 0 else { throw failure() }
        Self.turnOn(SO_REUSEADDR, of: socket)
        // Connections inherit the option: an answer is one write, which must not be delayed.
        Self.turnOn(TCP_NODELAY, at: Int32(IPPROTO_TCP), of: socket)
        if !isFirst { Self.turnOn(SO_REUSEPORT, of: socket) }
        guard bind(socket) else {
            let error = failure()
            close(socket)
            throw error
        }
        if isFirst { Self.turnOn(SO_REUSEPORT, of: socket) }
        guard Glibc.listen(socket, SOMAXCONN) == 0 else {
            let error = failure()
            close(socket)
            throw error
        }
        if isFirst { port = Self.port(of: socket) }
        return socket
    }

    private mutating func bind(_ socket: Int32) -> Bool {
        let port = port.bigEndian
        let length = length
        return withUnsafeMutableBytes(of: &storage) { bytes in
            bytes.storeBytes(of: port, toByteOffset: Self.portOffset, as: UInt16.self)
            return bytes.withMemoryRebound(to: sockaddr.self) { addresses in
                Glibc.bind(socket, addresses.baseAddress, length) == 0
            }
        }
    }

    /// The offset of the port, after the family, which is the same for both kinds of address.
    private static let portOffset = MemoryLayout<sa_family_t>.size

    private static func turnOn(_ option: Int32, at level: Int32 = SOL_SOCKET, of socket: Int32) {
        var one: Int32 = 1
        setsockopt(socket, level, option, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    private static func port(of socket: Int32) -> UInt16 {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &address) { bytes in
            _ = bytes.withMemoryRebound(to: sockaddr.self) { addresses in
                getsockname(socket, addresses.baseAddress, &length)
            }
            return UInt16(bigEndian: bytes.load(fromByteOffset: portOffset, as: UInt16.self))
        }
    }

    private func failure() -> HTTPServerError {
        let systemError = errno
        let shown = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
        return .listening(
            on: "\(shown):\(port)",
            systemError: systemError,
            text: String(cString: strerror(systemError))
        )
    }
}

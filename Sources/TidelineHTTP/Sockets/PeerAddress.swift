// PeerAddress: addresses of sockets.

import Glibc

/// The address that a connection comes from, as text.
enum PeerAddress {
    /// Returns the IP address of the peer; an IPv4 peer on an IPv6 socket is written as IPv4.
    static func text(of socket: Int32) -> String { read(socket, getpeername)?.host ?? "" }

    /// Returns the address that a TCP socket is bound to; nil for any other socket.
    static func own(_ socket: Int32) -> (host: String, port: Int)? {
        guard let own = read(socket, getsockname), !own.host.isEmpty else { return nil }
        return own
    }

    private static func read(
        _ socket: Int32,
        _ ask: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
    ) -> (host: String, port: Int)? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &storage) { bytes in
            let result = bytes.withMemoryRebound(to: sockaddr.self) {
                ask(socket, $0.baseAddress, &length)
            }
            guard result == 0 else { return nil }
            let port = Int(UInt16(bigEndian: bytes.load(fromByteOffset: 2, as: UInt16.self)))
            return (host(bytes), port)
        }
    }

    private static func host(_ bytes: UnsafeMutableRawBufferPointer) -> String {
        switch Int32(bytes.load(as: sa_family_t.self)) {
        case AF_INET:
            var address = bytes.load(as: sockaddr_in.self).sin_addr
            return text(AF_INET, &address)
        case AF_INET6:
            var address = bytes.load(as: sockaddr_in6.self).sin6_addr
            let text = text(AF_INET6, &address)
            return text.hasPrefix("::ffff:") && text.contains(".")
                ? String(text.dropFirst(7)) : text
        default: return ""
        }
    }

    private static func text(_ family: Int32, _ address: UnsafeRawPointer) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer in
            guard
                let text = inet_ntop(
                    family,
                    address,
                    buffer.baseAddress,
                    socklen_t(buffer.count)
                )
            else { return "" }
            return String(cString: text)
        }
    }
}

// HTTPWorker+TLS: the handshake of TLS connections, and what differs from plain ones after it.
//
// OpenSSL works on the socket itself, without waiting, so a connection waits for the same changes
// of its socket as a plain one.

import Glibc
import TidelineServerCore
import TidelineTLS

extension HTTPWorker {
    /// Continues the handshake; returns false while it waits for the peer.
    ///
    /// It is called again when more bytes may be available.
    func handshake(_ connection: HTTPConnection) -> Bool {
        guard let tls = connection.tls else { return false }
        switch tls.handshake() {
        case .done:
            connection.handshakeEnded(now: now, limits: limits)
            return true
        case .wait:
            if connection.isGone { end(connection) }
            return false
        case .retry: return true
        case .isHTTP:
            // A caller that speaks plain HTTP would not understand a TLS alert.
            connection.tls = nil
            connection.isLast = true
            traffic.failedHandshakes.add()
            send(named(HTTPProblem.notTLS, connection), on: connection)
            return true
        case .failed:
            traffic.failedHandshakes.add()
            end(connection)
            return false
        }
    }

    /// Reads from the TLS session, as `receive(_:)` does from the socket.
    func receive(_ connection: HTTPConnection, by tls: TLSSession) -> SocketRead {
        switch tls.read(into: buffers.input) {
        case .bytes(let count): return .bytes(count)
        case .wait(let isForPeer):
            if isForPeer { connection.input.mayRead = false }
            return .wait
        case .retry: return .retry
        case .ended, .failed: return .ended
        }
    }

    /// Sends the next record of the output.
    func write(_ output: HTTPConnection.Output, by tls: TLSSession) -> SocketWrite {
        let outcome: TLSSession.Outcome
        if output.sent >= output.head.count {
            outcome = output.body.withUnsafeBytes { body in
                let start = output.sent - output.head.count
                return tls.write(UnsafeRawBufferPointer(rebasing: body[start...]))
            }
        } else {
            // In one record, so that they are sent in one packet if they fit. A write that has to
            // wait is repeated with the same bytes: `sent` has not moved.
            buffers.record.removeAll(keepingCapacity: true)
            buffers.record += output.head[output.sent...]
            buffers.record += output.body.prefix(
                max(0, TLSSession.recordBytes - buffers.record.count)
            )
            outcome = buffers.record.withUnsafeBytes { tls.write($0) }
        }
        switch outcome {
        case .bytes(let count): return .sent(count)
        case .wait, .retry: return .wait
        case .ended, .failed: return .failed
        }
    }

    /// Sends an interim answer; ends the connection unless the whole answer was sent.
    func continueInterim(_ connection: HTTPConnection, _ line: [UInt8], by tls: TLSSession) {
        let outcome = line.withUnsafeBytes { tls.write($0) }
        // OpenSSL requires these bytes again before any others.
        guard case .bytes(line.count) = outcome else { return end(connection) }
    }
}

/// The result of a read from a socket.
enum SocketRead: Hashable, Sendable {
    /// This number of bytes, at least one, was read.
    case bytes(Int)
    /// No bytes are available now.
    case wait
    /// No bytes were read, but more may be available.
    case retry
    /// The peer has sent its last byte, or has disconnected.
    case ended
}

/// The result of a write to a socket.
enum SocketWrite: Hashable, Sendable {
    case sent(Int)
    /// The peer has to read first.
    case wait
    case failed
}

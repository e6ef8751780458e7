// TLSSession: TLS on a socket.
//
// The order of the calls is
//
//     handshake()* -> { read(into:) | write(_:) }* -> close()
//
// If a call returns `wait`, the caller repeats it when the socket is ready, a write with the same
// bytes. If it returns `retry`, the caller repeats it after it has served its other connections.

import CCrypto

/// A TLS session on one connected socket, which never blocks.
///
/// Not Sendable: it belongs to the owner of the socket, on the thread of its event loop.
package final class TLSSession {
    package enum Handshake: Hashable, Sendable {
        case done
        case wait
        /// More data may be available.
        case retry
        /// The caller speaks HTTP without TLS.
        case isHTTP
        case failed
    }

    package enum Outcome: Hashable, Sendable {
        /// This number of bytes, at least one, was transferred.
        case bytes(Int)
        /// The socket is not ready; `isForPeer` is true if the session waits for bytes of the peer.
        case wait(isForPeer: Bool)
        /// The read contained no application data; more may be available.
        case retry
        /// The peer has sent its last byte.
        case ended
        case failed
    }

    private let session: OpaquePointer
    private var isBroken = false
    private var isWriting = false
    private var isOpen = false
    /// The number of consecutive reads without application data.
    private var emptyReads = 0

    init(_ session: OpaquePointer) {
        self.session = session
    }

    deinit { SSL_free(session) }

    /// The maximum size of a record in bytes; the rest of a write is in the next record.
    package static let recordBytes = 16 << 10

    /// The maximum number of socket reads in a call; a record takes two.
    private static let readsAtOnce: Int32 = 64

    /// The maximum number of consecutive reads without application data.
    ///
    /// New keys are negotiated only once in many millions of records.
    private static let emptyReadsMax = 1000

    package func handshake() -> Handshake {
        ERR_clear_error()
        tideline_tls_let_read(session, Self.readsAtOnce)
        let result = SSL_accept(session)
        if result == 1 {
            isOpen = true
            return .done
        }
        switch SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ: return tideline_tls_is_drained(session) != 0 ? .wait : .retry
        case SSL_ERROR_WANT_WRITE: return .wait
        default:
            isBroken = true
            let isHTTP = tideline_tls_is_http() != 0
            ERR_clear_error()
            return isHTTP ? .isHTTP : .failed
        }
    }

    package func read(into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        ERR_clear_error()
        tideline_tls_let_read(session, Self.readsAtOnce)
        let count = Int32(clamping: buffer.count)
        let result = SSL_read(session, buffer.baseAddress, count)
        if result > 0 {
            emptyReads = 0
            return .bytes(Int(result))
        }
        let outcome = outcome(result)
        guard outcome == .wait(isForPeer: true), tideline_tls_is_drained(session) == 0 else {
            return outcome
        }
        emptyReads += 1
        return emptyReads <= Self.emptyReadsMax ? .retry : .failed
    }

    /// Sends at most one record of the bytes.
    package func write(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        guard !bytes.isEmpty else { return .wait(isForPeer: false) }
        ERR_clear_error()
        let count = Int32(clamping: min(bytes.count, Self.recordBytes))
        let result = SSL_write(session, bytes.baseAddress, count)
        isWriting = result <= 0
        return result > 0 ? .bytes(Int(result)) : outcome(result)
    }

    /// Sends the closing alert, if that is possible immediately.
    package func close() {
        guard isOpen, !isBroken, !isWriting else { return }
        isOpen = false
        ERR_clear_error()
        SSL_shutdown(session)
        ERR_clear_error()
    }

    private func outcome(_ result: Int32) -> Outcome {
        switch SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ: return .wait(isForPeer: true)
        case SSL_ERROR_WANT_WRITE: return .wait(isForPeer: false)
        case SSL_ERROR_ZERO_RETURN: return .ended
        default:
            // The connection ended without the end of TLS, was reset, or the bytes are not TLS.
            isBroken = true
            ERR_clear_error()
            return .failed
        }
    }
}

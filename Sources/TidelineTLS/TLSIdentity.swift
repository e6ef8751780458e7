// TLSIdentity: replaces certificates.

import Synchronization

/// The certificate that a server presents, which can be replaced while the server runs.
package final class TLSIdentity: Sendable {
    private let current: Mutex<TLSContext>

    /// Reads the files.
    package init(certificateFile: String, keyFile: String) throws(TLSError) {
        current = Mutex(try TLSContext(certificateFile: certificateFile, keyFile: keyFile))
    }

    /// The context for new connections; existing ones keep theirs.
    package var context: TLSContext { current.withLock { $0 } }

    /// Uses the certificate of another identity from now on.
    package func become(_ other: TLSIdentity) {
        let context = other.context
        current.withLock { $0 = context }
    }
}

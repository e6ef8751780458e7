// TLSIdentity: the certificate that a server presents, which can be replaced while it runs.

import Synchronization

package final class TLSIdentity: Sendable {
    private let current: Mutex<TLSContext>

    /// Reads the files.
    package init(certificateFile: String, keyFile: String) throws(TLSError) {
        current = Mutex(try TLSContext(certificateFile: certificateFile, keyFile: keyFile))
    }

    /// The context that new connections get; existing ones keep theirs.
    package var context: TLSContext { current.withLock { $0 } }

    /// Presents the certificate of another identity from now on.
    package func become(_ other: TLSIdentity) {
        let context = other.context
        current.withLock { $0 = context }
    }
}

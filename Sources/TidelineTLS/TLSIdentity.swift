// TLSIdentity: the certificate that a server shows, which may become another one while it runs.

import Synchronization

package final class TLSIdentity: Sendable {
    private let current: Mutex<TLSContext>

    /// Reads the files.
    package init(certificateFile: String, keyFile: String) throws(TLSError) {
        current = Mutex(try TLSContext(certificateFile: certificateFile, keyFile: keyFile))
    }

    /// What new connections are served with; those that are there keep what they have.
    package var context: TLSContext { current.withLock { $0 } }

    /// From now on shows what another one does.
    package func become(_ other: TLSIdentity) {
        let context = other.context
        current.withLock { $0 = context }
    }
}

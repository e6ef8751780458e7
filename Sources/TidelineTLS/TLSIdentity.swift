// TLSIdentity: the certificate that a server shows, which may become another one while it runs.

import Synchronization

package final class TLSIdentity: Sendable {
    private let certificateFile: String
    private let keyFile: String
    private let current: Mutex<TLSContext>

    /// Reads the files.
    package init(certificateFile: String, keyFile: String) throws(TLSError) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        current = Mutex(try TLSContext(certificateFile: certificateFile, keyFile: keyFile))
    }

    /// What new connections are served with; those that are there keep what they have.
    package var context: TLSContext { current.withLock { $0 } }

    /// Reads the files anew.
    ///
    /// - Throws: ``TLSError``; what was served before goes on to be served then.
    package func reload() throws(TLSError) {
        let context = try TLSContext(certificateFile: certificateFile, keyFile: keyFile)
        current.withLock { $0 = context }
    }
}

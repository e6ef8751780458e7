// TLSError: an error of TLS, with a message for an operator.

/// An error in a certificate, its key, or a request for one.
package struct TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String, Sendable {
            case certificateUnusable
            case keyUnusable
            case keysDiffer
            case nameUnusable
            case fileUnusable
            case exhausted
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The file does not contain a usable certificate.
        package static let certificateUnusable = Self(.certificateUnusable)
        /// The file does not contain a usable private key.
        package static let keyUnusable = Self(.keyUnusable)
        /// The key does not belong to the certificate.
        package static let keysDiffer = Self(.keysDiffer)
        /// A name is not valid for a server.
        package static let nameUnusable = Self(.nameUnusable)
        /// A file cannot be read or written.
        package static let fileUnusable = Self(.fileUnusable)
        /// OpenSSL is out of memory.
        package static let exhausted = Self(.exhausted)

        package var description: String { kind.rawValue }
    }

    package var code: Code
    package var message: String

    package var description: String { message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension TLSError {
    static let exhausted = TLSError(.exhausted, "OpenSSL is out of memory.")
}

// ReleaseVersion: the version, which is declared only here.

/// The version of client and server.
package enum ReleaseVersion {
    /// The version, as in the changelog.
    package static let text = "0.1.0"
}

// ReleaseVersion: the only declaration of the version.

/// The version of the client and the server.
package enum ReleaseVersion {
    /// The version, as in the changelog.
    package static let text = "0.1.0"
}

// ReleaseVersion: the version of client and server, in one place.

package enum ReleaseVersion {
    /// The version, as in the changelog.
    package static let text = "0.1.0"
}

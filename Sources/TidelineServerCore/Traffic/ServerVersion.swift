// ServerVersion: the version of this server, in one place.

package enum ServerVersion {
    /// As in the changelog.
    package static let text = "0.1.0"
}

// ServerVersion: the version of this server.

import TidelineCore

/// The version of this server.
package enum ServerVersion {
    /// The version as in the changelog.
    package static let text = ReleaseVersion.text
}

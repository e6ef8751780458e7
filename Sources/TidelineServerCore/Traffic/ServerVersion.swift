// ServerVersion: the version of this server.

import TidelineCore

package enum ServerVersion {
    /// As in the changelog.
    package static let text = ReleaseVersion.text
}

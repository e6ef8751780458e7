// StoreWarning: findings of the server's checks.

/// A failing check of the database, with the reason, for its operator.
package struct StoreWarning: Hashable, Sendable {
    /// A stable code for scripts.
    package var code: String
    /// The failure, its reason, and how to fix it.
    package var text: String

    package init(_ code: String, _ text: String) {
        self.code = code
        self.text = text
    }
}

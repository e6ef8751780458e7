// StoreWarning: a check on the database that does not work, with the reason, for its operator.

package struct StoreWarning: Hashable, Sendable {
    /// Stays as it is, for scripts.
    package var code: String
    /// What does not work, why, and what to do.
    package var text: String

    package init(_ code: String, _ text: String) {
        self.code = code
        self.text = text
    }
}

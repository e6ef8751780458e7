// StoreWarning: a check on the database that does not work, with the reason, for its operator.

package struct StoreWarning: Hashable, Sendable {
    /// Stays as it is, for scripts.
    package var code: String
    /// The failure, its reason, and the remedy.
    package var text: String

    package init(_ code: String, _ text: String) {
        self.code = code
        self.text = text
    }
}

// User: the sender of a request, which is passed to every operation on a table.

public import TidelineCore

/// The sender of a request, as identified by the token.
public struct User: Sendable {
    /// The token's `sub`, which is never empty; users are compared by its bytes.
    public var id: String
    /// The claims of the token that the server itself does not use, and `iss`.
    public var claims: Row
    /// Whether an operator made the call in the dashboard; owner, permissions and `rowFilter` then do not
    /// apply.
    public package(set) var isOperator = false

    /// Creates a user.
    public init(id: String, claims: Row = Row()) {
        self.id = id
        self.claims = claims
    }
}

// User: the sender of a request. It goes with the request into every operation on a table.

public import TidelineCore

/// The sender of a request, as identified by the token.
public struct User: Sendable {
    /// The token's `sub`, never empty; users are compared by its bytes.
    public var id: String
    /// The token's claims that have no meaning of their own here, and `iss`.
    public var claims: Row
    /// Whether the call came through the dashboard, as one of an operator: owner, permissions and
    /// `rowFilter` do not bind it.
    public package(set) var isOperator = false

    /// Describes a user.
    public init(id: String, claims: Row = Row()) {
        self.id = id
        self.claims = claims
    }
}

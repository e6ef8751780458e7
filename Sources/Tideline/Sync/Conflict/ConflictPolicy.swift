// ConflictPolicy: who wins when the server's row is not the one that a change was based on.

/// Who wins a conflict.
public struct ConflictPolicy: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        case fail
        case serverWins
        case clientWins
    }

    package let kind: Kind

    /// The operation is parked, and the error surfaces with both rows.
    public static let fail = ConflictPolicy(kind: .fail)

    /// The server's row replaces the local change; edits made after it was sent stay.
    public static let serverWins = ConflictPolicy(kind: .serverWins)

    /// The local row is sent again, whole, based on the server's row.
    public static let clientWins = ConflictPolicy(kind: .clientWins)
}

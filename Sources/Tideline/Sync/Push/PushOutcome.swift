// PushOutcome: the meaning of a reply to one operation.

/// The meaning of a reply to an operation, or of the response to a follow-up read.
package enum PushOutcome: Sendable, Hashable {
    case decided(ServerDecision)
    /// A follow-up read is needed.
    case read(FollowUpRead)
    case retry
    case unauthorized

    package static func accepted(_ state: ServerState) -> Self { .decided(.accepted(state)) }

    package static func conflict(_ state: ServerState, wasRead: Bool) -> Self {
        .decided(.conflict(state, wasRead: wasRead))
    }

    package static func undeleted(_ state: ServerState) -> Self { .decided(.undeleted(state)) }

    package static let rejected = Self.decided(.rejected)
}

/// The outcome of an operation on the server.
package enum ServerDecision: Sendable, Hashable {
    case accepted(ServerState)
    /// The server's state differs from the state that the operation was based on.
    ///
    /// `wasRead` is true if the server's state comes from a follow-up read, because the reply did
    /// not contain it.
    case conflict(ServerState, wasRead: Bool)
    /// The server undeleted the row with its old values; the operation has to be sent on top of
    /// them.
    case undeleted(ServerState)
    case rejected

    /// Whether the outcome contains the server's state of the row.
    var showsState: Bool {
        switch self {
        case .accepted, .conflict, .undeleted: true
        case .rejected: false
        }
    }
}

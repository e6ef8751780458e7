// PushOutcome: the meaning of a reply to one operation.

/// The meaning of a reply to an operation, or to the read that follows an unclear reply.
package enum PushOutcome: Sendable, Hashable {
    case decided(ServerDecision)
    /// A follow-up read is needed.
    case look(PushLook)
    case retry
    case unauthorized

    package static func accepted(_ state: ServerState) -> Self { .decided(.accepted(state)) }

    package static func conflict(_ state: ServerState, wasRead: Bool) -> Self {
        .decided(.conflict(state, wasRead: wasRead))
    }

    package static func undeleted(_ state: ServerState) -> Self { .decided(.undeleted(state)) }

    package static let rejected = Self.decided(.rejected)
}

/// The decision of a server about an operation.
package enum ServerDecision: Sendable, Hashable {
    case accepted(ServerState)
    /// The server has another state than the operation was based on.
    ///
    /// `wasRead`: a follow-up read brought the state, because the reply did not show it.
    case conflict(ServerState, wasRead: Bool)
    /// The server undeleted the row with its old values; the operation is sent on top of it.
    case undeleted(ServerState)
    case rejected
}

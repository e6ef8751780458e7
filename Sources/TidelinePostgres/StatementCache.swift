// StatementCache: decides how statements are sent.
//
// It sends nothing: it decides how to send each statement, and the connection reports which preparations the server
// has accepted. A name is never used for two statements, nor by two connections: if a name is unknown, PostgreSQL
// reports that, and never runs another statement with this name.

import CLibPQ

/// The prepared statement cache of a connection: the statements with their names.
struct StatementCache {
    /// The form in which a statement is sent.
    enum Step: Hashable {
        /// With its SQL, planned for this execution only.
        case plain
        /// With its SQL and a name, and then by that name.
        case prepare(String)
        /// By a name that the server knows.
        case known(String)
    }

    private struct Key: Hashable {
        var text: String
        /// The parameter types, which are fixed when the statement is prepared.
        var types: [Oid]
    }

    /// At most this many statements are prepared.
    static let countMax = 128

    /// The prefix of the names; no other connection has it.
    private let prefix = "tideline_" + String(UInt64.random(in: 0 ... .max), radix: 36)
    private let age: Duration
    private var names: [Key: String] = [:]
    private var number = 0
    private var oldest: ContinuousClock.Instant?
    private var unanswered: [Key] = []

    /// - Parameter age: The time after which the statements are released, once the connection is idle.
    init(age: Duration) { self.age = age }

    /// Returns how to send a statement; the calls must be in the order of sending.
    mutating func step(for text: String, _ types: [Oid]) -> Step {
        let key = Key(text: text, types: types)
        if let name = names[key] { return .known(name) }
        guard names.count < Self.countMax else { return .plain }
        number += 1
        let name = "\(prefix)_\(number)"
        names[key] = name
        unanswered.append(key)
        if oldest == nil { oldest = .now }
        return .prepare(name)
    }

    /// Records that the server has prepared the first unanswered statement.
    mutating func prepared() { unanswered.removeFirst() }

    /// Records that no further answers to the sent statements will arrive.
    mutating func ended() {
        for key in unanswered { names[key] = nil }
        unanswered = []
    }

    /// Whether the statements are due for release, because their plans may date from when a table was small.
    var isDue: Bool {
        guard let oldest else { return false }
        return names.count >= Self.countMax || ContinuousClock.now - oldest >= age
    }

    /// Records that the server has released all statements.
    mutating func forget() {
        names = [:]
        oldest = nil
    }
}

/// A fault of a prepared statement.
package enum StatementFault: Hashable, Sendable {
    /// The columns that the statement reads have changed, so that it has to be prepared on a new connection.
    case changed
    /// The server does not know the statement, because a pooler gives each transaction a different connection.
    case missing
}

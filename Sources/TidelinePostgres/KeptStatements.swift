// KeptStatements: which statements a connection has prepared, and by which names.
//
// It sends nothing: for each statement it says how it goes out, and the connection tells it which
// preparations the server has taken. A name is never used for two statements, nor by two connections:
// where it means nothing, PostgreSQL says so, and never runs another statement by it.

import CLibPQ

struct KeptStatements {
    /// How a statement goes out.
    enum Step: Hashable {
        /// With its text, to be planned for this once.
        case plain
        /// With its text under a name, then by that.
        case prepare(String)
        /// By a name that the server knows.
        case known(String)
    }

    private struct Key: Hashable {
        var text: String
        /// The server takes parameters as what they were said to be when the name was made.
        var types: [Oid]
    }

    /// How many names there are at most.
    static let countMax = 128

    /// What its names begin with; no other connection has it.
    private let prefix = "tideline_" + String(UInt64.random(in: 0 ... .max), radix: 36)
    private let age: Duration
    private var names: [Key: String] = [:]
    private var number = 0
    private var oldest: ContinuousClock.Instant?
    private var unanswered: [Key] = []

    /// - Parameter age: After which time the names are let go of, at the next rest of the connection.
    init(age: Duration) { self.age = age }

    /// How a statement goes out, in the order of what is sent.
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

    /// The server has taken the first preparation that was not answered.
    mutating func prepared() { unanswered.removeFirst() }

    /// Nothing more is answered of what was sent.
    mutating func ended() {
        for key in unanswered { names[key] = nil }
        unanswered = []
    }

    /// Whether they are to be let go of: their plans may be of a table that was small then.
    var isDue: Bool {
        guard let oldest else { return false }
        return names.count >= Self.countMax || ContinuousClock.now - oldest >= age
    }

    /// The server has let go of all.
    mutating func forget() {
        names = [:]
        oldest = nil
    }
}

/// What became of a statement that a connection kept.
package enum StatementFault: Hashable, Sendable {
    /// What it reads is of another form: on another connection it is prepared anew.
    case changed
    /// The server does not know it: somebody between gives each transaction another connection.
    case missing
}

// BatchMachine: the steps of a batch.
//
// Pure: it knows units, not requests. Consecutive writes are one step, so that they can share a transaction; the
// runner reports how each of these units ended. A unit that was not tried is not reported, and is returned again or
// skipped, depending on the other units. The order is
//
//     next() -> { ended(_:_:)+ next() }* -> .finish

/// The state machine of a batch, which returns the next step and the units to skip.
package struct BatchMachine: Sendable {
    package enum Action: Hashable, Sendable {
        /// Try these writes in order; at least the first of them gets a result.
        case write([Int])
        /// Execute this unit by itself.
        case ask(Int)
        case finish
    }

    /// The end of a unit.
    package enum End: Hashable, Sendable {
        case succeeded
        case failed
        /// Skipped, because a unit that it depends on did not succeed.
        case dependencyFailed
        /// Skipped, because an earlier unit failed.
        case notProcessed
    }

    private let units: [BatchUnit]
    private let continuesOnError: Bool
    private var hasStopped = false
    /// The first unit that has not ended; all units before it have.
    private var first = 0
    /// How each unit ended; nil for a unit that has not ended.
    package private(set) var ends: [End?]

    package init(_ units: [BatchUnit], continuesOnError: Bool) {
        self.units = units
        self.continuesOnError = continuesOnError
        ends = Array(repeating: nil, count: units.count)
    }

    /// Returns the next step, after the last one was reported.
    package mutating func next() -> Action {
        while first < ends.count, ends[first] != nil { first += 1 }
        var writes: [Int] = []
        for unit in first..<units.count where ends[unit] == nil {
            if hasStopped {
                ends[unit] = .notProcessed
            } else if lacksDependency(unit) {
                ends[unit] = .dependencyFailed
            } else if units[unit].kind == .write {
                writes.append(unit)
            } else if writes.isEmpty {
                return .ask(unit)
            } else {
                break
            }
        }
        return writes.isEmpty ? .finish : .write(writes)
    }

    /// Whether a unit that this one depends on ended without success.
    package func lacksDependency(_ unit: Int) -> Bool {
        units[unit].dependsOn.contains { ends[$0] != nil && ends[$0] != .succeeded }
    }

    /// Records how a unit that was tried has ended.
    package mutating func ended(_ unit: Int, _ end: End) {
        precondition(ends[unit] == nil, "a unit ends once")
        ends[unit] = end
        if end != .succeeded && !continuesOnError { hasStopped = true }
    }
}

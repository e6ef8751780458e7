// VerifyMachine: decides which ranges of ids a verification compares.
//
// Pure. The order of calls:
//
//     start() -> { answered(_:local:) | fetched() }* -> .finish
//
// The server hashes a range and up to sixteen parts of it. The machine requests each part that
// differs, until a part has so few rows that they are fetched.

/// A range of ids after `after` and up to `upTo`; nil means that there is no bound.
package struct IDRange: Sendable, Hashable {
    package var after: String?
    package var upTo: String?

    package init(after: String? = nil, upTo: String? = nil) {
        self.after = after
        self.upTo = upTo
    }
}

/// The number of rows in a range, and their hash.
package struct RangeDigest: Sendable, Hashable {
    package var range: IDRange
    package var count: Int
    package var digest: String

    package init(range: IDRange, count: Int, digest: String) {
        self.range = range
        self.count = count
        self.digest = digest
    }
}

/// The state machine of a verification, which divides ranges of ids to compare the device with the
/// server.
package struct VerifyMachine: Sendable {
    package enum Failure: Error, Sendable, Hashable {
        /// The ranges in the server's responses do not become smaller.
        case tooManyRequests
    }

    package enum Action: Sendable, Hashable {
        /// Ask the server for the digests of a range.
        case ask(IDRange)
        /// Compare the rows of a range one by one.
        case fetch(IDRange)
        case finish(Failure?)
    }

    private var toAsk: [IDRange] = []
    private var toFetch: [IDRange] = []
    private var current = IDRange()
    private var requestsLeft: Int
    private let fetchRowsMax: Int

    package init(fetchRowsMax: Int = 250, requestsMax: Int = 10_000) {
        self.fetchRowsMax = fetchRowsMax
        requestsLeft = requestsMax
    }

    package mutating func start() -> Action {
        toAsk = [IDRange()]
        return next()
    }

    /// Handles the digests of the parts of a range, as the server and the device have computed
    /// them.
    package mutating func answered(_ server: [RangeDigest], local: [RangeDigest]) -> Action {
        for (theirs, ours) in zip(server, local) {
            guard theirs.count != ours.count || theirs.digest != ours.digest else { continue }
            let isSmall = max(theirs.count, ours.count) <= fetchRowsMax
            // If the server did not divide the range, it would be requested forever.
            if isSmall || theirs.range == current || server.count < 2 {
                toFetch.append(theirs.range)
            } else {
                toAsk.append(theirs.range)
            }
        }
        return next()
    }

    package mutating func fetched() -> Action { next() }

    private mutating func next() -> Action {
        guard !toAsk.isEmpty || !toFetch.isEmpty else { return .finish(nil) }
        guard requestsLeft > 0 else { return .finish(.tooManyRequests) }
        requestsLeft -= 1
        if let range = toAsk.popLast() {
            current = range
            return .ask(range)
        }
        return .fetch(toFetch.removeLast())
    }
}

// PullCursor: how far the pulls of a query id have come, and what that is true for; QueryHold: which
// rows of the device they hold.
//
// Both are kept in MS_TableConfig, a row for each part, in the transaction of the page that moved it.

/// How far the pulls of a query id have come.
///
/// It means something only for the filter, the endpoint and the epoch that it was made with: at
/// another server, or after the restore of a backup, changes before it may never have been seen.
package struct PullCursor: Sendable, Hashable {
    /// What the next request asks for.
    package enum Position: Sendable, Hashable {
        /// Everything.
        case start
        /// Rows from this `updatedAt` on, as server text.
        case time(String)
        /// What is behind this link: more of the list, or what changed since.
        case link(String)
    }

    package var position: Position
    /// What the server called the state of its database; nil for a server that does not tell.
    package var epoch: String?
    /// The query, as it is sent.
    package var fingerprint: String
    /// The server and the path before `/tables`, normalised.
    package var endpoint: String

    /// What a row of the table holds, by its `keyType`.
    ///
    /// The numbers between and behind them are those of the constants below.
    package enum Part: Int, Sendable, CaseIterable {
        case time = 0
        case fingerprint = 1
        case endpoint = 4
        case epoch = 5
        case link = 7
    }

    /// The `keyType` of the time of a table's last pull, which is for display.
    package static let lastPullType = 3

    /// The `keyType` of the size of page that the link to an endpoint takes.
    package static let pageRowsType = 6

    /// The `keyType` of the generation of server at an endpoint, which belongs to no table.
    package static let generationType = 12

    /// The `keyType` of the epoch that the rows of a table are of at an endpoint.
    package static let tableEpochType = 13

    /// The `keyType` of the flag that rows of a former epoch may be there.
    package static let formerRowsType = 14

    /// The `keyType` of the latest commit of a table that the device knows.
    package static let knownUntilType = 15

    /// The `keyType` of what tells the file of a store from a copy of it, which belongs to no table.
    package static let fileIdentityType = 16

    /// The `keyType` of the account that sent the rows of a table before the table was pulled.
    package static let senderType = 17

    package init(position: Position, epoch: String?, fingerprint: String, endpoint: String) {
        self.position = position
        self.epoch = epoch
        self.fingerprint = fingerprint
        self.endpoint = endpoint
    }

    package var parts: [(Part, String?)] {
        var (time, link): (String?, String?)
        switch position {
        case .start: break
        case .time(let text): time = text
        case .link(let text): link = text
        }
        return [
            (.time, time), (.link, link), (.fingerprint, fingerprint), (.endpoint, endpoint),
            (.epoch, epoch),
        ]
    }
}

/// Which bit of the rows' masks belongs to a query.
///
/// A query that reads everything anew takes another bit: a row that it does not meet keeps only the
/// bits of before, which are let go of when the reading is whole. So a reading may be cut anywhere.
package struct QueryHold: Sendable, Hashable {
    package var number: Int
    /// While everything is read anew: the bits of former readings; 0 for a first one.
    package var formerBits: Int64?

    package var bit: Int64 { 1 << Int64(number) }
    package var isReading: Bool { formerBits != nil }

    package init(number: Int, formerBits: Int64?) {
        self.number = number
        self.formerBits = formerBits
    }

    /// The number of all queries that have no id.
    package static let withoutID = 0

    /// The number that queries share when all others are taken; what it holds stays until a purge.
    package static let shared = 61

    /// What a query holds that reads everything anew.
    ///
    /// - Parameters:
    ///   - former: What it held before.
    ///   - taken: The bits that are in use.
    /// - Returns: A free number, and what is let go of when the reading is whole.
    package static func reading(after former: QueryHold?, taken: Int64) -> QueryHold {
        var bits = former?.formerBits ?? 0
        if let former, former.number != shared { bits |= former.bit }
        let free = (1..<shared).first { taken & (1 << Int64($0)) == 0 }
        return QueryHold(number: free ?? shared, formerBits: bits)
    }

    /// The `keyType` of a query's number, of the former bits, and of a table's bits in use.
    package static let numberType = 8
    package static let formerType = 9
    package static let takenType = 10

    /// The `keyType` of the mark that rows which nobody holds may be there.
    package static let unheldType = 11
}

// PullCursor: the cursor of a query id, with the facts on which its validity depends; QueryHold: the
// bit by which the rows of the query are known.
//
// Both are stored in MS_TableConfig, a row for each part, in the transaction of the page that moved it.

/// The cursor of a query id: where its next pull resumes.
///
/// It is valid only for the filter, the endpoint and the epoch that it was made with. At another
/// server, or after the restore of a backup, the device may never have seen some earlier changes.
package struct PullCursor: Sendable, Hashable {
    /// The starting point of the next request.
    package enum Position: Sendable, Hashable {
        /// Everything.
        case start
        /// Rows from this `updatedAt` on, as server text.
        case time(String)
        /// The request of this link: more of the list, or the changes since.
        case link(String)
    }

    package var position: Position
    /// The epoch of the server's database; nil if the server sends none.
    package var epoch: String?
    /// The query, as it is sent.
    package var fingerprint: String
    /// The server and the path before `/tables`, normalized.
    package var endpoint: String

    /// A part of the cursor, by the `keyType` of its row.
    ///
    /// The constants below are the other numbers in use.
    package enum Part: Int, Sendable, CaseIterable {
        case time = 0
        case fingerprint = 1
        case endpoint = 4
        case epoch = 5
        case link = 7
    }

    /// The `keyType` of the time of a table's last pull, which is for display.
    package static let lastPullType = 3

    /// The `keyType` of the page size that the link to an endpoint can carry.
    package static let pageRowsType = 6

    /// The `keyType` of the generation of server at an endpoint, which belongs to no table.
    package static let generationType = 12

    /// The `keyType` of the epoch of a table's rows at an endpoint.
    package static let tableEpochType = 13

    /// The `keyType` of the flag that rows of a former epoch may be present.
    package static let formerRowsType = 14

    /// The `keyType` of the latest commit of a table that the device knows.
    package static let knownUntilType = 15

    /// The `keyType` of the identifier that distinguishes a store's file from a copy; it belongs to no table.
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

/// The bit of a query in the membership masks of rows.
///
/// A query that is read from the beginning gets another bit. A row that it does not return keeps only
/// the former bits, which are cleared at the end of the read. The read can therefore stop anywhere.
package struct QueryHold: Sendable, Hashable {
    package var number: Int
    /// The bits of former reads while everything is read from the beginning, 0 for a first read; else nil.
    package var formerBits: Int64?

    package var bit: Int64 { 1 << Int64(number) }
    package var isReading: Bool { formerBits != nil }

    package init(number: Int, formerBits: Int64?) {
        self.number = number
        self.formerBits = formerBits
    }

    /// The number of all queries that have no id.
    package static let withoutID = 0

    /// The number that queries share if all others are taken; rows that only they hold stay until a purge.
    package static let shared = 61

    /// Returns the numbers of a query that is read from the beginning.
    ///
    /// - Parameters:
    ///   - former: Its number before.
    ///   - taken: The bits that are in use.
    /// - Returns: A free number, and the bits to clear at the end of the read.
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

    /// The `keyType` of the flag that rows without any bit may be present.
    package static let unheldType = 11
}

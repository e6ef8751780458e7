// PullCursor: the cursor of a query id, with the facts on which its validity depends; QueryHold: the
// bit by which the rows of the query are known.
//
// Both are stored in MS_TableConfig, a row for each part, in the transaction of the page that moved it.

/// The cursor of a query id: where its next pull resumes.
///
/// It is valid only for the filter, the endpoint and the epoch that it was created with. On another server, or
/// after a restore, there may be earlier changes that the device has never received.
package struct PullCursor: Sendable, Hashable {
    /// The starting point of the next request.
    package enum Position: Sendable, Hashable {
        /// The beginning: all rows are requested.
        case start
        /// Rows with this `updatedAt` or a later one, as the server wrote it.
        case time(String)
        /// The request of a next link or a delta link.
        case link(String)
    }

    package var position: Position
    /// The epoch of the server's database; nil if the server sends none.
    package var epoch: String?
    /// The query as it is sent to the server.
    package var fingerprint: String
    /// The server and the path before `/tables`, normalized.
    package var endpoint: String

    /// A part of the cursor, by the `keyType` of its row.
    ///
    /// The constants below are the other values of `keyType`.
    package enum Part: Int, Sendable, CaseIterable {
        case time = 0
        case fingerprint = 1
        case endpoint = 4
        case epoch = 5
        case link = 7
    }

    /// The `keyType` of the time of a table's last pull, which is only displayed.
    package static let lastPullType = 3

    /// The `keyType` of the page size that suits the network connection to an endpoint.
    package static let pageRowsType = 6

    /// The `keyType` of the generation of the server at an endpoint; its row belongs to no table.
    package static let generationType = 12

    /// The `keyType` of the epoch of a table's rows at an endpoint.
    package static let tableEpochType = 13

    /// The `keyType` of the flag that rows from before a restore of the server may be present.
    package static let formerRowsType = 14

    /// The `keyType` of the latest commit of a table that the device knows.
    package static let knownUntilType = 15

    /// The `keyType` of the identifier that distinguishes a store's file from a copy; its row belongs to no
    /// table.
    package static let fileIdentityType = 16

    /// The `keyType` of the only account that pushed to a table or pulled it; empty if there are several,
    /// or if rows were sent without an account.
    package static let senderType = 17

    /// The `keyType` of the epoch in the first responses to a push of a table that the device had not pulled.
    package static let firstSentEpochType = 18

    /// The `keyType` of the account that read a table last; empty if none was signed in.
    package static let readerType = 19

    /// The `keyType` of the flag that a table had rows of the server before an account was stored.
    package static let unknownSenderType = 20

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
/// A complete read of a query uses a different bit. A row that the read does not return has only the former bits, which
/// are cleared at the end. The read can therefore be interrupted at any time.
package struct QueryHold: Sendable, Hashable {
    package var number: Int
    /// The bits of former reads during a complete read, 0 for the first read; otherwise nil.
    package var formerBits: Int64?

    package var bit: Int64 { 1 << Int64(number) }
    package var isReading: Bool { formerBits != nil }
    /// Whether other queries may have the same number.
    package var isShared: Bool { number == Self.shared }

    package init(number: Int, formerBits: Int64?) {
        self.number = number
        self.formerBits = formerBits
    }

    /// The number that all queries without an id share.
    package static let withoutID = 0

    /// The number that queries share if all others are in use.
    ///
    /// Rows that only these queries contain are stored until a purge.
    package static let shared = 61

    /// Returns the numbers for a complete read of a query.
    ///
    /// - Parameters:
    ///   - former: The query's previous number.
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
    package static let rowsWithoutQueryType = 11
}

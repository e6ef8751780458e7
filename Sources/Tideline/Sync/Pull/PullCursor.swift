// PullCursor: the cursor of a query id, with the facts that its validity depends on. QueryHold: the
// bit that identifies the rows of the query.
//
// Both are stored in MS_TableConfig, with one row for each part, in the same transaction as the
// page that changes them.

/// The cursor of a query id, which says where the query's next pull resumes.
///
/// A cursor is valid only for the filter, the endpoint and the epoch that it was created with.
/// Another server, or the same server after a restore, may have earlier changes that the device has
/// never received.
package struct PullCursor: Sendable, Hashable {
    /// The starting point of the next request.
    package enum Position: Sendable, Hashable {
        /// The beginning, where all rows are requested.
        case start
        /// Rows whose `updatedAt` is this time or later, as the server wrote it.
        case time(String)
        /// The request of a next link or a delta link.
        case link(String)
    }

    package var position: Position
    /// The epoch of the server's database; nil if the server sends none.
    package var epoch: String?
    /// The query in the form in which it is sent to the server.
    package var fingerprint: String
    /// The server, and the path before `/tables`, in normalized form.
    package var endpoint: String

    /// A part of the cursor, whose raw value is the `keyType` of its row.
    ///
    /// The constants below are other values of `keyType`.
    package enum Part: Int, Sendable, CaseIterable {
        case time = 0
        case fingerprint = 1
        case endpoint = 4
        case epoch = 5
        case link = 7
    }

    /// The `keyType` of the time of a table's last pull, which is only for display.
    package static let lastPullType = 3

    /// The `keyType` of the page size that suits the network connection to an endpoint.
    package static let pageRowsType = 6

    /// The `keyType` of the generation of the server at an endpoint, whose row belongs to no table.
    package static let generationType = 12

    /// The `keyType` of the epoch of a table's rows at an endpoint.
    package static let tableEpochType = 13

    /// The `keyType` of the flag that a table may have rows from before a restore of the server.
    package static let formerRowsType = 14

    /// The `keyType` of the latest commit of a table that the device knows.
    package static let knownUntilType = 15

    /// The `keyType` of the identifier that distinguishes a store's file from a copy, whose row
    /// belongs to no table.
    package static let fileIdentityType = 16

    /// The `keyType` of the only account that pushed to a table or pulled it; the value is empty if
    /// there are several accounts, or if rows were sent without an account.
    package static let senderType = 17

    /// The `keyType` of the epoch in the first responses to pushes to a table that the device has
    /// not pulled yet.
    package static let firstSentEpochType = 18

    /// The `keyType` of the account that last read a table; the value is empty if no account was
    /// signed in.
    package static let readerType = 19

    /// The `keyType` of the flag that a table had rows of the server before an account was first
    /// stored.
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
/// Each complete read of a query uses a new bit. If the read does not return a row, the row has
/// only former bits, which are cleared at the end of the read. A read can therefore be interrupted
/// at any time.
package struct QueryHold: Sendable, Hashable {
    package var number: Int
    /// The bits of former reads, while a complete read is running (0 for the first read); otherwise
    /// nil.
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

    /// The number that queries share if all other numbers are in use.
    ///
    /// Rows that only these queries hold stay on the device until a purge.
    package static let shared = 61

    /// Returns the number and the former bits for a complete read of a query.
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

    /// The `keyType` of a query's number; the next two are for its former bits and for a table's
    /// bits in use.
    package static let numberType = 8
    package static let formerType = 9
    package static let takenType = 10

    /// The `keyType` of the flag that a table may have rows without any bit.
    package static let rowsWithoutQueryType = 11
}

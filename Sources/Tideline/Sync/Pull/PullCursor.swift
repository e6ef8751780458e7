// PullCursor: how far an incremental pull has come, and what that is true for.
//
// It is kept in MS_TableConfig, a row for each part, in the transaction of the page that moved it.

/// How far the pulls of a query id have come.
///
/// It means something only for the filter, the endpoint and the epoch that it was made with: at
/// another server, or after the restore of a backup, changes before it may never have been seen.
package struct PullCursor: Sendable, Hashable {
    /// The latest `updatedAt` that was stored, as server text; nil before the first row.
    package var time: String?
    /// What the server called the state of its database; nil for a server that does not tell.
    package var epoch: String?
    /// The query, as it is sent.
    package var fingerprint: String
    /// The server and the path before `/tables`, normalised.
    package var endpoint: String

    /// What a row of the table holds, by its `keyType`.
    ///
    /// Number 2 is the last id of the queue, 3 the time of the last pull.
    package enum Part: Int, Sendable {
        case time = 0
        case fingerprint = 1
        case endpoint = 4
        case epoch = 5
    }

    /// The `keyType` of the time of a table's last pull, which is for display.
    package static let lastPullType = 3

    /// The `keyType` of the generation of server at an endpoint, which belongs to no table.
    package static let generationType = 6

    package init(time: String?, epoch: String?, fingerprint: String, endpoint: String) {
        self.time = time
        self.epoch = epoch
        self.fingerprint = fingerprint
        self.endpoint = endpoint
    }

    package var parts: [(Part, String?)] {
        [(.time, time), (.fingerprint, fingerprint), (.endpoint, endpoint), (.epoch, epoch)]
    }
}

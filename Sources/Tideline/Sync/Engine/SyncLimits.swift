// SyncLimits: the bounds of a client, each with its reason.

/// The limits of a client.
///
/// Negative values count as zero. A batch or a page has between one row and a million rows, and a time is at
/// most a year.
///
/// ```swift
/// var limits = SyncLimits()
/// limits.requestTimeMax = .seconds(20)
/// let client = SyncClient(endpoint: url, limits: limits)
/// ```
public struct SyncLimits: Sendable, Hashable {
    /// The number of times that a push or pull tries an operation or a page.
    ///
    /// Only 408, 429, 5xx, responses that cannot be read, and pages that did not arrive completely are retried.
    public var attemptsMax = 4

    /// The number of pushes after which an operation is parked if the server fails to process it (5xx), but
    /// processes other requests.
    public var failedPushesMax = 5

    /// The delay before the second attempt; it doubles with each further one.
    public var retryDelayFirst: Duration = .milliseconds(500)

    /// The longest delay between two attempts, to which up to a quarter is added at random.
    ///
    /// If the server asks for a longer wait, the push or pull ends.
    public var retryDelayMax: Duration = .seconds(30)

    /// The longest wait that a server can ask for with `Retry-After`.
    ///
    /// A longer wait is shortened to this one. The limit applies to pushes, pulls and events.
    public var retryAfterMax: Duration = .seconds(86_400)

    /// The time limit of one request.
    public var requestTimeMax: Duration = .seconds(60)

    /// The time limit for a call of ``Authentication/token(refreshing:)``.
    ///
    /// A call that takes longer counts as a network failure and is abandoned. The limit is never longer than
    /// ``requestTimeMax``, because a token is part of a request.
    public var tokenTimeMax: Duration = .seconds(30)

    /// The time without a transaction after which a process loses its turn to push and pull to a waiting
    /// process.
    ///
    /// A process that has waited three times as long takes the turn in any case.
    public var turnTimeMax: Duration = .seconds(10)

    /// The maximum number of pulls that run at the same time; further pulls wait for their turn.
    ///
    /// Together they use up to ``storedBytesMax`` bytes of memory for pages, and one more page each.
    public var parallelPulls = 3

    /// The number of times that an operation is sent again because of a conflict, in all pushes.
    ///
    /// Without a limit, another device that writes all the time could keep the operation in conflict forever.
    public var conflictsMax = 8

    /// The number of operations in the first batch of a push; batches grow as long as they succeed.
    public var batchRowsFirst = 500

    /// The maximum number of operations in one batch.
    public var batchRowsMax = 1000

    /// The maximum number of bytes of the bodies in one batch with more than one operation.
    public var batchBytesMax = 2 << 20

    /// The maximum number of operations of one transaction of the app.
    ///
    /// They are pushed as one group. A server accepts this many requests in a batch.
    public var transactionRowsMax = 1000

    /// The maximum number of bytes that the operations of one transaction of the app take up in a request.
    ///
    /// The operations are counted as for ``transactionRowsMax``. A server rejects a larger batch; the limit
    /// of a Tideline server is its `limits.batchBytes`, with the same default. It also applies to servers
    /// without batches, so that the size of a transaction does not depend on the server.
    public var transactionBytesMax = 4 << 20

    /// The maximum number of rows that a local delete changes because they refer to the deleted row, directly or not.
    ///
    /// They are read and changed in one transaction, which blocks other writes. They are pushed as one group only
    /// if there are fewer than ``transactionRowsMax``.
    public var cascadeRowsMax = 10_000

    /// The maximum number of operations of the queue that a dry run examines.
    ///
    /// The result has all of them in memory, with the values that would be sent.
    public var dryRunRowsMax = 10_000

    /// The maximum number of bytes of the request bodies in a dry run, and one batch more.
    public var dryRunBytesMax = 16 << 20

    /// The minimum size of a batch that is compressed, for a server that accepts gzip.
    ///
    /// A smaller batch fits into one or two packets.
    public var compressedBatchBytesMin = 2 << 10

    /// The number of times that a push sends a lost batch again, each time as a smaller one.
    public var lostBatchesMax = 2

    /// The time during which no batch is sent to a server that did not accept one.
    public var batchRetryTime: Duration = .seconds(3600)

    /// The number of operations on different rows that are sent at the same time to a server without batches.
    ///
    /// With more than one, a change may arrive before an earlier change of another row.
    public var parallelOperations = 1

    /// The number of rows of the first page of a pull.
    public var pageRowsFirst = 1000

    /// The maximum number of rows of a page, if pages arrive quickly.
    ///
    /// A whole page and the next one are in memory at the same time. Concurrent pulls share this number.
    public var pageRowsMax = 4000

    /// The number of rows that a pull stores in one transaction, if pages arrive faster than they are stored.
    ///
    /// A local change waits at most for this many rows and the page that exceeds the limit. Concurrent pulls
    /// share the number.
    public var storedRowsMax = 16_000

    /// The number of bytes of responses that a pull stores in one transaction, if it stores more than one page.
    ///
    /// Concurrent pulls share the number.
    public var storedBytesMax = 4 << 20

    /// The page size below which the pages of a slow server are not reduced.
    ///
    /// If a page of that size does not arrive in time, the server counts as unreachable.
    public var pageRowsSmall = 32

    /// The time that a page should take; if one takes longer, the next one is smaller.
    public var pageTimeWanted: Duration = .seconds(4)

    /// The maximum number of pages of one pull; the pull ends with an error if there are more.
    ///
    /// Without the limit, a pull from a server whose next links form a cycle would never end.
    public var pagesMax = 1_000_000

    /// The pause of an observer after it ran its query, regardless of the number of changes in that time.
    ///
    /// After a run that read only changed rows, the pause is a thirty-second of it.
    public var observeInterval: Duration = .milliseconds(16)

    /// The time limit for returning free space to the disk after a purge that left half of the file free.
    public var compactionTimeMax: Duration = .seconds(10)

    /// The longest silence of the server's event stream before it is reopened.
    public var liveSilenceMax: Duration = .seconds(90)

    /// The number of rows of a table that are tracked one by one after the app read them with selected columns.
    public var selectedRowsMax = 20_000

    /// The maximum number of stored row states that this device's pushes have replaced.
    ///
    /// ``SyncTable/update(_:)-(Record)`` takes a record of such a state as a current one.
    public var ownStatesMax = 20_000

    /// The maximum number of bytes of a server's schema document that the client compares with its models.
    ///
    /// With 0, automatic sync does not compare; see ``SyncContext/schemaDifferences()``.
    public var schemaBytesMax = 1 << 20

    /// The default limits.
    public init() {}
}

extension Duration {
    /// The duration, between zero and a year, because timers cannot count `.seconds(.max)`.
    var clampedForTimers: Duration { min(max(self, .zero), .seconds(365 * 86_400)) }
}

extension SyncLimits {
    /// The limits in rows for batches, pages and pulls; at least one.
    package static var rowLimits: [WritableKeyPath<SyncLimits, Int>] {
        [
            \.batchRowsFirst, \.batchRowsMax, \.pageRowsFirst, \.pageRowsMax, \.parallelPulls,
        ]
    }

    /// The limits that do not count rows.
    package static var countLimits: [WritableKeyPath<SyncLimits, Int>] {
        [
            \.attemptsMax, \.failedPushesMax, \.conflictsMax, \.batchBytesMax, \.transactionRowsMax,
            \.transactionBytesMax, \.compressedBatchBytesMin, \.lostBatchesMax,
            \.parallelOperations,
            \.storedRowsMax, \.storedBytesMax, \.pageRowsSmall, \.pagesMax, \.selectedRowsMax,
            \.ownStatesMax, \.cascadeRowsMax, \.schemaBytesMax,
            \.dryRunRowsMax, \.dryRunBytesMax,
        ]
    }

    /// The limits that are times.
    package static var timeLimits: [WritableKeyPath<SyncLimits, Duration>] {
        [
            \.retryDelayFirst, \.retryDelayMax, \.retryAfterMax, \.requestTimeMax, \.tokenTimeMax,
            \.turnTimeMax, \.batchRetryTime, \.pageTimeWanted, \.observeInterval, \.liveSilenceMax,
            \.compactionTimeMax,
        ]
    }

    /// The same limits, each within the range that the client supports.
    package var clamped: SyncLimits {
        var limits = self
        for limit in Self.rowLimits {
            limits[keyPath: limit] = min(max(1, self[keyPath: limit]), Self.rowsMax)
        }
        for limit in Self.countLimits {
            limits[keyPath: limit] = min(max(0, self[keyPath: limit]), Self.countMax)
        }
        for limit in Self.timeLimits {
            limits[keyPath: limit] = self[keyPath: limit].clampedForTimers
        }
        return limits
    }

    /// The maximum number of rows of a batch or a page.
    private static let rowsMax = 1_000_000
    /// The maximum of any other limit.
    private static let countMax = 1 << 40
}

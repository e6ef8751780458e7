// SyncLimits: the limits of a client, each with its reason.

/// The limits of a client.
///
/// Negative values count as zero. The number of rows in a batch or page is between one and a
/// million, and a time is at most a year.
///
/// ```swift
/// var limits = SyncLimits()
/// limits.requestTimeMax = .seconds(20)
/// let client = SyncClient(endpoint: url, limits: limits)
/// ```
public struct SyncLimits: Sendable, Hashable {
    /// The number of times that a push tries to send an operation, or a pull tries to fetch a page.
    ///
    /// Only 408, 429, 5xx, unreadable responses and incomplete pages are retried.
    public var attemptsMax = 4

    /// The number of failed pushes after which an operation is parked.
    ///
    /// A push counts if the server fails to process the operation (5xx) but processes other
    /// requests.
    public var failedPushesMax = 5

    /// The delay before the second attempt, which doubles with each further attempt.
    public var retryDelayFirst: Duration = .milliseconds(500)

    /// The longest delay between two attempts, before random jitter of up to a quarter is added.
    ///
    /// If the server asks for a longer wait, the push or pull ends.
    public var retryDelayMax: Duration = .seconds(30)

    /// The longest wait that a server can ask for with `Retry-After`.
    ///
    /// A longer wait is shortened to this duration. The limit applies to pushes, pulls and the
    /// event stream.
    public var retryAfterMax: Duration = .seconds(86_400)

    /// The time limit of one request.
    public var requestTimeMax: Duration = .seconds(60)

    /// The time limit for a call of ``Authentication/token(refreshing:)``.
    ///
    /// If a call takes longer, the client abandons it and treats it as a network failure. The limit
    /// is never longer than ``requestTimeMax``, because getting a token is part of a request.
    public var tokenTimeMax: Duration = .seconds(30)

    /// The time without a transaction after which a process loses its turn to push and pull to
    /// another process that waits for it.
    ///
    /// A process that has waited three times as long gets the turn in any case.
    public var turnTimeMax: Duration = .seconds(10)

    /// The maximum number of pulls that run at the same time; further pulls wait for their turn.
    ///
    /// For their pages, all running pulls together use at most ``storedBytesMax`` bytes of memory,
    /// plus one page for each pull.
    public var parallelPulls = 3

    /// The number of times that an operation is resent because of a conflict, in all pushes
    /// together.
    ///
    /// Without a limit, a device that writes all the time could keep the operation in conflict
    /// forever.
    public var conflictsMax = 8

    /// The number of operations in the first batch of a push; later batches grow as long as they
    /// succeed.
    public var batchRowsFirst = 500

    /// The maximum number of operations in one batch.
    public var batchRowsMax = 1000

    /// The maximum number of bytes of the request bodies in one batch, if it has more than one
    /// operation.
    public var batchBytesMax = 2 << 20

    /// The maximum number of operations of one transaction of the app.
    ///
    /// They are pushed as one atomic group. A server accepts this many requests in a batch.
    public var transactionRowsMax = 1000

    /// The maximum number of bytes of a request that has all operations of one transaction of the
    /// app.
    ///
    /// The operations are counted as for ``transactionRowsMax``. A server rejects a larger batch; a
    /// Tideline server's limit is `limits.batchBytes`, with the same default. This limit also
    /// applies to servers without batches, so that the maximum size of a transaction does not
    /// depend on the server.
    public var transactionBytesMax = 4 << 20

    /// The maximum number of rows that a local delete changes because they refer to the deleted
    /// row, directly or through other rows.
    ///
    /// They are read and changed in one transaction, which blocks other writes. They are pushed as
    /// one atomic group only if there are fewer than ``transactionRowsMax``.
    public var cascadeRowsMax = 10_000

    /// The maximum number of queued operations that a dry run examines.
    ///
    /// The result keeps all of them in memory, with the values that would be sent.
    public var dryRunRowsMax = 10_000

    /// The maximum number of bytes of the request bodies in a dry run, plus one more batch.
    public var dryRunBytesMax = 16 << 20

    /// The minimum size in bytes of a batch that is compressed, if the server accepts gzip.
    ///
    /// A smaller batch fits into one or two network packets anyway.
    public var compressedBatchBytesMin = 2 << 10

    /// The number of times that a push resends a batch that got no response, each time as a smaller
    /// batch.
    public var lostBatchesMax = 2

    /// The time for which the client sends no batches to a server that did not accept a batch.
    public var batchRetryTime: Duration = .seconds(3600)

    /// The number of operations on different rows that are sent at the same time to a server
    /// without batches.
    ///
    /// If the limit is more than one, a change may reach the server before an earlier change of
    /// another row.
    public var parallelOperations = 1

    /// The number of rows in the first page of a pull.
    public var pageRowsFirst = 1000

    /// The maximum number of rows in a page, which is reached only if pages arrive quickly.
    ///
    /// Up to two whole pages are in memory at the same time. Concurrent pulls share this number.
    public var pageRowsMax = 4000

    /// The number of rows that a pull stores in one transaction, if pages arrive faster than they
    /// are stored.
    ///
    /// A local change waits for at most this many rows, plus the page that exceeds the limit.
    /// Concurrent pulls share this number.
    public var storedRowsMax = 16_000

    /// The number of response bytes that a pull stores in one transaction, if it stores more than
    /// one page.
    ///
    /// Concurrent pulls share this number.
    public var storedBytesMax = 4 << 20

    /// The page size at which the client stops reducing the pages of a slow server.
    ///
    /// If a page of this size does not arrive in time, the client treats the server as unreachable.
    public var pageRowsSmall = 32

    /// The time that a page should take; if a page takes longer, the next one is smaller.
    public var pageTimeWanted: Duration = .seconds(4)

    /// The maximum number of pages of one pull; the pull ends with an error if there are more.
    ///
    /// Without the limit, a pull from a server whose next links form a cycle would never end.
    public var pagesMax = 1_000_000

    /// The pause of an observer after each run of its query, regardless of how many changes arrive
    /// in that time.
    ///
    /// If the run read only changed rows, the pause is one thirty-second of this duration.
    public var observeInterval: Duration = .milliseconds(16)

    /// The time limit for returning free space to the disk after a purge that left half of the file
    /// empty.
    public var compactionTimeMax: Duration = .seconds(10)

    /// The longest time without data on the server's event stream before the client reopens it.
    public var liveSilenceMax: Duration = .seconds(90)

    /// The maximum number of rows per table for which the client remembers the columns that the app
    /// did not read.
    ///
    /// A row counts if the app read only some of its columns. If there are more rows, the client
    /// remembers these columns for the whole table.
    public var selectedRowsMax = 20_000

    /// The maximum number of row states that the store keeps after this device's pushes have
    /// replaced them.
    ///
    /// ``SyncTable/update(_:)-(Record)`` treats a record of such a state as current.
    public var ownStatesMax = 20_000

    /// The maximum number of bytes of a server's schema document that the client compares with its
    /// models.
    ///
    /// If the limit is 0, automatic sync does not compare; see ``SyncContext/schemaDifferences()``.
    public var schemaBytesMax = 1 << 20

    /// The default limits.
    public init() {}
}

extension Duration {
    /// The duration, limited to between zero and a year, because timers cannot count
    /// `.seconds(.max)`.
    var clampedForTimers: Duration { min(max(self, .zero), .seconds(365 * 86_400)) }
}

extension SyncLimits {
    /// The limits for batches, pages and pulls that have to be at least one.
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

    /// The same limits, each adjusted to the range that the client supports.
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

// SyncLimits: the bounds of a client, each with its reason.

/// The limits of a client.
///
/// Values below zero count as zero. A batch or a page has at least one row and at most a million, and a
/// time is at most a year.
///
/// ```swift
/// var limits = SyncLimits()
/// limits.requestTimeMax = .seconds(20)
/// let client = SyncClient(endpoint: url, limits: limits)
/// ```
public struct SyncLimits: Sendable, Hashable {
    /// How often an operation or a page is tried in one push or pull.
    ///
    /// Only 408, 429, 5xx, responses that cannot be read, and pages that did not arrive whole are
    /// retried.
    public var attemptsMax = 4

    /// After how many pushes an operation is parked that the server fails to process (5xx), although it
    /// processes other requests.
    public var failedPushesMax = 5

    /// The wait before the second attempt; it doubles from then on.
    public var retryDelayFirst: Duration = .milliseconds(500)

    /// The longest wait between two attempts, to which up to a quarter is added at random; if the server
    /// asks for a longer wait, the push or pull ends.
    public var retryDelayMax: Duration = .seconds(30)

    /// The longest wait that a server can ask for with `Retry-After`, in push, pull and events; a longer one is
    /// cut to this, and then requests are sent again.
    public var retryAfterMax: Duration = .seconds(86_400)

    /// How long one request may take.
    public var requestTimeMax: Duration = .seconds(60)

    /// How long a call of ``Authentication/token(refreshing:)`` may take.
    ///
    /// A call that takes longer counts as a network failure and is abandoned. It never has more time than
    /// ``requestTimeMax``, as a token is part of a request.
    public var tokenTimeMax: Duration = .seconds(30)

    /// After how long without a transaction in the store a process on the same store loses its turn to push
    /// and pull to another process that waits.
    ///
    /// A process that waits three times as long takes the turn in any case.
    public var turnTimeMax: Duration = .seconds(10)

    /// How many pulls run at the same time; further pulls wait for their turn.
    ///
    /// Together they have up to ``storedBytesMax`` bytes of pages in memory, and one more page each.
    public var parallelPulls = 3

    /// How often the same operation is sent again because of a conflict, over all pushes.
    ///
    /// Without a limit, another device that writes all the time could keep the operation in conflict forever.
    public var conflictsMax = 8

    /// How many operations the first batch of a push has; batches grow as long as they succeed.
    public var batchRowsFirst = 500

    /// The most operations in one batch.
    public var batchRowsMax = 1000

    /// The most bytes of the bodies in one batch with more than one operation.
    public var batchBytesMax = 2 << 20

    /// The most operations of one transaction of the app.
    ///
    /// They are pushed as one group. A server accepts this many requests in a batch.
    public var transactionRowsMax = 1000

    /// The most bytes that the operations of one transaction of the app have in the request that sends
    /// them.
    ///
    /// Counted like ``transactionRowsMax``. A server rejects a larger batch; the limit of a Tideline
    /// server is its `limits.batchBytes`, with the same default. It applies with servers without batches
    /// too, so that the size of a transaction does not depend on the server.
    public var transactionBytesMax = 4 << 20

    /// The least bytes of a batch that is sent as gzip, to a server that said it accepts gzip.
    ///
    /// A smaller batch fits into one or two packets.
    public var compressedBatchBytesMin = 2 << 10

    /// How often a push makes a batch smaller that was lost on the way, and sends it again.
    public var lostBatchesMax = 2

    /// How long no batch is sent to a server that did not accept one.
    public var batchRetryTime: Duration = .seconds(3600)

    /// How many operations of different rows are sent at the same time to a server without batches.
    ///
    /// With more than one, a change may arrive before an earlier change of another row.
    public var parallelOperations = 1

    /// How many rows the first page of a pull has.
    public var pageRowsFirst = 1000

    /// The most rows of a page, once pages arrive quickly.
    ///
    /// Memory holds a whole page, and the next one at the same time. Pulls that run at the same time share
    /// this number.
    public var pageRowsMax = 4000

    /// How many rows of a pull are stored in one transaction, if pages arrive faster than they are stored.
    ///
    /// A local change waits for no more than these and the page that exceeds them. Pulls that run at the same time
    /// share them.
    public var storedRowsMax = 16_000

    /// How many bytes of responses a pull stores in one transaction, if they are more than one page.
    ///
    /// Pulls that run at the same time share them.
    public var storedBytesMax = 4 << 20

    /// The page size below which a slow server's pages are not made smaller.
    ///
    /// If a page of so few rows does not arrive in time, the server counts as silent.
    public var pageRowsSmall = 32

    /// The time that a page should take; if one takes longer, the next one is smaller.
    public var pageTimeWanted: Duration = .seconds(4)

    /// The most pages of one pull; the pull ends with an error if there are more.
    ///
    /// Without it, a server whose next links form a circle would never end the pull.
    public var pagesMax = 1_000_000

    /// The pause of an observer after it ran its query, however many changes are made in that time.
    public var observeInterval: Duration = .milliseconds(16)

    /// How long a purge that left half of the file free gives space back to the disk before it returns.
    public var compactionTimeMax: Duration = .seconds(10)

    /// How long the server's events may be silent before they are reopened.
    public var liveSilenceMax: Duration = .seconds(90)

    /// How many rows of a table that the app read with selected columns are remembered one by one.
    public var selectedRowsMax = 20_000

    /// How many states of rows are stored that this device's pushes have replaced.
    ///
    /// ``SyncTable/update(_:)-(Record)`` takes a record of such a state as a current one.
    public var ownStatesMax = 20_000

    /// The default limits.
    public init() {}
}

extension Duration {
    /// At least zero and at most a year: timers cannot count `.seconds(.max)`.
    var clampedForTimers: Duration { min(max(self, .zero), .seconds(365 * 86_400)) }
}

extension SyncLimits {
    /// The limits in rows, of batches, pages and pulls; at least one.
    package static var rowLimits: [WritableKeyPath<SyncLimits, Int>] {
        [
            \.batchRowsFirst, \.batchRowsMax, \.pageRowsFirst, \.pageRowsMax, \.parallelPulls,
        ]
    }

    /// The limits that count something else than rows.
    package static var countLimits: [WritableKeyPath<SyncLimits, Int>] {
        [
            \.attemptsMax, \.failedPushesMax, \.conflictsMax, \.batchBytesMax, \.transactionRowsMax,
            \.transactionBytesMax, \.compressedBatchBytesMin, \.lostBatchesMax,
            \.parallelOperations,
            \.storedRowsMax, \.storedBytesMax, \.pageRowsSmall, \.pagesMax, \.selectedRowsMax,
            \.ownStatesMax,
        ]
    }

    /// The times.
    package static var timeLimits: [WritableKeyPath<SyncLimits, Duration>] {
        [
            \.retryDelayFirst, \.retryDelayMax, \.retryAfterMax, \.requestTimeMax, \.tokenTimeMax,
            \.turnTimeMax, \.batchRetryTime, \.pageTimeWanted, \.observeInterval, \.liveSilenceMax,
            \.compactionTimeMax,
        ]
    }

    /// The same limits, each in the range that the client can count.
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

    /// The most rows of a batch or a page.
    private static let rowsMax = 1_000_000
    /// The most of anything else.
    private static let countMax = 1 << 40
}

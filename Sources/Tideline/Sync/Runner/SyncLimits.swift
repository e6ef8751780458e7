// SyncLimits: the bounds of a client, each with its reason.

/// The bounds of a client.
///
/// A client takes what is below zero as zero, rows of a batch or a page as at least one and at most a
/// million, and times as a year at most.
///
/// ```swift
/// var limits = SyncLimits()
/// limits.requestTimeMax = .seconds(20)
/// let client = SyncClient(endpoint: url, limits: limits)
/// ```
public struct SyncLimits: Sendable, Hashable {
    /// How often an operation or a page is tried in one push or pull.
    ///
    /// Only 408, 429, 5xx, answers that cannot be read, and pages that did not arrive whole are
    /// tried again.
    public var attemptsMax = 4

    /// After how many pushes an operation is parked that the server fails to process (5xx), although it
    /// does other work meanwhile.
    public var failedPushesMax = 5

    /// The wait before the second attempt; it doubles from then on.
    public var retryDelayFirst: Duration = .milliseconds(500)

    /// The longest wait between two attempts, to which up to a quarter is added by chance; where
    /// the server asks for more, the push or pull ends.
    public var retryDelayMax: Duration = .seconds(30)

    /// The longest wait that a server can ask for with `Retry-After`, in push, pull and events; a longer one is
    /// cut, and the server asked again.
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
    /// Together they have up to ``storedBytesMax`` bytes of pages in memory, twice, and one more page each.
    public var parallelPulls = 3

    /// How often a conflict of the same operation is settled by sending again, over all pushes.
    ///
    /// Another device that writes without a pause could keep it busy for ever.
    public var conflictsMax = 8

    /// How many operations go out in the first batch of a push; batches that come through grow.
    public var batchRowsFirst = 500

    /// How many operations go out in one batch at most.
    public var batchRowsMax = 1000

    /// How many bytes the bodies of one batch have at most, if there is more than one.
    public var batchBytesMax = 2 << 20

    /// How many operations one transaction of the app makes at most.
    ///
    /// They are pushed as one. A server takes so many requests in a batch.
    public var transactionRowsMax = 1000

    /// How many bytes the operations of one transaction of the app have at most, as the request that
    /// sends them.
    ///
    /// Counted as those of ``transactionRowsMax`` are. A server refuses a larger batch; the limit of a
    /// Tideline server is its `limits.batchBytes`, with the same default. It holds for servers without
    /// batches, too: what a transaction may be does not depend on the server.
    public var transactionBytesMax = 4 << 20

    /// How many bytes a batch has at least that is sent as gzip, to a server that said it takes that.
    ///
    /// A smaller one fits a packet or two.
    public var compressedBatchBytesMin = 2 << 10

    /// How often a push makes a batch smaller that was lost on the way, and sends it again.
    public var lostBatchesMax = 2

    /// How long a server that took no batch is not asked again to take one.
    public var batchRetryTime: Duration = .seconds(3600)

    /// How many operations of different rows are sent at a time to a server that takes no batches.
    ///
    /// With more than one, a change may arrive before one that was made earlier to another row.
    public var parallelOperations = 1

    /// How many rows a pull asks for first.
    public var pageRowsFirst = 1000

    /// How many rows a pull asks for at most, once pages come quickly.
    ///
    /// A page is in memory whole, and the one behind it meanwhile.
    public var pageRowsMax = 4000

    /// How many rows of a pull are stored in one transaction, where pages come faster than that.
    ///
    /// A local change waits for no more than these and the page that passes them. Pulls that run at the same time
    /// share them.
    public var storedRowsMax = 16_000

    /// How many bytes of answers a pull stores in one transaction, if they are more than one page.
    ///
    /// Pulls that run at the same time share them.
    public var storedBytesMax = 4 << 20

    /// The page that is not made smaller when the server is too slow.
    ///
    /// A page of so few rows that does not come in time is that of a silent server.
    public var pageRowsSmall = 32

    /// How long a page may take; one that takes longer makes the next one smaller.
    public var pageTimeWanted: Duration = .seconds(4)

    /// How many pages one pull takes before it is ended as faulty.
    ///
    /// A server whose next links lead in a circle would never end it.
    public var pagesMax = 1_000_000

    /// How long an observer rests after it ran its query, however many changes come meanwhile.
    public var observeInterval: Duration = .milliseconds(16)

    /// How long a purge that left half of the file free gives space back to the disk before it returns.
    public var compactionTimeMax: Duration = .seconds(10)

    /// How long the server's events may be silent before they are opened anew.
    public var liveSilenceMax: Duration = .seconds(90)

    /// How many rows each of the two generations of seen rows has.
    ///
    /// They are what ``SyncTable/update(_:)-(Record)`` knows of the copies that an app may hold.
    public var handedOutRowsMax = 20_000

    /// Of how many further seen rows it is known in which version they were first handed out.
    public var handedOutVersionsMax = 250_000

    /// The default limits.
    public init() {}
}

extension Duration {
    /// At least nothing and at most a year: timers cannot count `.seconds(.max)`.
    var clampedForTimers: Duration { min(max(self, .zero), .seconds(365 * 86_400)) }
}

extension SyncLimits {
    /// The same limits, each within what the client can count.
    var clamped: SyncLimits {
        var limits = self
        for limit in [
            \SyncLimits.batchRowsFirst, \.batchRowsMax, \.pageRowsFirst, \.pageRowsMax,
            \.parallelPulls,
        ] {
            limits[keyPath: limit] = min(max(1, self[keyPath: limit]), Self.rowsMax)
        }
        for limit in [
            \SyncLimits.attemptsMax, \.failedPushesMax, \.conflictsMax, \.batchBytesMax,
            \.transactionRowsMax,
            \.transactionBytesMax, \.compressedBatchBytesMin, \.lostBatchesMax,
            \.parallelOperations,
            \.storedRowsMax, \.storedBytesMax, \.pageRowsSmall, \.pagesMax, \.handedOutRowsMax,
            \.handedOutVersionsMax,
        ] {
            limits[keyPath: limit] = min(max(0, self[keyPath: limit]), Self.countMax)
        }
        for limit in [
            \SyncLimits.retryDelayFirst, \.retryDelayMax, \.retryAfterMax, \.requestTimeMax,
            \.tokenTimeMax,
            \.turnTimeMax, \.batchRetryTime,
            \.pageTimeWanted, \.observeInterval, \.liveSilenceMax, \.compactionTimeMax,
        ] {
            limits[keyPath: limit] = self[keyPath: limit].clampedForTimers
        }
        return limits
    }

    /// The most rows of a batch or a page.
    private static let rowsMax = 1_000_000
    /// The most of anything else.
    private static let countMax = 1 << 40
}

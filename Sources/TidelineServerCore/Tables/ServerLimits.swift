// ServerLimits, ServerEnvironment: the limits of a server, and its clocks and ids.

import Dispatch
import Foundation
import Synchronization
import TidelineCore

/// The limits of requests on tables; each has a configuration key of the same name.
public struct ServerLimits: Hashable, Sendable {
    /// The maximum size of a page's rows, in bytes; a page that would be larger ends early, with a next link.
    public var pageBytes = 4 << 20
    /// The maximum size of a row's body, in bytes; larger bodies are rejected with 413.
    public var rowBytes = 1 << 20
    /// The time limit for one read of the database.
    ///
    /// A read that takes longer is rejected with 400, or with 503 if it waited for most of the time.
    public var queryTime: Duration = .seconds(10)
    /// The size of the write-ahead log at which long reads are cancelled and queued again after the waiting
    /// reads.
    ///
    /// At half of this size, long reads wait before they begin.
    public var logBytes = 48 << 20
    /// The maximum number of writes that wait for the database; further writes are rejected with 503.
    public var writeQueue = 10_000
    /// The number of versions of each row that are stored in tables whose conflicts are merged.
    ///
    /// A write with an older base version is a conflict.
    public var mergeBases = 32
    /// The maximum number of operations of a JSON Patch; larger patches are rejected with 400.
    public var patchSteps = 1000
    /// The maximum number of requests of a batch; larger batches are rejected with 413.
    public var batchRequests = 1000
    /// The maximum size of a batch, in bytes; larger batches are rejected with 413, and so are bodies above the
    /// general limit.
    public var batchBytes = 4 << 20
    /// The size of a batch's answers, in bytes, above which its further reads and writes are rejected.
    public var batchAnswerBytes = 16 << 20

    /// The number of days for which the ledger keeps writes with a `Repeatability-Request-ID`.
    public var ledgerDays = 30
    /// The maximum size of the ledger, in bytes.
    ///
    /// The oldest entries of the caller with the most bytes are removed first.
    public var ledgerBytes = 1 << 30

    /// The number of days for which permanent deletes, and rows that became invisible to a caller, are
    /// recorded.
    ///
    /// A table's `tombstoneDays` takes precedence.
    ///
    /// A device that asks for changes after a longer time reads everything again.
    public var changeDays = 90
    /// The maximum number of rows, and of change log entries, that are read for a page of changes.
    ///
    /// Rows that the caller may not see are included. At the limit, the page ends early, with a next link.
    public var changeScan = 10_000

    /// The number of days for which audit entries are kept, for tables with `audit`.
    public var auditDays = 365

    /// The average number of requests per second that each caller may send; 0 for no limit.
    ///
    /// Further requests are rejected with 429.
    ///
    /// A caller is a user or, without a token, an address. Ten seconds' worth may arrive at once.
    public var callerRequests = 0
    /// The number of writes per second that each caller may send, including those in batches; 0 for no limit.
    public var callerWrites = 0
    /// The number of bytes per second that each caller may send or have stored; 0 for no limit.
    public var callerBytes = 0
    /// The number of queries of a caller that may run at the same time; 0 for no limit.
    ///
    /// Queries are lists, rows, digests, batches and GET requests of endpoints. Further ones are rejected with
    /// 429.
    public var callerQueries = 0

    /// The number of rows that the deletes of one transaction may delete or change in tables that refer to the
    /// deleted rows.
    ///
    /// If there are more, later transactions change them, as many in each, so that other writes do not wait.
    public var cascadeRows = 1000

    /// The number of rows below a deleted one that are checked for a reference with the rule `restrict`, if there are
    /// more than ``cascadeRows``.
    ///
    /// The check is one query in the only writer. If there are more rows, the delete is rejected with 409; rows below
    /// it have to be deleted first.
    public var restrictRows = 1_000_000

    /// The maximum number of tables in a database with a dynamic schema; a write that needs another one is
    /// rejected with 403.
    public var tables = 1000
    /// The maximum number of columns that a dynamic schema adds to a table; a write that needs more is rejected
    /// with 403.
    public var columns = 500

    /// Creates limits with their defaults.
    public init() {}
}

/// The clocks and the id generator, which tests with a seed control.
package struct ServerEnvironment: Sendable {
    /// The wall clock, in microseconds since 1970.
    package var now: @Sendable () -> Int64
    /// A monotonic clock, in microseconds since an arbitrary moment.
    package var steady: @Sendable () -> Int64
    /// Returns a new id, a lower-case UUID.
    package var makeID: @Sendable () -> String

    package init(
        now: @escaping @Sendable () -> Int64,
        steady: @escaping @Sendable () -> Int64 = ServerEnvironment.steadyClock,
        makeID: @escaping @Sendable () -> String
    ) {
        self.now = now
        self.steady = steady
        self.makeID = makeID
    }

    package static let live = ServerEnvironment(
        now: wallClock,
        makeID: {
            TimeOrderedID.make(
                milliseconds: wallClock() / 1000,
                random: randomWords.withLock { $0.pair() }
            )
        }
    )

    /// Returns the time since the machine started, in microseconds.
    package static func steadyClock() -> Int64 {
        Int64(clamping: DispatchTime.now().uptimeNanoseconds / 1000)
    }

    private static let randomWords = Mutex(RandomWords())

    private static func wallClock() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}

// ServerLimits, ServerEnvironment: the limits of a server, and its clocks and ids.

import Dispatch
import Foundation
import TidelineCore

/// The limits of requests on tables; each has a configuration key of the same name.
public struct ServerLimits: Hashable, Sendable {
    /// The most bytes of a page's rows; a page that would be larger ends early, with a next link.
    public var pageBytes = 4 << 20
    /// The most bytes of a row's body; larger bodies are rejected with 413.
    public var rowBytes = 1 << 20
    /// How long one read of the database may run.
    ///
    /// A longer one is rejected with 400, or with 503 if it waited for most of the time.
    public var queryTime: Duration = .seconds(10)
    /// The size of the write-ahead log at which running long reads are cancelled and queued after the waiting reads.
    ///
    /// At half of this size, long reads wait before they begin.
    public var logBytes = 48 << 20
    /// The most writes that wait for the database; further ones are rejected with 503.
    public var writeQueue = 10_000
    /// How many versions of each row are kept in tables whose conflicts are merged.
    ///
    /// A write with an older base version is a conflict.
    public var mergeBases = 32
    /// The most operations of a JSON Patch; larger patches are rejected with 400.
    public var patchSteps = 1000
    /// The most requests of a batch; larger batches are rejected with 413.
    public var batchRequests = 1000
    /// The most bytes of a batch; larger batches are rejected with 413, as are bodies over the limit of any body.
    public var batchBytes = 4 << 20
    /// The size of a batch's answers, in bytes, above which its further reads and writes are rejected.
    public var batchAnswerBytes = 16 << 20

    /// How many days the ledger remembers writes that came with a `Repeatability-Request-ID`.
    public var ledgerDays = 30
    /// The most bytes of the ledger.
    ///
    /// The oldest entries of the caller with the most bytes are dropped first.
    public var ledgerBytes = 1 << 30

    /// The number of days for which permanent deletes, and rows that left a caller's view, are remembered;
    /// a table's `tombstoneDays` takes precedence.
    ///
    /// A device that asks for changes after a longer time starts over.
    public var changeDays = 90
    /// How many rows, and how many entries of a change log, a page of changes reads.
    ///
    /// If the caller may not see more rows than these, the page ends early, with a next link.
    public var changeScan = 10_000

    /// How many days audit entries are kept, for tables with `audit`.
    public var auditDays = 365

    /// How many requests per second each caller may send on average; further ones are rejected with 429.
    ///
    /// 0 is unlimited.
    ///
    /// A caller is a user or, without a token, an address. Ten seconds' worth may arrive at once.
    public var callerRequests = 0
    /// How many writes per second each caller may send, including those in batches; 0 is unlimited.
    public var callerWrites = 0
    /// How many bytes of bodies per second each caller may send; 0 is unlimited.
    public var callerBytes = 0
    /// How many queries of a caller may run at a time: lists, rows, digests, batches and GET requests of endpoints.
    ///
    /// Further ones are rejected with 429; 0 is unlimited.
    public var callerQueries = 0

    /// The most tables of a database with a dynamic schema; a write that needs another one is rejected with 403.
    public var tables = 1000
    /// The most columns that a dynamic schema adds to a table; a write that needs more is rejected with 403.
    public var columns = 500

    /// Creates limits with their defaults.
    public init() {}
}

/// The clocks and the id generator, which seeded tests control.
package struct ServerEnvironment: Sendable {
    /// Microseconds since 1970.
    package var now: @Sendable () -> Int64
    /// Microseconds of a clock that is never set; its start is arbitrary.
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
            TimeOrderedID.make(milliseconds: wallClock() / 1000, random: randomWords.pair())
        }
    )

    /// Returns the time since the machine started, in microseconds.
    package static func steadyClock() -> Int64 {
        Int64(clamping: DispatchTime.now().uptimeNanoseconds / 1000)
    }

    private static let randomWords = RandomWords()

    private static func wallClock() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}

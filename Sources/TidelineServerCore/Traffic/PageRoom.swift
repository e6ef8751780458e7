// PageRoom: the memory reservation for a page while it is built.
//
// A query may work long and find nothing. So a page reserves memory only when it has rows, and queries
// without rows yet do not delay others. If there is too little memory at that moment, the page is
// discarded, waits without a reader, and is then built from the start.

import Synchronization

package final class PageRoom: Sendable {
    /// The error for too little memory: the page is built from the start when there is enough.
    package struct Lacking: Error {}

    /// The bytes that a page may have without asking: with its end and its links it is a small answer.
    private static let freeBytes = AnswerMemory.smallBytes / 2

    private struct State {
        var isTaken = false
        /// Whether the memory was waited for: then it is kept when the page is rebuilt.
        var isWaitedFor = false
        var wanted = 0
    }

    /// The reservation of the answer that the page is, or is part of.
    private let room: AnswerRoom
    private let likelyBytes: Int
    private let bytesMax: Int
    private let state = Mutex(State())

    /// Creates a reservation for a page that likely has so many bytes.
    init(in room: AnswerRoom, likelyBytes: Int, bytesMax: Int) {
        self.room = room
        self.likelyBytes = min(likelyBytes, bytesMax)
        self.bytesMax = bytesMax
    }

    /// Begins the page, for the first time or after a restart.
    ///
    /// The reservation of an earlier try is returned, because a query that restarts may wait for its turn.
    ///
    /// - Returns: How many bytes the page may have before it asks for more.
    package func begin() -> Int {
        state.withLock { state in
            if state.isWaitedFor { return state.wanted }
            state.isTaken = false
            room.giveBackRest()
            return Self.freeBytes
        }
    }

    /// Reserves memory for a page that has so many bytes already.
    ///
    /// - Returns: How many bytes the page may have before it asks again.
    /// - Throws: ``Lacking`` if there is too little memory.
    package func more(for bytes: Int) throws -> Int {
        try state.withLock { state in
            if state.isTaken || state.isWaitedFor {
                // It is larger than was likely; few pages are made at a time.
                room.count(beside: max(bytesMax, bytes))
                return .max
            }
            state.wanted = max(likelyBytes, bytes)
            guard room.take(beside: state.wanted) else { throw Lacking() }
            state.isTaken = true
            return state.wanted
        }
    }

    /// Waits for the memory that was lacking.
    func wait() async throws {
        try await room.wait()
        state.withLock { $0.isWaitedFor = true }
    }
}

extension TableService {
    /// Builds a page, with its share of the memory for answers.
    ///
    /// If no page of the table was read yet, each row is assumed to have the largest size.
    func makePage<Page>(
        of rows: Int,
        in table: Table,
        _ read: (PageRoom?) async throws -> Page
    ) async throws -> (page: Page, share: AnswerShare?) {
        let limits = settings.limits
        let batch = AnswerRoom.ofBatch
        let answer = batch ?? AnswerRoom(in: settings.traffic.answers)
        let room = PageRoom(
            in: answer,
            likelyBytes: table.pageSize.likelyBytes(ofRows: rows)
                ?? PageSize.product(rows, limits.rowBytes),
            bytesMax: limits.pageBytes
        )
        do {
            return (try await read(room), batch == nil ? answer.share : nil)
        } catch is PageRoom.Lacking {
            guard answer.mayWait else { throw ServerError.noRoomInBatch }
            try await room.wait()
            return (try await read(room), batch == nil ? answer.share : nil)
        }
    }
}

/// How large the rows of a table's pages are.
///
/// Other requests wait for the memory that a page reserves: so it is what the page will need, and not the most
/// that it could be.
final class PageSize: Sendable {
    /// Zero while no page with rows was read.
    private let rowBytes = Atomic<Int>(0)

    /// Returns the likely size of a page of so many rows, with a quarter to spare; nil if no page was read.
    func likelyBytes(ofRows rows: Int) -> Int? {
        let each = rowBytes.load(ordering: .relaxed)
        guard each > 0 else { return nil }
        return Self.product(rows, each + each / 4 + 1)
    }

    /// Takes note of a page; large rows are remembered for some more pages.
    func made(rows: Int, bytes: Int) {
        guard rows > 0 else { return }
        let before = rowBytes.load(ordering: .relaxed)
        rowBytes.store(max(bytes / rows, before - before / 8, 1), ordering: .relaxed)
    }

    static func product(_ rows: Int, _ bytes: Int) -> Int {
        let product = rows.multipliedReportingOverflow(by: bytes)
        return product.overflow ? .max : product.partialValue
    }
}

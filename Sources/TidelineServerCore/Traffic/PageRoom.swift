// PageRoom: what a page takes of the memory for answers while it is made.
//
// A query may work long and find nothing. So a page takes room when it has rows, and queries that
// have none yet hold up nobody. Where there is no room at that moment, the page is given up, waits
// for room without a reader, and is made anew.

import Synchronization

package final class PageRoom: Sendable {
    /// There is no room now: the page is to be made anew when there is some.
    package struct Lacking: Error {}

    /// What a page may have without asking: with its end and its links it is a small answer.
    private static let freeBytes = AnswerMemory.smallBytes / 2

    private struct State {
        var share: AnswerShare?
        /// Whether the share was waited for: then it is kept when the page is made anew.
        var isWaitedFor = false
        /// What to wait for.
        var wanted = 0
    }

    private let answers: AnswerMemory
    private let likelyBytes: Int
    private let bytesMax: Int
    private let state = Mutex(State())

    /// Room for a page that likely has so many bytes.
    init(in answers: AnswerMemory, likelyBytes: Int, bytesMax: Int) {
        self.answers = answers
        self.likelyBytes = min(likelyBytes, bytesMax)
        self.bytesMax = bytesMax
    }

    /// The page begins, for the first time or anew.
    ///
    /// What an earlier try took is given back: a query that begins anew may wait for its turn.
    ///
    /// - Returns: How many bytes the page may have before it asks for more.
    package func begin() -> Int {
        state.withLock { state in
            if state.isWaitedFor { return state.wanted }
            state.share = nil
            return Self.freeBytes
        }
    }

    /// Room for a page that has so many bytes already.
    ///
    /// - Returns: How many bytes the page may have before it asks again.
    /// - Throws: ``Lacking`` when there is no room.
    package func more(for bytes: Int) throws -> Int {
        try state.withLock { state in
            if let share = state.share {
                // It is larger than was likely; few pages are made at a time.
                share.resize(to: max(bytesMax, bytes))
                return .max
            }
            state.wanted = max(likelyBytes, bytes)
            guard let share = answers.roomNow(for: state.wanted) else { throw Lacking() }
            state.share = share
            return state.wanted
        }
    }

    /// Waits for the room that was lacking.
    func wait() async throws {
        let share = try await answers.room(for: state.withLock { $0.wanted })
        state.withLock { state in
            state.share = share
            state.isWaitedFor = true
        }
    }

    /// What the page holds; nil for a small one.
    var share: AnswerShare? { state.withLock { $0.share } }
}

extension TableService {
    /// Makes a page, with what it holds of the memory for answers.
    ///
    /// Each row of a table that nobody has read may be the largest.
    func makePage<Page>(
        of rows: Int,
        in table: Table,
        _ read: (PageRoom?) async throws -> Page
    ) async throws -> (page: Page, share: AnswerShare?) {
        // Who holds room and asks for more could wait for ever.
        if AnswerMemory.isGiven { return (try await read(nil), nil) }
        let limits = settings.limits
        let room = PageRoom(
            in: settings.traffic.answers,
            likelyBytes: table.pageSize.likelyBytes(ofRows: rows)
                ?? PageSize.product(rows, limits.rowBytes),
            bytesMax: limits.pageBytes
        )
        do {
            return (try await read(room), room.share)
        } catch is PageRoom.Lacking {
            try await room.wait()
            return (try await read(room), room.share)
        }
    }

    /// Makes the answer about a row, with what it holds of the memory for answers when it is large.
    ///
    /// How large it is, only the row tells. Where there is no room it is let go, so that those who
    /// wait hold nothing, and made anew.
    func makeRowAnswer(
        _ make: () async throws -> ServerResponse
    ) async throws -> ServerResponse {
        // Who holds room and asks for more could wait for ever.
        if AnswerMemory.isGiven { return try await make() }
        let answers = settings.traffic.answers
        var answer = try await make()
        let bytes = answer.body.count
        guard bytes > AnswerMemory.smallBytes else { return answer }
        answer.share = answers.roomNow(for: bytes)
        if answer.share != nil { return answer }
        answer.body = []
        let share = try await answers.room(for: bytes)
        answer = try await make()
        answer.share = share
        return answer
    }
}

/// How large the rows of a table's pages are.
///
/// Others wait for the room that a page takes: so it is what the page will need, and not the most that
/// it could be.
final class PageSize: Sendable {
    /// Zero while no page with rows was read.
    private let rowBytes = Atomic<Int>(0)

    /// What a page of so many rows will likely have, with a quarter to spare; nil when no page was
    /// read.
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

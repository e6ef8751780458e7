// PageReservation: memory for pages.
//
// A query may run long and find no rows. So a page reserves memory only when it has rows, and queries without rows do
// not delay others. If there is too little memory at that moment, the page is discarded, waits without a reader, and
// is then built from the start.

import Synchronization

/// The memory reservation for a page while it is built.
package final class PageReservation: Sendable {
    /// The error for too little memory; the page is built again when there is enough.
    package struct MemoryShortage: Error {}

    /// The number of bytes that a page may have without a reservation, so that the answer with its end and
    /// links is a small one.
    private static let freeBytes = ResponseMemory.smallBytes / 2

    private struct State {
        var isTaken = false
        /// Whether the page has waited for the memory, which is then kept when the page is rebuilt.
        var isWaitedFor = false
        var wanted = 0
    }

    /// The reservation of the answer with the page.
    private let reservation: AnswerReservation
    private let likelyBytes: Int
    private let bytesMax: Int
    private let state = Mutex(State())

    /// Creates a reservation for a page with an estimated size.
    init(in reservation: AnswerReservation, likelyBytes: Int, bytesMax: Int) {
        self.reservation = reservation
        self.likelyBytes = min(likelyBytes, bytesMax)
        self.bytesMax = bytesMax
    }

    /// Begins the page, possibly after a restart.
    ///
    /// The reservation of an earlier attempt is released, because a restarted query may wait for its turn.
    ///
    /// - Returns: The number of bytes that the page may have before it reserves more.
    package func begin() -> Int {
        state.withLock { state in
            if state.isWaitedFor { return state.wanted }
            state.isTaken = false
            reservation.giveBackRest()
            return Self.freeBytes
        }
    }

    /// Reserves memory for a page that already has this many bytes.
    ///
    /// - Returns: The number of bytes that the page may have before it reserves more.
    /// - Throws: ``MemoryShortage`` if there is too little memory.
    package func more(for bytes: Int) throws -> Int {
        try state.withLock { state in
            if state.isTaken || state.isWaitedFor {
                // The page is larger than estimated; few pages are built at a time.
                reservation.count(additional: max(bytesMax, bytes))
                return .max
            }
            state.wanted = max(likelyBytes, bytes)
            guard reservation.take(additional: state.wanted) else { throw MemoryShortage() }
            state.isTaken = true
            return state.wanted
        }
    }

    /// Waits until the missing memory is available.
    func wait() async throws {
        try await reservation.wait()
        state.withLock { $0.isWaitedFor = true }
    }
}

/// The average size of rows in a table's pages.
///
/// Other requests wait for the memory that a page reserves, so it reserves its estimated size instead of the
/// maximum.
final class PageSize: Sendable {
    /// The average number of bytes of a row; zero until a page with rows was read.
    private let rowBytes = Atomic<Int>(0)

    /// Returns the estimated size of a page with this many rows, plus a quarter; nil if no page was read.
    func likelyBytes(ofRows rows: Int) -> Int? {
        let each = rowBytes.load(ordering: .relaxed)
        guard each > 0 else { return nil }
        return Self.product(rows, each + each / 4 + 1)
    }

    /// Records the size of a page; large rows influence the estimate for some more pages.
    func record(rows: Int, bytes: Int) {
        guard rows > 0 else { return }
        let before = rowBytes.load(ordering: .relaxed)
        rowBytes.store(max(bytes / rows, before - before / 8, 1), ordering: .relaxed)
    }

    static func product(_ rows: Int, _ bytes: Int) -> Int {
        let product = rows.multipliedReportingOverflow(by: bytes)
        return product.overflow ? .max : product.partialValue
    }
}

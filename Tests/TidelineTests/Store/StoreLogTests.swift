// When the write-ahead log of a store is checkpointed, and by which thread.

import Testing
import Tideline
import TidelineSQLite
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct StoreLogTests {
    private typealias Policy = StoreLogPolicy

    /// A log, and the policy of its store.
    private struct Log {
        var policy = StoreLogPolicy()
        var pages = 0

        /// Commits until the policy asks for a checkpoint; stops after 100,000 pages.
        mutating func commit(of size: Int) -> StoreLogPolicy.Action {
            for _ in 0..<100_000 / size {
                pages += size
                let action = policy.committed(pages)
                if action != .nothing { return action }
            }
            return .nothing
        }
    }

    @Test("A log is checkpointed on the separate thread once it reaches its limit")
    func bulk() {
        var log = Log()
        #expect(log.commit(of: 4) == .copyBulk)
        #expect(log.pages == Policy.pagesCopied)
        var long = Log()
        #expect(long.commit(of: 200) == .copyBulk)
        #expect(long.pages == Policy.pagesCopiedOfLong)
    }

    @Test(
        "The writer copies the few pages that were added during a checkpoint",
        arguments: [4, 200]
    )
    func rest(size: Int) {
        var log = Log()
        #expect(log.commit(of: size) == .copyBulk)
        let copied = log.pages
        // One commit during the checkpoint, and one after it.
        log.pages += size
        #expect(log.policy.committed(log.pages) == .nothing)
        log.policy.didCopyBulk(copied)
        log.pages += size
        #expect(log.policy.committed(log.pages) == .copyRest)
        // Now the log restarts.
        log.pages = 0
        #expect(log.commit(of: size) == .copyBulk)
        #expect(log.pages == (size < 100 ? Policy.pagesCopied : Policy.pagesCopiedOfLong))
    }

    @Test("If many pages were added, the separate thread copies them, not the writer")
    func largeRest() {
        var log = Log()
        #expect(log.commit(of: 4) == .copyBulk)
        // The checkpoint is slow, so commits request another one.
        #expect(log.commit(of: 4) == .copyBulk)
        log.policy.didCopyBulk(Policy.pagesCopied)
        #expect(log.commit(of: 4) == .copyBulk)
    }

    @Test("While a reader prevents a restart, at most one checkpoint starts per 250 pages")
    func longRead() {
        var log = Log()
        var checkpoints = 0
        while log.pages < Policy.pagesMax - Policy.pagesRest {
            guard log.commit(of: 4) != .nothing else { break }
            checkpoints += 1
            // The reader uses the first pages, so the pages after them cannot be copied.
            log.policy.didCopyBulk(10)
        }
        #expect(checkpoints > 10)
        #expect(checkpoints <= Policy.pagesMax / Policy.pagesRest)
    }

    @Test(
        "If a reader prevents only the restart, the writer checkpoints once per 1,000 pages"
    )
    func copiedButUsed() {
        var log = Log()
        var (bulk, rest) = (0, 0)
        while log.pages < Policy.pagesMax - Policy.pagesCopied {
            switch log.commit(of: 4) {
            case .copyBulk:
                bulk += 1
                log.policy.didCopyBulk(log.pages)
            case .copyRest: rest += 1
            case .nothing, .restart: break
            }
        }
        #expect(rest > 10)
        #expect(bulk - rest <= 1)
        #expect(bulk <= Policy.pagesMax / Policy.pagesCopied)
    }

    @Test(
        "From 64 MiB on, the writer copies after each commit and restarts once per 16 MiB"
    )
    func largest() {
        var log = Log()
        log.pages = Policy.pagesMax - 4
        var restarts: [Int] = []
        for _ in 0..<3000 {
            log.pages += 4
            switch log.policy.committed(log.pages) {
            case .restart: restarts.append(log.pages)
            case let action: #expect(action == .copyRest)
            }
        }
        let (first, step) = (Policy.pagesMax, Policy.pagesBetweenRestarts)
        #expect(restarts == [first, first + step, first + 2 * step])
        log.pages = 4
        #expect(log.policy.committed(log.pages) == .nothing)
        log.pages = Policy.pagesMax
        #expect(log.policy.committed(log.pages) == .restart)
    }

    @Test("A restart checkpoint fails while a reader uses the log")
    func readerInUse() async throws {
        try await withTemporaryFile { path in
            let writer = try Database(path: path)
            try writer.execute("CREATE TABLE a (b)")
            let reader = try Database(path: path, mode: .readOnly)
            try reader.execute("BEGIN")
            _ = try reader.integer("SELECT count(*) FROM a")
            try writer.execute("INSERT INTO a VALUES (1)")
            #expect(try !writer.checkpoint(.restart, waiting: 0))
            try reader.execute("COMMIT")
            #expect(try writer.checkpoint(.restart, waiting: 0))
        }
    }

    @Test("A result that arrives after the restart of the log is ignored")
    func lateResult() {
        var log = Log()
        #expect(log.commit(of: 4) == .copyBulk)
        let copied = log.pages
        log.pages = 4
        #expect(log.policy.committed(log.pages) == .nothing)
        log.policy.didCopyBulk(copied)
        #expect(log.commit(of: 4) == .copyBulk)
        #expect(log.pages == Policy.pagesCopied)
    }
}

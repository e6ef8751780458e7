// LocalStoreConformance on every store there is.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit

/// The stores that are checked.
enum StoreKind: CaseIterable {
    case memory
    case file
    case inline
    case snapshot

    /// Opens stores by name; files are in `folder`, others are kept here.
    func stores(in folder: String) -> LocalStoreConformance.Stores {
        let kept = Kept()
        return { name in
            switch self {
            case .file: try SQLiteStore(path: folder + "-" + name)
            case .snapshot: try SnapshotStore(file: URL(filePath: folder + "-" + name))
            case .memory: try kept.store(name) { MemoryStore() }
            case .inline:
                try kept.store(name) { try SQLiteStore(path: ":memory:", inline: true) }
            }
        }
    }
}

private final class Kept: Sendable {
    private let stores = Mutex<[String: any LocalStore]>([:])

    func store(
        _ name: String,
        _ make: @Sendable () throws -> any LocalStore
    ) throws -> any LocalStore {
        try stores.withLock { stores in
            let store = try stores[name] ?? make()
            stores[name] = store
            return store
        }
    }
}

@Suite struct ConformanceTests {
    @Test(arguments: StoreKind.allCases, LocalStoreConformance.all)
    func conforms(kind: StoreKind, check: LocalStoreConformance.Check) async throws {
        try await withTemporaryFile { path in
            try await check.run(kind.stores(in: path))
        }
    }

    /// The checks can fail.
    @Test func aStoreThatForgetsFails() async throws {
        var failures = 0
        for check in LocalStoreConformance.all {
            do {
                try await check.run { _ in Forgetful() }
            } catch is LocalStoreConformance.Failure {
                failures += 1
            }
        }
        #expect(failures > LocalStoreConformance.all.count / 2)
    }
}

/// A store whose writes are lost.
private struct Forgetful: LocalStore {
    let inner = MemoryStore()

    func open(tables: [TableSchema]) async throws { try await inner.open(tables: tables) }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try await inner.read(body)
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let copy = MemoryStore()
        try await copy.open(tables: LocalStoreConformance.tables)
        return try await copy.write(body)
    }

    func changes() -> AsyncStream<Set<String>> {
        AsyncStream { continuation in
            continuation.yield([])
            continuation.finish()
        }
    }
}

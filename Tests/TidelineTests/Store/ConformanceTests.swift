// LocalStoreConformance for each store type.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// The store types that are checked.
enum StoreKind: CaseIterable {
    case memory
    case file
    case inline
    case snapshot

    /// Opens stores by name; files are in `folder`, other stores are kept in memory.
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
    @Test(
        "Each store passes each conformance check",
        arguments: StoreKind.allCases,
        LocalStoreConformance.all
    )
    func theStoreConforms(kind: StoreKind, check: LocalStoreConformance.Check) async throws {
        try await withTemporaryFile { path in
            try await check.run(kind.stores(in: path))
        }
    }

    @Test("A value of each column type round-trips", arguments: StoreKind.allCases, everyType)
    func roundTrips(kind: StoreKind, type: ColumnType) async throws {
        let schema = TableSchema(name: "Kinds", columns: [ColumnDefinition("c", type)])
        let values = [Self.value(of: type), type.zero, .null]
        try await withTemporaryFile { path in
            let open = kind.stores(in: path)
            let store = try await open("first")
            try await store.open(tables: [schema])
            try await store.write { store in
                for (index, value) in values.enumerated() {
                    try store.put([["id": .string("\(index)"), "c": value]], in: "Kinds")
                }
            }
            let again = try await open("first")
            try await again.open(tables: [schema])
            for (index, value) in values.enumerated() {
                let id = Value.string("\(index)")
                let row = try await again.read { try $0.row(id: id, in: "Kinds") }
                #expect((row?["c"] ?? .null) == value)
            }
        }
    }

    private static let everyType = ColumnType.simple + [.enumeration(["low", "high"])]

    /// A new type needs a value: the compiler names this switch.
    private static func value(of type: ColumnType) -> Value {
        switch type {
        case .string: "a\u{1}😀"
        case .integer: .integer(.max)
        case .number: 1.5
        // It has as many digits as a decimal can have.
        case .decimal: .decimal(Decimal(7) / 3)
        case .boolean: true
        case .dateTime: .date(Date(timeIntervalSince1970: 1_700_000_000.25))
        case .date: "2026-11-20"
        case .time: "07:14:00.000"
        case .guid: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
        case .binary: .data(Data([0, 255]))
        case .json: .json(JSON(checked: #"{"a":[1,null]}"#))
        case .enumeration(let members): .string(members.last ?? "")
        }
    }

    @Test("The conformance checks have a column of each type")
    func checksAreComplete() throws {
        let sample = try #require(LocalStoreConformance.tables.first)
        #expect(Set(sample.columns.map(\.type.name)) == Set(Self.everyType.map(\.name)))
    }

    @Test("A store that forgets its rows fails most conformance checks")
    func aStoreThatForgetsFails() async throws {
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
private struct Forgetful: ForwardingStore {
    let inner: any LocalStore = MemoryStore()

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        let copy = MemoryStore()
        try await copy.open(tables: LocalStoreConformance.tables + SystemTables.schemas)
        return try await copy.write(body)
    }

    func changes() -> AsyncStream<Set<String>> {
        AsyncStream { continuation in
            continuation.yield([])
            continuation.finish()
        }
    }
}

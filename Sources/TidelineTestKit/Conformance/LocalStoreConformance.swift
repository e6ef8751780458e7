// LocalStoreConformance: the requirements of the LocalStore protocol as checks for any store. The
// checks are in the adjacent files.

import Foundation
public import Tideline
import TidelineCore

/// The requirements of `LocalStore` as a list of checks, which you can also run on your app's own
/// store.
///
/// ```swift
/// @Test(arguments: LocalStoreConformance.all)
/// func conforms(check: LocalStoreConformance.Check) async throws {
///     let folder = try makeTemporaryFolder()
///     try await check.run { name in try MyStore(folder: folder, name: name) }
/// }
/// ```
public enum LocalStoreConformance {
    /// Opens the store with the given name; the store is empty at first, and keeps its contents
    /// until it is opened again.
    ///
    /// For a store in memory, the closure must return the same object each time. When a check
    /// starts, no stores exist.
    public typealias Stores = @Sendable (_ name: String) async throws -> any LocalStore

    /// A check of a single requirement.
    public struct Check: Sendable, CustomStringConvertible {
        /// The requirement.
        public var description: String
        /// Runs the check on a store; throws ``Failure`` if the store does not meet the
        /// requirement.
        public var run: @Sendable (_ stores: @escaping Stores) async throws -> Void

        init(_ description: String, _ run: @escaping @Sendable (Probe) async throws -> Void) {
            self.description = description
            self.run = { stores in
                let store = try await stores("first")
                try await store.open(tables: tables)
                try await run(Probe(store: store, stores: stores, check: description))
            }
        }
    }

    /// The error that a check throws if a store does not meet a requirement.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// The requirement.
        public var check: String
        /// The result that the check observed.
        public var detail: String

        /// The requirement, followed by the observed result.
        public var description: String { "\(check): \(detail)" }
    }

    /// The tables that a check opens in its store.
    package static let tables = [Sample.schema, Sample.other, Sample.local, Sample.synced]

    /// All checks.
    public static let all: [Check] =
        rowChecks + queryChecks + keyChecks + totalsChecks + transactionChecks + optionalChecks
        + syncChecks + lifeChecks
}

extension LocalStoreConformance {
    /// The tables that the checks use.
    enum Sample {
        static let name = "Sample"

        static let schema = TableSchema(name: name, columns: columns)

        static let columns = [
            ColumnDefinition("text", .string),
            ColumnDefinition("whole", .integer),
            ColumnDefinition("real", .number),
            ColumnDefinition("exact", .decimal),
            ColumnDefinition("flag", .boolean),
            ColumnDefinition("instant", .dateTime),
            ColumnDefinition("day", .date),
            ColumnDefinition("clock", .time),
            ColumnDefinition("key", .guid),
            ColumnDefinition("bytes", .binary),
            ColumnDefinition("document", .json),
            ColumnDefinition("level", .enumeration(["low", "high"])),
        ]

        static let other = TableSchema(name: "Other", columns: [ColumnDefinition("a", .string)])

        /// A table like those of the queue: with an integer key and without system columns.
        static let local = TableSchema(
            local: "Local",
            key: .integer,
            columns: [ColumnDefinition("a", .string)]
        )

        /// A table in the form in which the client opens it for a model with a search index.
        static let synced = {
            var schema = TableSchema(name: "Synced", columns: columns).withMembershipMask
            schema.search = TableSearch(columns: ["text"])
            return schema
        }()

        /// A row with a value in every column.
        static func row(_ id: String) -> Row {
            [
                "id": .string(id), "text": "milk", "whole": 3, "real": 1.5,
                "exact": .decimal(Decimal(sign: .plus, exponent: -2, significand: 1250)),
                "flag": true, "instant": .date(Date(timeIntervalSince1970: 1_700_000_000.25)),
                "day": "2026-11-20", "clock": "07:14:00.000",
                "key": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "bytes": .data(Data([0, 255])),
                "document": .json(JSON(checked: #"{"a":[1,null]}"#)), "level": "high",
                "version": "v1", "createdAt": .date(Date(timeIntervalSince1970: 0)),
                "updatedAt": .date(Date(timeIntervalSince1970: 1)),
            ]
        }

        static func row(_ id: String, _ column: String, _ value: Value) -> Row {
            ["id": .string(id), column: value]
        }
    }

    /// A store that is being tested.
    struct Probe: Sendable {
        var store: any LocalStore
        var stores: Stores
        var check: String

        func put(_ rows: [Row], in table: String = Sample.name) async throws {
            try await store.write { try $0.put(rows, in: table) }
        }

        func row(_ id: String) async throws -> Row? {
            try await store.read { try $0.row(id: .string(id), in: Sample.name) }
        }

        func rows(
            _ query: TableQuery = TableQuery(),
            in table: String = Sample.name
        ) async throws -> [Row] {
            try await store.read { try $0.rows(query, in: table) }
        }

        func ids(_ query: TableQuery) async throws -> [String] {
            try await rows(query).map(\.id)
        }

        /// Throws ``Failure`` unless the condition is true.
        func expect(_ condition: Bool, _ detail: @autoclosure () -> String) throws {
            if !condition { throw Failure(check: check, detail: detail()) }
        }

        func expect(_ found: [String], _ wanted: [String], _ what: String) throws {
            // Strings are compared by their bytes.
            let isSame = found.map { Array($0.utf8) } == wanted.map { Array($0.utf8) }
            try expect(isSame, "\(what): \(found) instead of \(wanted)")
        }

        /// Returns whether a call throws an error.
        func throwsError(_ body: () async throws -> Void) async -> Bool {
            do {
                try await body()
                return false
            } catch {
                return true
            }
        }
    }
}

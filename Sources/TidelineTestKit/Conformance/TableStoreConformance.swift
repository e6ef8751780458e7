// TableStoreConformance: the requirements of the TableStore protocol as checks that run on every
// backend and use only the protocol. The checks are in the adjacent files.

import Foundation
import Synchronization
import TidelineCore
package import TidelineServerCore

/// The requirements of `TableStore` as a list of checks.
package enum TableStoreConformance {
    /// Creates an empty store with the given limits and the given wall clock.
    package typealias Stores =
        @Sendable (_ limits: ServerLimits, _ now: @escaping @Sendable () -> Int64) async throws
        -> any TableStore

    /// A check of a single requirement.
    package struct Check: Sendable, CustomStringConvertible {
        /// The requirement.
        package var description: String
        /// Runs the check on a store; throws ``Failure`` if the store does not meet the
        /// requirement.
        package var run: @Sendable (_ stores: @escaping Stores) async throws -> Void

        init(_ description: String, _ run: @escaping @Sendable (Probe) async throws -> Void) {
            self.description = description
            self.run = { stores in
                var limits = ServerLimits()
                limits.ledgerDays = 30
                let clock = Clock()
                let store = try await stores(limits) { clock.now() }
                _ = try await store.prepare(Sample.definitions, filtered: [], isComplete: false)
                do {
                    try await run(Probe(store: store, clock: clock, check: description))
                } catch {
                    await store.stop()
                    throw error
                }
                await store.stop()
            }
        }
    }

    /// The error that a check throws if a store does not meet a requirement.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package var check: String
        /// The result that the check observed.
        package var detail: String

        package var description: String { "\(check): \(detail)" }
    }

    /// All checks.
    package static let all: [Check] = rowChecks + batchChecks + repeatChecks + changeChecks

    /// The names of the column types that the checks' tables use.
    package static let columnTypes = Set(Sample.columns.map(\.type.name))
}

extension TableStoreConformance {
    /// A simulated wall clock in whole milliseconds, which a check sets.
    final class Clock: Sendable {
        static let start: Int64 = 1_800_000_000_000_000
        private let time = Mutex(start)

        func now() -> Int64 { time.withLock { $0 } }

        func move(days: Int64) { time.withLock { $0 += days * 86_400_000_000 } }
    }

    /// The tables that the checks use.
    enum Sample {
        static let columns = [
            ColumnDefinition("text", .string, rules: ColumnRules(maxLength: 2000)),
            ColumnDefinition("whole", .integer, default: 7),
            ColumnDefinition("real", .number),
            ColumnDefinition("exact", .decimal),
            ColumnDefinition("flag", .boolean, nullable: false),
            ColumnDefinition("instant", .dateTime),
            ColumnDefinition("day", .date),
            ColumnDefinition("clock", .time),
            ColumnDefinition("key", .guid),
            ColumnDefinition("bytes", .binary),
            ColumnDefinition("document", .json),
            ColumnDefinition("level", .enumeration(["low", "high"])),
        ]

        static let definitions = [
            TableDefinition("Sample", columns: columns),
            TableDefinition("Hard", columns: columns, softDelete: false),
            TableDefinition("Merging", columns: columns, conflict: .merge),
            TableDefinition("Owned", columns: columns, owner: "text"),
        ]

        static let table = Table(definitions[0])
        static let hard = Table(definitions[1])
        static let merging = Table(definitions[2])
        /// A table whose rows are visible only to the user in their `text` column.
        static let owned = Table(definitions[3])

        /// A value for each column.
        static let values: [SQLValue?] = [
            .text("m\u{EF}lk \"\u{1}\u{2028}"), .integer(-3), .real(1.5), .text("12.50"),
            .integer(1), .integer(1_700_000_000_250_999), .text("2026-11-20"),
            .text("07:14:00.000"), .text("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            .blob(Data([0, 255])), .text(#"{"a":[1,null]}"#), .text("high"),
        ]

        static let nothing = [SQLValue?](repeating: nil, count: columns.count)

        /// Returns the values of a row in which only `text` is set.
        static func text(_ text: String) -> [SQLValue?] {
            var values = nothing
            values[0] = .text(text)
            return values
        }
    }

    /// A store that is being tested.
    struct Probe: Sendable {
        var store: any TableStore
        var clock: Clock
        var check: String

        func operation(
            _ kind: WriteOperation.Kind,
            _ id: String,
            _ values: [SQLValue?] = Sample.nothing
        ) -> WriteOperation {
            var operation = WriteOperation(kind, id: id)
            operation.values = values
            return operation
        }

        /// Writes a single operation in a separate batch.
        func write(
            _ operation: WriteOperation,
            in table: Table = Sample.table,
            key: RepeatKey? = nil
        ) async throws -> WriteOutcome {
            var write = WriteBatch.Write(operation, in: table)
            write.repeatKey = key
            switch try await store.write(WriteBatch([WriteBatch.Group([write])])).first {
            case .done(let outcomes)? where outcomes.count == 1: return outcomes[0]
            case .rejected(0, let outcome)?: return outcome
            case let other: throw failure("one write returned \(String(describing: other))")
            }
        }

        @discardableResult
        func insert(
            _ id: String,
            _ values: [SQLValue?] = Sample.nothing,
            in table: Table = Sample.table
        ) async throws -> StoredRow {
            let outcome = try await write(operation(.insert, id, values), in: table)
            try expect(outcome.decision, .insert, "the insert of '\(id)'")
            guard let row = outcome.row else { throw failure("an insert has no row") }
            return row
        }

        /// Returns the value of the first column; nil if there is no row.
        func text(_ id: String, in table: Table = Sample.table) async throws -> SQLValue? {
            try await store.image(id, view: nil, in: table)?.values[0]
        }

        func ids(_ request: ListRequest = ListRequest()) async throws -> [String] {
            var request = request
            request.select = [Sample.columns.count]
            request.order = [SortKey(column: SystemColumn.id)]
            let page = try await store.list(request, in: Sample.table)
            return String(decoding: page.bytes, as: UTF8.self).split(separator: "\"")
                .map(String.init).enumerated().filter { $0.offset % 4 == 3 }.map(\.element)
        }

        func failure(_ detail: String) -> Failure { Failure(check: check, detail: detail) }

        func expect(_ condition: Bool, _ detail: @autoclosure () -> String) throws {
            if !condition { throw failure(detail()) }
        }

        func expect<Value: Equatable>(_ found: Value, _ wanted: Value, _ what: String) throws {
            try expect(found == wanted, "\(what): \(found) instead of \(wanted)")
        }
    }
}

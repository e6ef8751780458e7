// RowFacts: the facts from which a row's state is explained.

package import Foundation
import Synchronization
package import TidelineCore

/// The facts about one row for an explanation, taken from one read of the store.
package struct RowFacts: Sendable {
    /// The progress of the pulls of a query id.
    package struct Query: Sendable {
        package var id: String
        package var hold: QueryHold?
        /// Whether the query has a cursor to continue from.
        package var hasCursor = true
        package var isOfThisEndpoint = true

        package init(id: String, hold: QueryHold?) {
            self.id = id
            self.hold = hold
        }

        /// Whether some rows of the query have not been pulled yet.
        var isUnfinished: Bool { !hasCursor || hold?.isReading != false }

        /// The bits that the query has in the masks of its rows.
        var bits: Int64 { hold.map { $0.bit | ($0.formerBits ?? 0) } ?? 0 }
    }

    /// The server's response to a rejected operation.
    package struct Rejection: Sendable {
        package var statusCode: Int?
        package var message: String

        package init(statusCode: Int?, message: String) {
            self.statusCode = statusCode
            self.message = message
        }
    }

    /// The state of a lost row on the restored server.
    package enum Lost: Sendable {
        case nothing
        case deletion
        case version(String?)
    }

    package var table: String
    package var itemID: String
    /// The local row.
    package var row: Row?
    /// Whether the row's table stays on the device.
    package var isOfLocalTable = false
    /// Whether the row's values may differ from the values that the server sent with the row's
    /// version.
    package var isUncertain = false
    /// The membership mask; nil if no query has reported the row.
    package var membershipBits: Int64?
    /// The operations on the row, in order.
    package var operations: [QueuedOperation] = []
    package var rejection: Rejection?
    /// The state of the row on the restored server, if the server has lost it.
    package var lost: Lost?
    /// Whether the row was pulled before the server was restored, and has not been requested since
    /// then.
    package var isOfFormerEpoch = false
    /// The queries of the table that have an id, ordered by id.
    package var queries: [Query] = []
    package var lastPull: Date?

    package init(table: String, itemID: String, row: Row? = nil) {
        self.table = table
        self.itemID = itemID
        self.row = row
    }
}

extension RowFacts {
    /// Reads what the device knows about a row; `endpoint` is the key of the current server.
    init(_ reader: QueueReader, _ table: String, _ itemID: String, endpoint: String?) throws {
        self.init(table: table, itemID: itemID)
        row = try reader.store.row(id: .string(itemID), in: table)
        isOfLocalTable = reader.catalog.isLocalOnly(table)
        var masks = TableQuery(filter: .equal(SystemColumn.id, .string(itemID)))
        masks.select = [SystemColumn.id, MembershipMask.name]
        membershipBits = try reader.store.rows(masks, in: table).first.flatMap(MembershipMask.bits)
        isOfFormerEpoch = (membershipBits ?? 0) & MembershipMask.former != 0
        membershipBits = membershipBits.map { $0 & ~MembershipMask.former }
        if let lost = try reader.lostRecords.record(table, itemID) {
            self.lost =
                switch lost.server {
                case .row(let row): .version(row.version)
                case .deleted: .deletion
                case nil: .nothing
                }
        }
        operations = try reader.operations(table, itemID)
        let thisRow = Filter.equal(SystemColumn.id, .string(itemID))
        isUncertain = try !reader.store.uncertainRows(thisRow, in: table).ids.isEmpty
        if let parked = operations.first(where: { $0.state == .parked }) {
            rejection = try Self.rejection(of: parked, reader)
        }
        queries = try Self.pulledQueries(table, reader, endpoint: endpoint)
        lastPull = try reader.pullState.lastPull(table)
    }

    private static func rejection(
        of operation: QueuedOperation,
        _ reader: QueueReader
    ) throws -> Rejection? {
        let query = TableQuery(filter: .equal("operationId", .integer(operation.id)))
        guard let row = try reader.store.rows(query, in: SystemTables.errors).first else {
            return nil
        }
        let schema = reader.catalog.schema(operation.table)
        let error = StoredError(row: row, operation: operation, schema: schema)
        return Rejection(statusCode: error.statusCode, message: error.message)
    }

    private static func pulledQueries(
        _ table: String,
        _ reader: QueueReader,
        endpoint: String?
    ) throws -> [Query] {
        let query = TableQuery(filter: .equal("table", .string(table)))
        var parts: [String: [Int64: String]] = [:]
        for row in try reader.store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, let value = row["value"]?.text,
                case .integer(let type) = row["keyType"]
            else { continue }
            parts[key, default: [:]][type] = value
        }
        return try parts.keys.sorted().compactMap { key in
            func part(_ part: PullCursor.Part) -> String? { parts[key]?[Int64(part.rawValue)] }
            let hold = try reader.pullState.hold(table, key: key)
            let id = reader.account.owns(key: key) ? AccountView.queryID(ofKey: key) : key
            guard hold != nil || part(.fingerprint) != nil else { return nil }
            var result = Query(id: id, hold: hold)
            result.hasCursor = part(.time) != nil || part(.link) != nil
            if let endpoint, let pulledFrom = part(.endpoint) {
                result.isOfThisEndpoint = pulledFrom == endpoint
            }
            return result
        }
    }
}

extension RowExplanation {
    /// Explains the state of a row; see ``SyncContext/explain(table:id:)``.
    init(_ id: String, in table: String, _ engine: SyncEngine) async throws {
        let endpoint = try? engine.remote.get().endpoint.key
        var facts = try await engine.read { try RowFacts($0, table, id, endpoint: endpoint) }
        // The time of a pull that changed nothing is not stored, so it comes from memory.
        facts.lastPull = engine.lastPulls.withLock { $0[table] } ?? facts.lastPull
        self.init(facts)
    }
}

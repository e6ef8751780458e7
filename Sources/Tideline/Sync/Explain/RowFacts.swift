// RowFacts: the data of an explanation.

package import Foundation
import Synchronization
package import TidelineCore

/// The facts about one row from one read of the store, for an explanation.
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

        /// The bits in the masks of the query's rows.
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
    /// Whether the row's values may differ from those that the server sent with its version.
    package var isUncertain = false
    /// The membership mask; nil if no query has reported the row.
    package var membershipBits: Int64?
    /// The operations on the row, in order.
    package var operations: [QueuedOperation] = []
    package var rejection: Rejection?
    /// The state of the row on the restored server, if the server has lost it.
    package var lost: Lost?
    /// Whether the row was pulled before the server was restored, and has not been requested since.
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

extension QueueReader {
    /// Returns what the device knows about a row; `endpoint` is the key of the current server.
    func facts(_ table: String, _ itemID: String, endpoint: String?) throws -> RowFacts {
        var facts = RowFacts(table: table, itemID: itemID)
        facts.row = try store.row(id: .string(itemID), in: table)
        facts.isOfLocalTable = catalog.isLocalOnly(table)
        var masks = TableQuery(filter: .equal(SystemColumn.id, .string(itemID)))
        masks.select = [SystemColumn.id, MembershipMask.name]
        facts.membershipBits = try store.rows(masks, in: table).first.flatMap(MembershipMask.bits)
        facts.isOfFormerEpoch = (facts.membershipBits ?? 0) & MembershipMask.former != 0
        facts.membershipBits = facts.membershipBits.map { $0 & ~MembershipMask.former }
        if let lost = try lostRecords.record(table, itemID) {
            facts.lost =
                switch lost.server {
                case .row(let row): .version(row.version)
                case .deleted: .deletion
                case nil: .nothing
                }
        }
        facts.operations = try operations(table, itemID)
        let thisRow = Filter.equal(SystemColumn.id, .string(itemID))
        facts.isUncertain = try !store.uncertainRows(thisRow, in: table).ids.isEmpty
        if let parked = facts.operations.first(where: { $0.state == .parked }) {
            facts.rejection = try rejection(of: parked)
        }
        facts.queries = try pulledQueries(table, endpoint: endpoint)
        facts.lastPull = try pullState.lastPull(table)
        return facts
    }

    private func rejection(of operation: QueuedOperation) throws -> RowFacts.Rejection? {
        let query = TableQuery(filter: .equal("operationId", .integer(operation.id)))
        guard let row = try store.rows(query, in: SystemTables.errors).first else { return nil }
        let schema = catalog.schema(operation.table)
        let error = StoredError(row: row, operation: operation, schema: schema)
        return RowFacts.Rejection(statusCode: error.statusCode, message: error.message)
    }

    private func pulledQueries(_ table: String, endpoint: String?) throws -> [RowFacts.Query] {
        let query = TableQuery(filter: .equal("table", .string(table)))
        var parts: [String: [Int64: String]] = [:]
        for row in try store.rows(query, in: SystemTables.config) {
            guard let key = row["key"]?.text, let value = row["value"]?.text,
                case .integer(let type) = row["keyType"]
            else { continue }
            parts[key, default: [:]][type] = value
        }
        return try parts.keys.sorted().compactMap { id in
            func part(_ part: PullCursor.Part) -> String? { parts[id]?[Int64(part.rawValue)] }
            let hold = try pullState.hold(table, id)
            guard hold != nil || part(.fingerprint) != nil else { return nil }
            var result = RowFacts.Query(id: id, hold: hold)
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
        var facts = try await engine.read { try $0.facts(table, id, endpoint: endpoint) }
        // The time of a pull without changes is not stored.
        facts.lastPull = engine.lastPulls.withLock { $0[table] } ?? facts.lastPull
        self.init(facts)
    }
}

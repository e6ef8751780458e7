// RowFacts: what a store knows of one row, from one read: what an explanation is made of.

package import Foundation
import Synchronization
package import TidelineCore

package struct RowFacts: Sendable {
    /// How far the pulls of a query id have come.
    package struct Query: Sendable {
        package var id: String
        package var hold: QueryHold?
        /// Whether there is a place to go on from.
        package var hasCursor = true
        package var isOfThisEndpoint = true

        package init(id: String, hold: QueryHold?) {
            self.id = id
            self.hold = hold
        }

        /// Whether some of its rows have not been pulled yet.
        var isUnfinished: Bool { !hasCursor || hold?.isReading != false }

        /// The bits of the masks of its rows.
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

    /// The restored server's state of a row that it lost.
    package enum Lost: Sendable {
        case nothing
        case deletion
        case version(String?)
    }

    package var table: String
    package var itemID: String
    /// The local row.
    package var row: Row?
    /// Whether its values may differ from those that the server sent with its version.
    package var isUncertain = false
    /// The membership mask; nil if no query has reported the row.
    package var heldBits: Int64?
    /// Its operations, in order.
    package var operations: [QueuedOperation] = []
    package var rejection: Rejection?
    /// The restored server's state of the row, if the server lost it.
    package var lost: Lost?
    /// Whether it was pulled before the server was restored, and was not requested since.
    package var isOfFormerEpoch = false
    /// The queries of the table that have an id, by id.
    package var queries: [Query] = []
    package var lastPull: Date?

    package init(table: String, itemID: String, row: Row? = nil) {
        self.table = table
        self.itemID = itemID
        self.row = row
    }
}

extension QueueReader {
    /// What is known of a row here; `endpoint` is the key of the server that is spoken to.
    func facts(_ table: String, _ itemID: String, endpoint: String?) throws -> RowFacts {
        var facts = RowFacts(table: table, itemID: itemID)
        facts.row = try store.row(id: .string(itemID), in: table)
        var masks = TableQuery(filter: .equal(SystemColumn.id, .string(itemID)))
        masks.select = [SystemColumn.id, HeldMask.name]
        facts.heldBits = try store.rows(masks, in: table).first.flatMap(HeldMask.bits)
        facts.isOfFormerEpoch = (facts.heldBits ?? 0) & HeldMask.former != 0
        facts.heldBits = facts.heldBits.map { $0 & ~HeldMask.former }
        if let lost = try lost(table, itemID) {
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
        facts.lastPull = try lastPull(table)
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
            let hold = try hold(table, id)
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
    /// Reads why a row is here as it is; see ``SyncContext/explain(table:id:)``.
    init(_ id: String, in table: String, _ engine: SyncEngine) async throws {
        let endpoint = try? engine.remote.get().endpoint.key
        var facts = try await engine.read { try $0.facts(table, id, endpoint: endpoint) }
        // Pulls that brought nothing are not written down.
        facts.lastPull = engine.lastPulls.withLock { $0[table] } ?? facts.lastPull
        self.init(facts)
    }
}

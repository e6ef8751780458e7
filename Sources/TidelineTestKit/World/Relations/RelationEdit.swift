// RelationEdit: the changes that a simulated user makes to related rows.

import Tideline
import TidelineCore

/// A change of one row.
enum RelationEdit: Sendable, CustomStringConvertible {
    /// Inserts a row, with its references by column.
    case insert(table: String, id: String, parents: [String: String?])
    /// Changes the references of a row.
    case move(table: String, id: String, parents: [String: String?])
    case delete(table: String, id: String)
    /// Sets columns of a job that are subject to rules.
    case setJob(id: String, values: [String: Value])

    var description: String {
        func text(_ parents: [String: String?]) -> String {
            parents.sorted { $0.key < $1.key }.map { " \($0)=\($1 ?? "null")" }.joined()
        }
        return switch self {
        case .insert(let table, let id, let parents): "insert \(table) \(id)\(text(parents))"
        case .move(let table, let id, let parents): "move \(table) \(id)\(text(parents))"
        case .delete(let table, let id): "delete \(table) \(id)"
        case .setJob(let id, let values): "set Job \(id)\(text(values.mapValues { "\($0)" }))"
        }
    }

    /// Records the value that the edit set in the local column of a job.
    ///
    /// If the app was killed during the edit, it is not known whether the value was stored, so the
    /// value is removed.
    func record(in values: inout [String: Value], isCertain: Bool) {
        switch self {
        case .insert("Job", let id, _), .delete("Job", let id): values.removeValue(forKey: id)
        case .setJob(let id, let changes):
            guard let value = changes[RelationModels.Job.localColumn] else { return }
            if isCertain { values[id] = value } else { values.removeValue(forKey: id) }
        case .insert, .delete, .move: return
        }
    }

    private static func set(_ parents: [String: String?], in row: inout Row) {
        for (column, id) in parents { row[column] = id.map(Value.string) ?? .null }
    }

    private static func row(_ id: String, _ parents: [String: String?]) -> Row {
        var row: Row = ["id": .string(id)]
        set(parents, in: &row)
        return row
    }

    /// Makes the change outside a transaction.
    func make(_ client: SyncClient) async throws {
        switch self {
        case .insert(let table, let id, let parents):
            _ = try await client.syncTable(named: table).insert(Self.row(id, parents))
        case .move(let table, let id, let parents):
            _ = try await client.syncTable(named: table).update(id: id) {
                Self.set(parents, in: &$0)
            }
        case .delete(let table, let id):
            try await client.syncTable(named: table).delete(id: id)
        case .setJob(let id, let values):
            _ = try await client.syncTable(named: "Job").update(id: id) { row in
                for (column, value) in values { row[column] = value }
            }
        }
    }

    /// Makes the change in a transaction.
    func make(_ transaction: SyncTransaction) throws {
        switch self {
        case .insert(let table, let id, let parents):
            _ = try transaction.table(named: table).insert(Self.row(id, parents))
        case .move(let table, let id, let parents):
            _ = try transaction.table(named: table).update(id: id) {
                Self.set(parents, in: &$0)
            }
        case .delete(let table, let id):
            try transaction.table(named: table).delete(id: id)
        case .setJob(let id, let values):
            _ = try transaction.table(named: "Job").update(id: id) { row in
                for (column, value) in values { row[column] = value }
            }
        }
    }
}

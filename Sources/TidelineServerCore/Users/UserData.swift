// UserData: finds the data of one user in a database. It reads all tables, like a copy.

import Foundation
import TidelineCore

/// The data of one user in a database.
package struct UserData {
    private let source: any CopySource
    /// The owner column by table name, in lower case.
    private let owners: [String: String]

    private static let pieceMax = 2000

    /// - Parameters:
    ///   - source: The database.
    ///   - tables: The declared tables, with their owner columns.
    package init(_ source: any CopySource, tables: [TableDefinition]) {
        self.source = source
        owners = Dictionary(
            tables.compactMap { table in table.owner.map { (table.name.lowercased(), $0) } }
        ) { first, _ in first }
    }

    /// Reads the whole database and reports the data of a user.
    ///
    /// - Parameters:
    ///   - user: The id of the user, compared byte by byte.
    ///   - line: Called with each row or entry as a JSON object.
    /// - Returns: The numbers of rows, tombstones, and entries of change log, merge bases, ledger and audit
    ///   log.
    /// - Throws: ``DatabaseError``, and the errors of `line`.
    package func read(
        _ user: String,
        line: (String) throws -> Void = { _ in }
    ) throws -> [(part: String, count: Int)] {
        var found = Found(user: user)
        let tables = try source.state().tables.map { copied in
            var definition = copied.definition
            let column = owners[definition.name.lowercased()] ?? definition.owner
            definition.owner =
                definition.schema.columns.first {
                    $0.name.lowercased() == column?.lowercased()
                }?.name
            return Table(definition)
        }
        let ownerNames = Set(tables.compactMap(\.definition.owner))
        for part in tables.map({ CopyPart.rows($0) }) + tables.map({ CopyPart.log($0) })
            + [.bases, .ledger, .audit]
        {
            var after: [String] = []
            repeat {
                let (piece, key) = try source.piece(part, after: after, limit: Self.pieceMax)
                try found.take(piece, ownerNames, line)
                after = piece.count < Self.pieceMax ? [] : key
            } while !after.isEmpty
        }
        return found.counts
    }
}

/// The data that was found so far.
private struct Found {
    let user: String
    private(set) var counts: [(part: String, count: Int)] = []
    /// The rows of the user, each as the table's name in lower case and the id.
    private var rows: Set<[String]> = []

    init(user: String) {
        self.user = user
    }

    private func isOfUser(_ text: String?) -> Bool {
        text?.utf8.elementsEqual(user.utf8) ?? false
    }

    mutating func take(
        _ piece: CopyChunk,
        _ owners: Set<String>,
        _ line: (String) throws -> Void
    ) throws {
        switch piece {
        case .rows(let images, let table):
            // The rows are one part, and the tombstones another.
            for isDeleted in [false, true] {
                for image in images where image.isDeleted == isDeleted {
                    guard owns(image, table) else { continue }
                    rows.insert([table.name.lowercased(), image.id])
                    let part = isDeleted ? "tombstones" : "rows"
                    add("\(part) of \(table.name)")
                    try line(Self.text(part, table.name, image.stored(in: table).json))
                }
            }
        case .log(let departures, let table):
            for departure in departures
            where owns(departure.image, table) || isKnown(table.name, departure.image.id) {
                add("change log of \(table.name)")
                try line(Self.text("changeLog", table.name, departure.image.stored(in: table).json))
            }
        case .bases(let entries):
            for entry in entries {
                let cells = entry.cells
                let (table, id, row) = (
                    Self.text(cells[0]), Self.text(cells[1]), Self.text(cells[3])
                )
                guard isKnown(table, id) || isOwned(row, owners) else { continue }
                add("merge bases")
                try line(Self.text("mergeBase", table, Array(row.utf8)))
            }
        case .ledger(let entries):
            for entry in entries {
                let cells = entry.cells
                let (caller, row) = (Self.text(cells[1]), Self.text(cells[9]))
                let isOwn = isOfUser(caller.hasPrefix("=") ? String(caller.dropFirst()) : nil)
                guard isOwn || isOwned(row, owners) else { continue }
                add("ledger")
                var writer = JSONWriter()
                writer.raw("{\"part\":\"ledger\",\"request\":")
                writer.string(Self.text(cells[0]))
                writer.raw(",\"id\":")
                writer.string(Self.text(cells[5]))
                writer.raw(",\"outcome\":")
                writer.string(Self.text(cells[4]))
                writer.raw(",\"row\":")
                writer.raw(row.isEmpty ? "null" : row)
                writer.raw("}")
                try line(writer.text)
            }
        // An entry lasts until its cascade ends.
        case .cascades: break
        case .audit(let entries):
            for entry in entries
            where isOfUser(entry.author.user) || isKnown(entry.table, entry.id) {
                add("audit")
                var writer = JSONWriter()
                writer.raw("{\"part\":\"audit\",\"table\":")
                writer.string(entry.table)
                writer.raw(",\"id\":")
                writer.string(entry.id)
                writer.raw(",\"action\":")
                writer.string(entry.action.rawValue)
                writer.raw(",\"time\":")
                writer.date(Timestamp(microseconds: entry.timestamp))
                writer.raw(",\"user\":")
                if let user = entry.author.user { writer.string(user) } else { writer.null() }
                writer.raw(",\"device\":")
                if let device = entry.author.device { writer.string(device) } else { writer.null() }
                writer.raw(",\"columns\":")
                writer.string(entry.columnsText)
                writer.raw("}")
                try line(writer.text)
            }
        }
    }

    private mutating func add(_ part: String) {
        guard let place = counts.firstIndex(where: { $0.part == part }) else {
            return counts.append((part, 1))
        }
        counts[place].count += 1
    }

    private func owns(_ image: RowImage, _ table: Table) -> Bool {
        guard let place = table.ownerIndex, case .text(let owner) = image.values[place] else {
            return false
        }
        return isOfUser(owner)
    }

    private func isKnown(_ table: String, _ id: String) -> Bool {
        rows.contains([table.lowercased(), id])
    }

    /// Returns whether a row in its wire form has the user in an owner column.
    private func isOwned(_ row: String, _ owners: Set<String>) -> Bool {
        guard !row.isEmpty, row.utf8.count >= user.utf8.count,
            let object = try? JSONSerialization.jsonObject(with: Data(row.utf8)) as? [String: Any]
        else { return false }
        return owners.contains { isOfUser(object[$0] as? String) }
    }

    private static func text(_ value: SQLValue) -> String {
        if case .text(let text) = value { text } else { "" }
    }

    private static func text(_ part: String, _ table: String, _ row: [UInt8]) -> String {
        var writer = JSONWriter()
        writer.raw("{\"part\":")
        writer.string(part)
        writer.raw(",\"table\":")
        writer.string(table)
        writer.raw(",\"row\":")
        writer.raw(row)
        writer.raw("}")
        return writer.text
    }
}

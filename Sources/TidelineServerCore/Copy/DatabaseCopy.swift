// DatabaseCopy: copies a database, part by part.
//
//     begin    the tables are created in the target; from then on no server opens it
//     rows, logs, bases, ledger, audit, cascades    one portion per transaction, with the progress
//     end      clocks and epoch; now it is the same database for every device
//
// A copy that was killed continues after its last portion. The source must not change in the meantime: its clocks are
// compared when the copy resumes and at the end.

import Foundation
package import TidelineCore

/// A table and the data that is stored with it outside of its rows.
package struct CopiedTable: Hashable, Sendable {
    package var definition: TableDefinition
    package var clock: TableClock
    /// The scope of its change log.
    package var log: String?

    package init(
        definition: TableDefinition,
        clock: TableClock,
        log: String?
    ) {
        self.definition = definition
        self.clock = clock
        self.log = log
    }
}

/// The state of the database that does not belong to a row.
package struct CopiedState: Hashable, Sendable {
    package var epoch: String
    /// The time of the youngest entry that was removed from the ledger.
    package var ledgerHorizon: Int64?
    /// The number of entries in the ledger, followed by the first and the last one.
    ///
    /// They are compared as well, because a write that changes no row can have an entry.
    package var ledger: [Int64]
    package var tables: [CopiedTable]

    package init(
        epoch: String,
        ledgerHorizon: Int64?,
        ledger: [Int64],
        tables: [CopiedTable]
    ) {
        self.epoch = epoch
        self.ledgerHorizon = ledgerHorizon
        self.ledger = ledger
        self.tables = tables
    }

    /// A string that changes with each write to the database.
    var fingerprint: String {
        let clocks = tables.map { table in
            "\(table.definition.name) \(table.clock.timestamp) \(table.clock.horizon)"
        }
        let state = [epoch, ledgerHorizon.map { "\($0)" } ?? ""] + ledger.map { "\($0)" }
        return SHA256.hash((state + clocks).joined(separator: "\n").utf8).prefix(16)
            .map { String($0, radix: 16) }.joined(separator: ".")
    }
}

/// A former row in a change log.
package struct CopiedDeparture: Hashable, Sendable {
    package var timestamp: Int64
    package var isDeleted: Bool
    package var image: RowImage

    package init(timestamp: Int64, isDeleted: Bool, image: RowImage) {
        self.timestamp = timestamp
        self.isDeleted = isDeleted
        self.image = image
    }
}

/// A base row for merges or an entry of the ledger, as cells in the order of the columns.
package struct CopiedCells: Hashable, Sendable {
    package var cells: [SQLValue]

    package init(_ cells: [SQLValue]) { self.cells = cells }

    /// The columns of a base row for merges.
    package static let ofBase = ["table", "id", "version", "row"]
    /// The columns of a ledger entry, without the size, which is computed from the entry.
    package static let ofEntry = [
        "request", "caller", "received", "digest", "outcome", "id", "version", "updatedAt",
        "deleted", "row",
    ]
}

/// A portion of the copied data, all of one kind.
package enum CopyChunk: Sendable {
    case rows([RowImage], of: Table)
    case log([CopiedDeparture], of: Table)
    case bases([CopiedCells])
    case ledger([CopiedCells])
    case audit([AuditEntry])
    case cascades([PendingCascade])

    var count: Int {
        switch self {
        case .rows(let rows, _): rows.count
        case .log(let log, _): log.count
        case .bases(let cells), .ledger(let cells): cells.count
        case .audit(let entries): entries.count
        case .cascades(let entries): entries.count
        }
    }
}

/// The part of the database that a portion belongs to.
package enum CopyPart: Sendable {
    case rows(Table)
    case log(Table)
    case bases
    case ledger
    case audit
    case cascades

    var text: String {
        switch self {
        case .rows(let table): "rows of \(table.name)"
        case .log(let table): "log of \(table.name)"
        case .bases: "rows to merge by"
        case .ledger: "ledger"
        case .audit: "audit"
        case .cascades: "pending cascades"
        }
    }
}

/// The progress of a copy, which is stored in the target.
package struct CopyProgress: Hashable, Sendable, Codable {
    /// The state of the source when the copy began.
    package var source: String
    /// The index of the current part.
    package var part = 0
    /// The key of the last portion; empty before the first.
    package var after: [String] = []

    init(source: String) { self.source = source }

    /// Parses the stored progress; nil if a copy of a different version wrote it.
    package init?(_ text: String) {
        guard let progress = try? JSONDecoder().decode(Self.self, from: Data(text.utf8)) else {
            return nil
        }
        self = progress
    }

    package var text: String {
        let data = try? JSONEncoder().encode(self)
        return String(decoding: data ?? Data(), as: UTF8.self)
    }

    /// The key under which the progress of an incomplete copy is stored.
    package static let key = "copy"

    /// The message of a server that is started with an incomplete copy.
    package static let rejection =
        "The copy into this database is incomplete. Run 'tideline copy' with the same addresses to "
        + "resume it, or remove the database."
}

/// The database that the rows are copied from.
package protocol CopySource {
    func state() throws -> CopiedState
    /// The columns that are not copied because the server does not know them: `table.column`.
    func leftOut() throws -> [String]
    /// Returns the next portion after a key, with its own key; the key is nil at the end.
    func piece(
        _ part: CopyPart,
        after: [String],
        limit: Int
    ) throws -> (piece: CopyChunk, key: [String])
}

extension CopySource {
    /// Returns no columns.
    package func leftOut() throws -> [String] { [] }
}

/// The database that the rows are copied into.
package protocol CopyTarget {
    /// Returns the progress of a copy into this database; nil if no copy was begun.
    ///
    /// - Throws: ``DatabaseError`` if it has tables that no copy created.
    func progress() throws -> CopyProgress?
    /// Creates the tables.
    func begin(_ state: CopiedState, _ progress: CopyProgress) throws
    /// Stores a portion and the progress in one transaction.
    func put(_ piece: CopyChunk, _ progress: CopyProgress) throws
    /// Completes the copy, so that servers can open the database.
    func end(_ state: CopiedState) throws
}

/// A copy of all data of a server from one database into another, in parts.
package struct DatabaseCopy {
    private let source: any CopySource
    private let target: any CopyTarget

    /// The maximum number of rows of a transaction.
    private static let pieceMax = 2000

    package init(from source: any CopySource, to target: any CopyTarget) {
        self.source = source
        self.target = target
    }

    /// Copies the remaining portions; reports the number of rows or entries in each.
    ///
    /// - Returns: The columns that were not copied because the server does not know them: `table.column`.
    /// - Throws: ``DatabaseError``; the next copy continues after the last stored portion.
    package func run(_ report: (_ part: String, _ count: Int) throws -> Void) throws -> [String] {
        let state = try source.state()
        let fresh = CopyProgress(source: state.fingerprint)
        var progress = try target.progress() ?? fresh
        guard progress.source == fresh.source else { throw Self.sourceChanged }
        if progress == fresh { try target.begin(state, progress) }
        let parts = Self.parts(state)
        while progress.part < parts.count {
            let part = parts[progress.part]
            let (piece, key) = try source.piece(
                part,
                after: progress.after,
                limit: Self.pieceMax
            )
            let isLast = piece.count < Self.pieceMax
            progress.after = isLast ? [] : key
            if isLast { progress.part += 1 }
            try target.put(piece, progress)
            try report(part.text, piece.count)
        }
        guard try source.state() == state else { throw Self.sourceChanged }
        let leftOut = try source.leftOut()
        try target.end(state)
        return leftOut
    }

    private static func parts(_ state: CopiedState) -> [CopyPart] {
        let tables = state.tables.map { Table($0.definition) }
        return tables.map { .rows($0) } + tables.map { .log($0) }
            + [.bases, .ledger, .audit, .cascades]
    }

    private static let sourceChanged = DatabaseError(
        .inUse,
        "The source database changed during the copy. Stop its servers, remove the target database, and "
            + "copy again."
    )
}

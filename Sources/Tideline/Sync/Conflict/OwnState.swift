// OwnState: a state of a row on the server that an accepted push of this device replaced. A record that
// was read in such a state counts as current (docs/local-rows.md, "Updates of older records").

import Foundation
import TidelineCore

/// A state of a row on the server, and the version with which this device's accepted push replaced it.
///
/// The states of a row form a chain, oldest first: each was replaced by the next one. They are valid only if
/// the last one was replaced by the row's current version.
struct OwnState: Sendable, Hashable {
    /// The key in the store; 0 before it is stored.
    var id: Int64 = 0
    /// The version and time of the state; neither for a row that the app inserted and that was not pushed.
    var state: RowState
    /// The state that replaced this one.
    var next = Successor.none
    /// The former values of the columns that changed when the state was replaced.
    var former = Row()
    /// The columns, and members of JSON objects, that records read in this state have set.
    var columnsSet: Set<String> = []

    var isInserted: Bool { state == .inserted }

    /// The replacement of a state.
    enum Successor: Sendable, Hashable {
        /// No state: this one is current, and an update has set some of its columns.
        case none
        /// An accepted push of this device, which resulted in this version.
        case version(String)
        /// Another writer, or the replacement is not known.
        case otherWriter
    }
}

/// The relation of the state in which a record was read to the stored row.
enum RecordAge: Sendable, Hashable {
    /// The record was read in the stored row's state.
    case current
    /// Only accepted pushes of this device have replaced the state; `row` is the row in that state.
    ///
    /// This also applies to the server's current state, if an unsent update of an older record gave the stored
    /// row the older state.
    case own(OwnState, row: Row)
    /// Another writer has replaced the state, or that is not known; the version is empty if the record has
    /// none.
    case older(version: String)

    /// Compares a record's state with the stored row and its own states.
    ///
    /// A record without a state is the inserted one if this device inserted the row; otherwise it counts as
    /// current.
    ///
    /// - Parameters:
    ///   - record: The state of the record; nil if it has none.
    ///   - stored: The stored row.
    ///   - base: The base of the row's first operation.
    ///   - own: The own states of the row, oldest first.
    init(of record: RowState?, stored: Row, base: Row?, own: [OwnState]) {
        let now = RowState(stored)
        if record?.matches(now) ?? !stored.isFromServer {
            self = .current
            return
        }
        if let record, let base, record.matches(RowState(base)) {
            let noted = own.last { $0.next == .none && record.matches($0.state) }
            self = .own(noted ?? OwnState(state: RowState(base)), row: base)
            return
        }
        let index = own.firstIndex { record?.matches($0.state) ?? $0.isInserted }
        guard let index else {
            self = record.map { .older(version: $0.version ?? "") } ?? .current
            return
        }
        let following = own[index...]
        guard following.isChain(to: now.version), own[index].next != .none else {
            // The record of an insert is as old as the version that its push got.
            let inserted = if case .version(let version) = own[index].next { version } else { "" }
            self = .older(version: record.map { $0.version ?? "" } ?? inserted)
            return
        }
        // The local row may have unsent changes.
        var row = base.flatMap { $0.version == now.version ? $0 : nil } ?? stored
        for state in following.reversed() {
            for (name, value) in state.former { row[name] = value }
        }
        self = .own(own[index], row: row)
    }
}

extension Collection<OwnState> {
    /// Returns whether only pushes of this device led from the first state to a version.
    fileprivate func isChain(to version: String?) -> Bool {
        var place: String?
        for (offset, own) in enumerated() {
            if offset > 0, own.state.version != place { return false }
            switch own.next {
            case .version(let next): place = next
            // Only the last state has no successor.
            case .none: place = own.state.version
            case .otherWriter: return false
            }
        }
        return !isEmpty && place == version
    }
}

extension [OwnState] {
    /// The state of a row that the app inserted and that has not been accepted yet, if it is the last state.
    var pendingInsert: OwnState? { last.flatMap { $0.isInserted && $0.next == .none ? $0 : nil } }

    /// Returns whether the last state has a version, or was replaced by it.
    func leads(to version: String?) -> Bool { suffix(1).isChain(to: version) }
}

// MARK: - Changes

extension OwnState {
    /// The maximum number of states of one row.
    ///
    /// The oldest one is kept, because an app's editor may show it for a long time.
    static let statesMax = 100

    /// Creates the state that an accepted operation replaced; nil if it is not known.
    ///
    /// `sent` is the row that was sent, and `after` is the row that the server has now.
    init?(replacedBy operation: QueuedOperation, sent: Row?, after: Row) {
        // Only versions link the states.
        guard let replacement = after.version else { return nil }
        next = .version(replacement)
        let version = operation.basisVersion ?? operation.basis.base?.version
        let known = [operation.basis.base, operation.basis.latest?.row]
        let base = known.lazy.compactMap { $0 }.first { $0.version == version }
        if let base, version != nil {
            state = RowState(base)
            former = RowMerge.changes(from: after, to: base)
        } else if let sent, operation.basis.base == nil,
            operation.kind == .insert ? version == nil : operation.revives
        {
            // This includes an insert that undeletes a row of the server.
            state = .inserted
            former = RowMerge.changes(from: after, to: sent)
        } else {
            return nil
        }
    }
}

// MARK: - Stored form

extension OwnState {
    func storedRow(_ key: RowKey) -> Row {
        var known = former
        known[SystemColumn.version] = state.version.map(Value.string)
        known[SystemColumn.updatedAt] = state.updatedAt
        var row: Row = [
            "table": .string(key.table), "itemId": .string(key.itemID),
            "state": .string(RowText.json(known).text),
        ]
        row["next"] =
            switch next {
            case .none: .null
            case .version(let version): .string(version)
            case .otherWriter: ""
            }
        row["columns"] = columnsSet.isEmpty ? .null : .string(Self.text(columnsSet))
        if id > 0 { row["id"] = .integer(id) }
        return row
    }

    /// Creates the state from a row of the store; nil if another program changed the row.
    init?(storedRow row: Row, schema: TableSchema?) {
        guard case .integer(let id)? = row["id"], let text = row["state"]?.text,
            var known = RowText.row(Data(text.utf8), schema)
        else { return nil }
        self.id = id
        state = RowState(known)
        for name in [SystemColumn.version, SystemColumn.updatedAt] { known[name] = nil }
        former = known
        next =
            switch row["next"]?.text {
            case nil: .none
            case ""?: .otherWriter
            case let version?: .version(version)
            }
        columnsSet = Self.columns(row["columns"]?.text)
    }

    private static func text(_ columns: Set<String>) -> String {
        (try? JSONEncoder().encode(columns.sorted())).map { String(decoding: $0, as: UTF8.self) }
            ?? "[]"
    }

    private static func columns(_ text: String?) -> Set<String> {
        guard let text, let names = try? JSONDecoder().decode([String].self, from: Data(text.utf8))
        else { return [] }
        return Set(names)
    }
}

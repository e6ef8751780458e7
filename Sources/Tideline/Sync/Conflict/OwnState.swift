// OwnState: a former server state of a row that an accepted push of this device replaced. A record
// that was read in such a state counts as current (docs/local-rows.md, "Updates of older records").

import Foundation
import TidelineCore

/// A former server state of a row, and the version that replaced it when this device's push was
/// accepted.
///
/// The states of a row form a chain, oldest first: each one was replaced by the next one. The chain
/// is valid only if the row's current version replaced the last state.
struct OwnState: Sendable, Hashable {
    /// The key in the store; 0 if the state is not stored yet.
    var id: Int64 = 0
    /// The version and time of the state; both are nil for a row that the app inserted and has not
    /// pushed yet.
    var state: RowState
    /// The state that replaced this one.
    var next = Successor.none
    /// The old values of the columns that changed when the state was replaced.
    var former = Row()
    /// The columns, and members of JSON objects, that the app has set with records read in this
    /// state.
    var columnsSet: Set<String> = []

    var isInserted: Bool { state == .inserted }

    /// The replacement of a state.
    enum Successor: Sendable, Hashable {
        /// The state is current, and an update has set some of its columns.
        case none
        /// An accepted push of this device replaced the state with this version.
        case version(String)
        /// Another writer replaced the state, or it is not known what replaced it.
        case otherWriter
    }
}

/// The relation between the state of a record and the state of the stored row.
enum RecordAge: Sendable, Hashable {
    /// The record was read in the stored row's state.
    case current
    /// Only accepted pushes of this device have replaced the record's state; `row` is the row in
    /// that state.
    ///
    /// This case also applies to the server's current state, if an unsent update with an older
    /// record gave the stored row the older state.
    case own(OwnState, row: Row)
    /// Another writer has replaced the record's state, or it is not known what replaced it.
    ///
    /// The version is that of the record; it is empty if the record has none.
    case older(version: String)

    /// Compares a record's state with the stored row and with the states that this device's pushes
    /// replaced.
    ///
    /// If the record has no state and this device inserted the row, the record counts as the
    /// inserted one. Otherwise, a record without a state counts as current.
    ///
    /// - Parameters:
    ///   - record: The state of the record; nil if it has none.
    ///   - stored: The stored row.
    ///   - base: The base of the row's first operation.
    ///   - own: The states of the row that this device's accepted pushes replaced, oldest first.
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
            // A record of the insert counts as having the version that the insert's push produced.
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
    /// Returns whether only pushes of this device led from the first state to the given version.
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
    /// The last state, if it is that of a row that the app inserted and the server has not accepted
    /// yet.
    var pendingInsert: OwnState? { last.flatMap { $0.isInserted && $0.next == .none ? $0 : nil } }

    /// Returns whether the last state has this version, or was replaced by it.
    func leads(to version: String?) -> Bool { suffix(1).isChain(to: version) }
}

// MARK: - Changes

extension OwnState {
    /// The maximum number of states of one row.
    ///
    /// When there are more, the oldest state is kept, because the app may show it in an editor for
    /// a long time.
    static let statesMax = 100

    /// Creates the state that an accepted operation replaced; nil if that state is not known.
    ///
    /// `sent` is the row that was sent, and `after` is the row that the server has now.
    init?(replacedBy operation: QueuedOperation, sent: Row?, after: Row) {
        // States are linked only by versions.
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
            // An insert that undeletes a row of the server also gets here.
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

    /// Creates the state from a stored row; nil if another program changed the stored row.
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

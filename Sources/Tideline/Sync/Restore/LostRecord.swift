// LostRecord: the stored record of a row that a restored server lost.

import Foundation
import TidelineCore

/// A row that a restored server has lost.
struct LostRecord: Sendable, Hashable {
    var table: String
    var itemID: String
    /// The account that was signed in when the loss was found.
    var account: String?
    /// The state of the row on the restored server; nil if the server has no such row.
    var server: ServerState?
    /// Whether `server` is current; false after a further restore.
    var isChecked = true

    static func key(_ table: String, _ itemID: String) -> Value { .string("\(table)/\(itemID)") }

    var storedRow: Row {
        [
            "id": Self.key(table, itemID), "table": .string(table), "itemId": .string(itemID),
            "account": account.map(Value.string) ?? .null,
            "server": server.map { .string(RowText.json($0.stored).text) } ?? .null,
            "checked": .bool(isChecked),
        ]
    }

    init?(storedRow row: Row, _ catalog: TableCatalog) {
        guard let table = row["table"]?.text, let itemID = row["itemId"]?.text else { return nil }
        self.init(table: table, itemID: itemID, account: row["account"]?.text)
        server = row["server"]?.text
            .flatMap { RowText.row(Data($0.utf8), catalog.schema(table)) }
            .map { ServerState($0) }
        isChecked = row["checked"] == true
    }

    init(table: String, itemID: String, account: String?, server: ServerState? = nil) {
        (self.table, self.itemID, self.account) = (table, itemID, account)
        self.server = server
    }

    /// Returns whether the lost row belongs to another account, which has to decide about it.
    ///
    /// Lost rows that were found while no account was signed in belong to all accounts.
    func belongsToOther(than view: AccountView) -> Bool {
        guard view != .unused, let account else { return false }
        return view.id.map(ItemKey.init) != ItemKey(account)
    }

    /// Returns the operation in the form that updates the restored server's row, or inserts the
    /// row.
    func based(_ change: QueuedOperation) -> QueuedOperation {
        var operation = change
        switch server {
        case .row(let row):
            operation.basis = RowBasis(base: row)
        case .deleted(let version?, _) where operation.kind != .delete:
            operation.kind = .update
            operation.revives = true
            operation.sendsWholeRow = true
            operation.basisVersion = version
        case .deleted, nil:
            operation.kind = operation.kind == .delete ? .delete : .insert
            operation.basisVersion = nil
            operation.sendsWholeRow = false
        }
        return operation
    }
}

/// The point in time to which a server was restored, taken from its epoch.
package struct RestorePoint: Hashable, Sendable {
    /// The time of the latest commit, in microseconds since 1970; nil if the epoch does not contain
    /// it.
    package var commit: Int64?

    /// - Parameter epoch: A `Tideline-Epoch`: the name of the epoch, a dot, and the commit in
    ///   hexadecimal digits.
    package init(epoch: String?) {
        let parts = epoch?.split(separator: ".", omittingEmptySubsequences: false) ?? []
        commit = parts.count == 2 ? Int64(parts[1], radix: 16).flatMap { $0 > 0 ? $0 : nil } : nil
    }

    init(commit: Int64?) { self.commit = commit }

    /// Returns whether this state of a row was committed after the restore point.
    ///
    /// The restored server never had such a state, so its later states do not include it.
    func isBefore(_ row: Row) -> Bool {
        guard let commit else { return false }
        if let timestamp = row.commit { return timestamp > commit }
        guard case .date(let date) = row[SystemColumn.updatedAt] else { return false }
        return Timestamp(date).milliseconds > commit / 1000
    }

    /// Returns whether the restored server has lost a state of a row that was pulled before the
    /// restore.
    ///
    /// The server's state may have been committed later, by a device that never received the lost
    /// state. A row that was deleted later is not lost, because a device deleted it on purpose.
    /// Neither row has columns that stay on the device.
    func hasLost(_ local: Row, server: Row) -> Bool {
        guard local.version != server.version else { return false }
        guard server[SystemColumn.deleted] != true else { return local.isLater(than: server) }
        guard !local.hasValues(of: server) else { return false }
        return local.isLater(than: server) || isBefore(local)
    }
}

/// The facts about a table that may have rows from before a restore.
struct FormerRows: Hashable, Sendable {
    enum Cause: String {
        /// The epoch changed.
        case found
        /// The epoch changed, and the app has received the event about it.
        case reported
        /// Rows were sent before the table was pulled for the first time, so there may have been a
        /// restore that is not known.
        case sent
    }

    var cause: Cause
    var restore: RestorePoint

    init(_ cause: Cause, restore: RestorePoint) {
        self.cause = cause
        self.restore = restore
    }

    /// Parses the stored text: a word, a space, and the latest commit of the restored server.
    init(_ text: String) {
        let parts = text.split(separator: " ")
        cause = parts.first.flatMap { Cause(rawValue: String($0)) } ?? .found
        restore = RestorePoint(commit: parts.count == 2 ? Int64(parts[1]) : nil)
    }

    var text: String { cause.rawValue + (restore.commit.map { " \($0)" } ?? "") }
}

extension MembershipMask {
    /// The bit of a row that was pulled before a restore and that no page has returned since then.
    static let former: Int64 = 1 << 62

    /// The bit of all pulls without a query id, which may be pulls of any account.
    static let withoutID: Int64 = 1 << Int64(QueryHold.withoutID)
}

extension Row {
    /// Returns whether two states of a row have the same values, regardless of their membership
    /// masks.
    func hasValues(of other: Row) -> Bool {
        RowMerge.differing(self, other).allSatisfy { $0 == MembershipMask.name }
    }

    /// Returns whether this state of a row was committed later than another one; false if a state
    /// has no time.
    ///
    /// If the times are equal in milliseconds, the versions are compared if a Tideline server wrote
    /// them, because these contain microseconds. Otherwise, this state counts as later if the
    /// versions differ.
    func isLater(than other: Row) -> Bool {
        guard case .date(let mine) = self[SystemColumn.updatedAt],
            case .date(let theirs) = other[SystemColumn.updatedAt]
        else { return false }
        let (first, second) = (Timestamp(mine).milliseconds, Timestamp(theirs).milliseconds)
        guard first == second else { return first > second }
        guard let mine = commit, let theirs = other.commit else { return version != other.version }
        return mine > theirs
    }

    /// The commit time that a version of a Tideline server contains, in microseconds since 1970.
    var commit: Int64? {
        guard let bytes = version.flatMap({ Data(base64Encoded: $0) }), bytes.count == 8 else {
            return nil
        }
        return bytes.reduce(0) { $0 << 8 | Int64($1) }
    }
}

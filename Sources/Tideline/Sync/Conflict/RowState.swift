// RowState: identifies and compares states of a row. Pure.

import TidelineCore

/// The property that identifies the state in which a record was read.
package enum RecordIdentity: Sendable {
    case version
    case updatedAt
    case nothing
}

/// The identity of a row's state on the server: its version and `updatedAt`.
struct RowState: Sendable, Hashable {
    var version: String?
    var updatedAt: Value?

    /// The state of a row that the app inserted and has not pushed yet.
    static let inserted = RowState(version: nil, updatedAt: nil)

    private init(version: String?, updatedAt: Value?) {
        self.version = version
        self.updatedAt = updatedAt
    }

    init(_ stored: Row) {
        let time = stored[SystemColumn.updatedAt] ?? .null
        self.init(version: stored.version, updatedAt: time.isNull ? Value?.none : time)
    }

    /// Creates the state of a record; nil if the record has no state.
    init?(_ record: Row, _ identity: RecordIdentity) {
        switch identity {
        case .version:
            guard let version = record.version else { return nil }
            self.init(version: version, updatedAt: nil)
        case .updatedAt:
            guard let time = record[SystemColumn.updatedAt], !time.isNull else { return nil }
            self.init(version: nil, updatedAt: time)
        case .nothing:
            return nil
        }
    }

    /// Returns whether a record with this state was read in the state `state`.
    func matches(_ state: RowState) -> Bool {
        version.map { $0 == state.version } ?? (updatedAt == state.updatedAt)
    }
}

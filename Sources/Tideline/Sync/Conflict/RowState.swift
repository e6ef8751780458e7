// RowState: the identity of a row's state on the server. Pure.

import TidelineCore

/// The identity of the state in which a record was read.
package enum RecordIdentity: Sendable {
    case version
    case updatedAt
    case nothing
}

struct RowState: Sendable, Hashable {
    var version: String?
    var updatedAt: Value?

    init(version: String?, updatedAt: Value? = nil) {
        self.version = version
        self.updatedAt = updatedAt
    }

    init(_ stored: Row) {
        self.init(version: stored.version, updatedAt: stored[SystemColumn.updatedAt])
    }

    /// Returns the state that a record names; nil if it names none.
    init?(_ record: Row, _ identity: RecordIdentity) {
        switch identity {
        case .version:
            guard let version = record.version else { return nil }
            self.init(version: version)
        case .updatedAt:
            guard let time = record[SystemColumn.updatedAt], !time.isNull else { return nil }
            self.init(version: nil, updatedAt: time)
        case .nothing:
            return nil
        }
    }

    /// Returns whether a record with this state was read in that state.
    func isSaid(of state: RowState) -> Bool {
        version.map { $0 == state.version } ?? (updatedAt == state.updatedAt)
    }

    /// The state as a number: different states have different numbers, except for one case in 2^64.
    struct Mark: Sendable, Hashable {
        private let hash: Int?

        fileprivate init(_ hash: Int?) { self.hash = hash }

        /// The number of no state.
        static let none = Mark(nil)
    }

    var mark: Mark {
        var hasher = Hasher()
        hasher.combine(version)
        if version == nil { hasher.combine(updatedAt ?? .null) }
        return Mark(hasher.finalize())
    }
}

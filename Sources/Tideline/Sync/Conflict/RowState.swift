// RowState: what tells one state of a row on the server from another. Pure.

import TidelineCore

/// What of a record tells the state that it was read in.
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

    /// What a record says of its state; nil where it says nothing.
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

    /// Whether a record that says this was read in that state.
    func isSaid(of state: RowState) -> Bool {
        version.map { $0 == state.version } ?? (updatedAt == state.updatedAt)
    }

    /// The state as a number: states that are told apart differ, but for one case in 2^64.
    struct Mark: Sendable, Hashable {
        private let hash: Int?

        fileprivate init(_ hash: Int?) { self.hash = hash }

        /// That of no state.
        static let none = Mark(nil)
    }

    var mark: Mark {
        var hasher = Hasher()
        hasher.combine(version)
        if version == nil { hasher.combine(updatedAt ?? .null) }
        return Mark(hasher.finalize())
    }
}

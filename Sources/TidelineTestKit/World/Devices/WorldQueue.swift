// WorldQueue: which operations can be sent.

package import Tideline

/// A search for the operations of a queue that no rejected operation blocks.
package enum WorldQueue {
    /// Returns the operations that are not parked and do not depend on a parked one.
    ///
    /// An operation depends on the earlier operations of its row, on the rest of its atomic group, and on the
    /// dependencies of all of these, because groups that share a row are sent one after the other (docs/sync.md).
    package static func unblocked(_ operations: [PendingOperation]) -> [PendingOperation] {
        var blocked = operations.filter(\.isParked)
        while true {
            let first = Dictionary(blocked.map { ($0.itemID, $0.id) }, uniquingKeysWith: min)
            let groups = Set(blocked.compactMap(\.groupID))
            let all = operations.filter { operation in
                let isLater = first[operation.itemID].map { $0 <= operation.id } ?? false
                return isLater || operation.groupID.map(groups.contains) ?? false
            }
            guard all.count > blocked.count else { break }
            blocked = all
        }
        let ids = Set(blocked.map(\.id))
        return operations.filter { !ids.contains($0.id) }
    }
}

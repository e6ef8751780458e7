// WorldQueue: finds the operations that can be sent.

package import Tideline

/// A search for queued operations that no rejected operation blocks.
package enum WorldQueue {
    /// Returns the operations that are not parked and do not depend on a parked operation.
    ///
    /// An operation depends on earlier operations of its row, on the rest of its atomic group, and
    /// on the dependencies of all of these. The reason is that groups that share a row are sent one
    /// after the other (docs/sync.md).
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

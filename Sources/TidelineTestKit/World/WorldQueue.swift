// WorldQueue: finds the operations that may wait because they depend on a rejected one.

package import Tideline

package enum WorldQueue {
    /// The operations that neither are parked nor depend on a parked one.
    ///
    /// An operation depends on those before it in its row and on the rest of its atomic group, and
    /// on their dependencies: groups that share a row are sent one after the other (docs/SYNC.md).
    package static func heldUp(_ operations: [PendingOperation]) -> [PendingOperation] {
        var waiting = operations.filter(\.isParked)
        while true {
            let first = Dictionary(waiting.map { ($0.itemID, $0.id) }, uniquingKeysWith: min)
            let groups = Set(waiting.compactMap(\.groupID))
            let all = operations.filter { operation in
                let isBehind = first[operation.itemID].map { $0 <= operation.id } ?? false
                return isBehind || operation.groupID.map(groups.contains) ?? false
            }
            guard all.count > waiting.count else { break }
            waiting = all
        }
        let ids = Set(waiting.map(\.id))
        return operations.filter { !ids.contains($0.id) }
    }
}

// WaitCycle: finds groups and operations that wait for each other, so that none of them could be
// sent.
//
// A group waits as a whole. Two groups can therefore wait for each other although none of their
// rows does, for example if each group inserts a parent that the other group refers to. They become
// one group, in which parents come first.

import TidelineCore

/// The groups and operations that wait for each other.
struct WaitCycle {
    let reader: QueueReader
    /// The ids of the operations that will be sent before.
    let taken: Set<Int64>

    /// A group, or an operation without one.
    private enum Unit: Hashable {
        case group(String)
        case operation(Int64)

        init(_ operation: QueuedOperation) {
            self = operation.group.map(Unit.group) ?? .operation(operation.id)
        }
    }

    /// The maximum number of groups and operations that one check examines.
    private static let unitsMax = 256

    /// Returns the operations outside a group that the group waits for and that also wait for the
    /// group.
    ///
    /// - Parameter group: The name of a group that has to wait.
    /// - Returns: The operations; none if no operation waits for the group.
    /// - Throws: The errors of the store.
    func others(of group: String) throws -> [QueuedOperation] {
        let start = Unit.group(group)
        var members: [Unit: [QueuedOperation]] = [:]
        var waits: [Unit: Set<Unit>] = [:]
        var open = [start]
        var delayed = DelayedChildren()
        while let unit = open.popLast(), waits.count < Self.unitsMax {
            guard waits[unit] == nil else { continue }
            waits[unit] = []
            let own = try self.members(of: unit)
            members[unit] = own
            // These operations wait for the app or for another account, not for this group.
            guard own.allSatisfy({ $0.state != .parked && $0.damage == nil && maySend($0) }) else {
                continue
            }
            let before = try operations(before: own, &delayed)
                .filter { !taken.contains($0.id) }.map(Unit.init)
            waits[unit] = Set(before).subtracting([unit])
            open += before
        }
        var cycle: Set = [start]
        var count = 0
        while cycle.count > count {
            count = cycle.count
            for (unit, before) in waits where !before.isDisjoint(with: cycle) {
                cycle.insert(unit)
            }
        }
        cycle.remove(start)
        return cycle.flatMap { members[$0] ?? [] }.sorted { $0.id < $1.id }
    }

    private func members(of unit: Unit) throws -> [QueuedOperation] {
        switch unit {
        case .group(let name): try reader.members(of: name)
        case .operation(let id): try reader.operation(id).map { [$0] } ?? []
        }
    }

    /// Returns the operations that must be sent before these operations, because of their rows or
    /// of references.
    private func operations(
        before members: [QueuedOperation],
        _ delayed: inout DelayedChildren
    ) throws -> [QueuedOperation] {
        let queued = try reader.operations(ofRowsOf: members)
        var result: [QueuedOperation] = []
        for member in members {
            if let first = queued[member.row]?.first,
                let earlier = try Self.operation(before: member, first: first, reader)
            {
                result.append(earlier)
            }
            guard member.frozen == nil else { continue }
            result += try delayed.all(of: member, reader).map(\.operation)
            if let parent = try reader.unsentParents.parent(
                of: member,
                local: try reader.localRow(after: member)
            ) {
                result.append(parent)
            }
        }
        return result
    }

    private func maySend(_ operation: QueuedOperation) -> Bool {
        reader.catalog.names(tableOf: operation) && reader.account.maySend(operation)
    }

    /// Returns the operation on the same row that must be sent before another one; nil if there is
    /// none.
    ///
    /// This is the first operation of the row. If the first operation belongs to the same group, it
    /// is the directly preceding operation, which may belong to another group.
    static func operation(
        before member: QueuedOperation,
        first: QueuedOperation,
        _ reader: QueueReader
    ) throws -> QueuedOperation? {
        guard first.id != member.id else { return nil }
        guard first.group == member.group else { return first }
        return try reader.operation(before: member)
    }
}

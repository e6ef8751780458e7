// PushPreparation+Groups: takes either all operations of an atomic group or none of them.

import TidelineCore

extension PushPreparation {
    /// Freezes a group.
    ///
    /// If one of its operations has to wait, the whole group waits. If one is parked or cannot be
    /// decoded, the whole group is parked. The group is checked again each time its operations
    /// change.
    func take(
        _ members: [QueuedOperation],
        of group: String,
        isFirst: Bool,
        _ work: inout Work
    ) throws -> Step {
        var members = members
        while true {
            if let step = try step(members, of: group, isFirst: isFirst, &work) { return step }
            members = try queue.reader.members(of: group)
            work.delayed = DelayedChildren()
        }
    }

    /// Runs one pass of `take(_:of:isFirst:_:)`; returns nil if the operations of the group changed
    /// during the pass.
    private func step(
        _ members: [QueuedOperation],
        of group: String,
        isFirst: Bool,
        _ work: inout Work
    ) throws -> Step? {
        let waits = members.contains { member in
            work.slice.blockedRows.contains(member.row)
                || !isFirst && work.slice.closed.contains(member.row)
        }
        if waits { return .passed }
        let cannotBeRead = members.filter { $0.damage != nil && queue.account.owns($0) }
        for member in cannotBeRead where member.state != .parked {
            try parkDamaged(member, &work)
        }
        guard members.allSatisfy(isOurs) else { return .passed }
        if let cause = cannotBeRead.first ?? members.first(where: { $0.state == .parked }) {
            try park(members.filter { $0.damage == nil }, because: cause, &work)
            return .passed
        }
        guard members.allSatisfy({ mayGo($0, work) }) else { return .passed }
        guard !work.isClosed, members.allSatisfy({ !work.rows.contains($0.row) }) else {
            return .full
        }
        let queued = try queue.reader.operations(ofRowsOf: members)
        var isWaiting = false
        for member in members {
            guard let first = queued[member.row]?.first, first.id != member.id,
                let earlier = try WaitCycle.operation(before: member, first: first, queue.reader)
            else { continue }
            if earlier.group == group {
                // Groups were merged, for example when the app resolved a row that belongs to all
                // of them. The next operation on the row joins the merged group.
                if earlier.id == first.id {
                    _ = try Settlement(queue: queue).collapse(unsure(earlier, work), member)
                    return nil
                }
            } else if earlier.group == nil, earlier.damage == nil, first.group == group {
                // The operation is between two operations of the group.
                var joined = earlier
                joined.group = group
                try queue.put(joined)
                return nil
            } else {
                isWaiting = true
            }
        }
        for member in members where !isWaiting {
            if try joinCycle(of: member, &work) != nil { return nil }
            isWaiting = try waitsForParent(member, &work)
        }
        if isWaiting {
            // The operations that the group waits for are sent first. Then the group is checked
            // again.
            let cycle = try WaitCycle(reader: queue.reader, taken: work.ids).others(of: group)
            if cycle.isEmpty {
                work.result.isWaiting = true
                return .passed
            }
            for var operation in cycle {
                operation.group = group
                try queue.put(operation)
            }
            return nil
        }
        guard work.result.operations.isEmpty || work.slice.groups == .together,
            work.hasRoom(for: members.count, bytes: 0)
        else { return .full }
        return try freeze(GroupOrder(reader: queue.reader).sorted(members), &work)
    }

    /// Combines operations into one group if their inserts refer to each other in a cycle with the
    /// operation's row.
    ///
    /// - Returns: The name of the group; nil if nothing was changed.
    func joinCycle(of operation: QueuedOperation, _ work: inout Work) throws -> String? {
        guard work.slice.groups != .split,
            try mayWaitForParents(operation.table, &work),
            queue.catalog.references.isCircular(operation.table)
        else { return nil }
        let inserts = CircularInserts(reader: queue.reader)
        var known = try inserts.cycle(of: operation, limit: UnsentParents.ancestorsMax)
        if known == nil, work.result.operations.isEmpty, !work.hasExaminedLongCycle {
            // In a longer cycle, all operations would wait for each other. The search runs only
            // once per slice to limit its cost.
            work.hasExaminedLongCycle = true
            known = try inserts.cycle(of: operation, limit: queue.limits.transactionRowsMax)
        }
        guard let cycle = known else { return nil }
        let groups = Set(cycle.map(\.group))
        guard cycle.count > 1, groups.count > 1 || groups.contains(nil) else { return nil }
        let name = cycle.lazy.compactMap(\.group).first ?? environment.makeID()
        var members = cycle
        for group in groups.compactMap(\.self) where group != name {
            members += try queue.reader.members(of: group)
        }
        guard members.count <= queue.limits.transactionRowsMax else { return nil }
        for var member in members {
            member.group = name
            try queue.put(member)
        }
        work.hasGroups = true
        return name
    }

    private func isOurs(_ operation: QueuedOperation) -> Bool {
        queue.catalog.names(tableOf: operation) && queue.account.maySend(operation)
    }

    /// Returns the operation in its state before it was frozen.
    ///
    /// If no response has shown the outcome of an attempt, the outcome is marked as unknown.
    private func unsure(_ operation: QueuedOperation, _ work: Work) -> QueuedOperation {
        guard operation.isAttempted, !work.slice.rejected.contains(operation.id) else {
            return operation
        }
        var unsure = operation
        unsure.outcomeUnknown = true
        return unsure
    }

    private func freeze(_ members: [QueuedOperation], _ work: inout Work) throws -> Step {
        let unsendable = work.result.unsendable.count
        var frozen: [(stored: QueuedOperation, sent: QueuedOperation)] = []
        for member in members {
            if let sent = try self.frozen(member, work.slice, &work.result) {
                frozen.append((member, sent))
            }
        }
        if work.result.unsendable.count > unsendable, let cause = work.result.unsendable.last {
            try park(frozen.map(\.stored), because: cause, &work)
            return .passed
        }
        let bytes = frozen.reduce(0) { $0 + ($1.sent.frozen?.body?.utf8.count ?? 0) }
        guard work.hasRoom(for: frozen.count, bytes: bytes) else { return .full }
        for (stored, sent) in frozen {
            if stored.frozen == nil { try queue.removeErrors(of: stored.id) }
            if sent != stored { try queue.put(sent) }
            work.add(sent)
        }
        work.isClosed = work.slice.groups == .alone && frozen.count > 1
        return frozen.isEmpty ? .passed : .taken
    }

    /// Parks the operations of a group together with the operation that was rejected.
    ///
    /// If one of them has been edited since then, the group is released, and all its operations are
    /// resent.
    private func park(
        _ members: [QueuedOperation],
        because cause: QueuedOperation,
        _ work: inout Work
    ) throws {
        let queued = try queue.reader.operations(ofRowsOf: members)
        let status = try queue.reader.errors.status(of: cause)
        var released: [QueuedOperation] = []
        var gone: Set<Int64> = []
        for member in members where member.state != .parked && !gone.contains(member.id) {
            let text = ParkText(
                errorID: environment.makeID(),
                status: status == nil ? nil : Self.failedDependency,
                message: SyncError.stoppedWithGroup(member, because: cause)
            )
            let later = queued[member.row]?.first { $0.id > member.id && $0.damage == nil }
            let result = try Settlement(queue: queue)
                .park(unsure(member, work), later, nil, text)
            if result == .parked {
                work.result.stopped.append(member)
            } else {
                released.append(member)
                if let later { gone.insert(later.id) }
            }
        }
        // If the group is resent, it is part of another slice.
        work.slice.blockedRows.insert(cause.row)
        guard let edited = released.first else { return }
        try queue.release(with: edited)
        work.result.stopped = work.result.stopped.filter { $0.group != edited.group }
        work.result.released += released
    }

    private static let failedDependency = 424
}

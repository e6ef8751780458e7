// PushPreparation+Groups: takes what one transaction of the app made, whole or not at all.

import TidelineCore

extension PushPreparation {
    /// Freezes a group.
    ///
    /// Where one of it waits, all do; where one of it is parked, all are.
    func take(
        _ members: [QueuedOperation],
        of group: String,
        isFirst: Bool,
        _ work: inout Work
    ) throws -> Step {
        let closed = isFirst ? [] : work.slice.closed
        guard !work.slice.heldGroups.contains(group),
            members.allSatisfy({ mayGo($0, work) && !closed.contains($0.row) })
        else { return .passed }
        if let cause = members.first(where: { $0.state == .parked }) {
            try park(members, because: cause, &work)
            return .passed
        }
        guard !work.isClosed, members.allSatisfy({ !work.rows.contains($0.row) }) else {
            return .full
        }
        let queued = try queue.reader.operations(ofRowsOf: members)
        for member in members {
            guard let earlier = queued[member.row]?.first, earlier.id != member.id else { continue }
            // What stands before one of them in its row goes first: the group is met again there.
            guard earlier.group == group else { return .passed }
            // Two groups became one when one of them was refused, so nothing of it was done.
            _ = try Settlement(queue: queue).collapse(earlier, member)
            let rest = try queue.reader.members(of: group)
            return try take(rest, of: group, isFirst: isFirst, &work)
        }
        guard work.result.operations.isEmpty || work.slice.groups == .together,
            work.hasRoom(for: members.count, bytes: 0)
        else { return .full }
        return try freeze(members, &work)
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

    /// What was refused with another one of its group waits with that.
    ///
    /// One that was edited since releases the group: then all of it is sent again.
    private func park(
        _ members: [QueuedOperation],
        because cause: QueuedOperation,
        _ work: inout Work
    ) throws {
        let queued = try queue.reader.operations(ofRowsOf: members)
        let status = try queue.reader.status(ofErrorOf: cause)
        var released: [QueuedOperation] = []
        for member in members where member.state != .parked {
            let text = ParkText(
                errorID: environment.makeID(),
                status: status == nil ? nil : Self.failedDependency,
                message: SyncError.stoppedWithGroup(member, because: cause)
            )
            let later = queued[member.row]?.first { $0.id > member.id }
            let settled = try Settlement(queue: queue).park(member, later, nil, text)
            if settled == .parked {
                work.result.stopped.append(member)
            } else {
                released.append(member)
            }
        }
        // It is taken up in another slice, if at all.
        if let group = cause.group { work.slice.heldGroups.insert(group) }
        guard let edited = released.first else { return }
        try queue.release(with: edited)
        work.result.stopped = work.result.stopped.filter { $0.group != edited.group }
        work.result.released += released
    }

    private static let failedDependency = 424
}

// PushGroups: finds the operations that belong to the same transaction of the app.
//
// Pure. Operations of a group are adjacent in a slice, because PushPreparation takes whole groups.

import TidelineCore

/// The atomic groups of operations in a batch and in its response.
package enum PushGroups {
    /// Returns the ranges of operations that are executed together: a group, or a single operation
    /// without a group.
    package static func units(of operations: [QueuedOperation]) -> [Range<Int>] {
        var units: [Range<Int>] = []
        var start = 0
        for index in operations.indices {
            let next = index + 1
            let group = operations[index].group
            if next < operations.count, group != nil, operations[next].group == group { continue }
            units.append(start..<next)
            start = next
        }
        return units
    }

    /// Returns whether all operations are one group, so that the batch cannot be made smaller.
    package static func isOne(_ operations: [QueuedOperation]) -> Bool {
        operations.count > 1 && units(of: operations).count == 1
    }

    /// Returns whether any operation belongs to a group.
    package static func hasAny(_ operations: [QueuedOperation]) -> Bool {
        units(of: operations).contains { $0.count > 1 }
    }

    /// Returns whether an earlier operation of the same group may have changed the row of an
    /// operation.
    ///
    /// When a server deletes a row, it also deletes or changes the rows that refer to it. If the
    /// server then rejects a later operation of the group, its response shows a state of that row
    /// that was rolled back with the group.
    package static func mayChange(
        rowAt place: Int,
        of operations: [QueuedOperation]
    ) -> Bool {
        guard let group = operations[place].group else { return false }
        return operations[..<place].reversed().prefix { $0.group == group }
            .contains { $0.kind == .delete }
    }

    /// Returns the replies, in which the operations of a rejected group share one reply.
    ///
    /// Only the first rejected operation of the group keeps its own reply. The server did not
    /// execute the others, whatever their own replies say. They are retried if the rejected
    /// operation is, and otherwise wait for its outcome. If every operation has a reply of its own
    /// and none of them is a success, the group was rejected as a whole, and each reply counts.
    package static func replies(
        _ replies: [PushReply],
        to operations: [QueuedOperation]
    ) -> [PushReply] {
        var result = replies
        for unit in units(of: operations) where unit.count > 1 {
            let isLeft = { (reply: PushReply) in
                if case .notReached = reply { true } else { false }
            }
            if let left = replies[unit].first(where: isLeft) {
                for place in unit { result[place] = left }
                continue
            }
            let isFailed = { (place: Int) in
                guard case .answer(let answer) = replies[place] else { return false }
                return !(200..<300).contains(answer.status)
            }
            let isStopped = { (place: Int) in
                if case .answer(let answer) = replies[place] { answer.isGroupFailed } else { false }
            }
            let failed = unit.filter(isFailed)
            guard unit.contains(where: isStopped) || !failed.isEmpty && failed.count < unit.count
            else { continue }
            let causes = failed.filter { !isStopped($0) }
            let shared = shared(causes.map { (operations[$0], replies[$0]) })
            for place in unit where place != causes.first { result[place] = shared }
        }
        return result
    }

    /// Returns the reply for the other operations of a group, chosen from the replies that show a
    /// rejection.
    private static func shared(_ causes: [(QueuedOperation, PushReply)]) -> PushReply {
        for (operation, reply) in causes {
            guard case .answer(let answer) = reply else { return reply }
            switch answer.outcome(of: operation) {
            case .retry, .unauthorized: return reply
            case .decided, .read: continue
            }
        }
        // No operation was rejected: the response came from a proxy.
        return causes.isEmpty ? .answer(PushAnswer(status: 503)) : .withGroup
    }
}

extension QueuedOperation {
    /// Whether the row has to be read before anything is sent.
    ///
    /// This is the case for the delete of an insert that may have arrived, because such a delete
    /// has no base version.
    package var mustBeRead: Bool {
        kind == .delete && outcomeUnknown && basis.base == nil && frozen?.ifMatch == nil
    }
}

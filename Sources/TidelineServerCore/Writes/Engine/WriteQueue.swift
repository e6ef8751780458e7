// WriteQueue: waiting writes.
//
// Cancelled work is removed: its entry becomes empty, and no other entry moves.

/// A queue of the work that waits for the writer, in the order of its arrival.
package struct WriteQueue<Work> {
    private var waiting: [(work: Work, count: Int, caller: String?)?] = []
    /// The position of the first entry.
    private var first = 0
    /// The number of waiting writes.
    package private(set) var writes = 0
    /// The number of waiting writes of each caller.
    private var callers: [String: Int] = [:]

    package init() {}

    /// Whether no work has arrived since the queue was emptied.
    package var isEmpty: Bool { waiting.isEmpty }

    /// Appends work, which counts as this many writes; returns its position.
    package mutating func append(_ work: Work, count: Int, of caller: String? = nil) -> Int {
        waiting.append((work, count, caller))
        writes += count
        if let caller { callers[caller, default: 0] += count }
        return first + waiting.count - 1
    }

    /// Returns the number of waiting writes of a caller.
    package func writes(of caller: String) -> Int { callers[caller] ?? 0 }

    /// Removes the work at a position; nil if the work is not waiting.
    package mutating func remove(_ place: Int) -> Work? {
        let index = place - first
        guard waiting.indices.contains(index), let (work, count, caller) = waiting[index] else {
            return nil
        }
        waiting[index] = nil
        writes -= count
        if let caller {
            let left = callers[caller, default: 0] - count
            callers[caller] = left > 0 ? left : nil
        }
        return work
    }

    /// Removes and returns all waiting work.
    package mutating func takeAll() -> [Work] {
        var taken: [Work] = []
        taken.reserveCapacity(waiting.count)
        for case (let work, _, _)? in waiting { taken.append(work) }
        first += waiting.count
        // The memory of a long queue is released.
        let isShort = waiting.count <= Self.countKept
        waiting.removeAll(keepingCapacity: isShort)
        callers.removeAll(keepingCapacity: isShort)
        writes = 0
        return taken
    }

    /// The number of entries up to which the memory is kept for later ones.
    private static var countKept: Int { 1000 }
}

// WriteQueue: the work that waits for the writer, in the order of arrival.
//
// Cancelled work is removed: its position is not counted any more, and nothing else is moved.

package struct WriteQueue<Work> {
    private var waiting: [(work: Work, count: Int, caller: String?)?] = []
    /// The place of the first of them.
    private var first = 0
    /// How many writes wait.
    package private(set) var writes = 0
    /// How many of them are of each caller.
    private var callers: [String: Int] = [:]

    package init() {}

    /// Whether nothing came since the queue was taken.
    package var isEmpty: Bool { waiting.isEmpty }

    /// Appends work that counts as so many writes; returns its position.
    package mutating func append(_ work: Work, count: Int, of caller: String? = nil) -> Int {
        waiting.append((work, count, caller))
        writes += count
        if let caller { callers[caller, default: 0] += count }
        return first + waiting.count - 1
    }

    /// Whether a caller has half of the writes that may wait, while other callers wait as well.
    package func exceedsShare(_ caller: String?, of most: Int) -> Bool {
        guard let caller, let own = callers[caller] else { return false }
        return own >= max(1, most / 2) && writes > own
    }

    /// Removes the work at this position; returns nil if it does not wait.
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

    /// All that waits.
    package mutating func takeAll() -> [Work] {
        defer {
            first += waiting.count
            waiting = []
            writes = 0
            callers = [:]
        }
        return waiting.compactMap { $0?.work }
    }
}

// WriteQueue: what waits for the writer, in the order of its coming.
//
// Who does not wait any more leaves: the place counts no longer, and nothing else is moved.

package struct WriteQueue<Work> {
    private var waiting: [(work: Work, count: Int)?] = []
    /// The place of the first of them.
    private var first = 0
    /// How many writes wait.
    package private(set) var writes = 0

    package init() {}

    /// Whether nothing came since the queue was taken.
    package var isEmpty: Bool { waiting.isEmpty }

    /// Adds what is so many writes; returns its place.
    package mutating func append(_ work: Work, count: Int) -> Int {
        waiting.append((work, count))
        writes += count
        return first + waiting.count - 1
    }

    /// Takes out what has this place; nil when it does not wait.
    package mutating func remove(_ place: Int) -> Work? {
        let index = place - first
        guard waiting.indices.contains(index), let (work, count) = waiting[index] else {
            return nil
        }
        waiting[index] = nil
        writes -= count
        return work
    }

    /// All that waits.
    package mutating func takeAll() -> [Work] {
        defer {
            first += waiting.count
            waiting = []
            writes = 0
        }
        return waiting.compactMap { $0?.work }
    }
}

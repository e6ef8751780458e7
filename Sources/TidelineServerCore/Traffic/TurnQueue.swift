// TurnQueue: fairness between callers.
//
// A caller with many requests waits for the other callers, and they do not wait for it.

/// A queue that takes the work of several callers in turns.
package struct TurnQueue<Caller: Hashable, Element> {
    private struct Line {
        var elements: [Element?] = []
        var first = 0
    }

    private var lines: [Caller: Line] = [:]
    /// The waiting callers, each once, beginning at `nextTurn`.
    private var turns: [Caller] = []
    private var nextTurn = 0

    package init() {}

    package mutating func append(_ element: Element, of caller: Caller) {
        if lines[caller] == nil { turns.append(caller) }
        lines[caller, default: Line()].elements.append(element)
    }

    /// Returns whether another caller waits.
    package func hasCallers(otherThan caller: Caller) -> Bool {
        lines.count > 1 || lines.count == 1 && lines[caller] == nil
    }

    /// Removes the first element of the next caller that is allowed to take one; the other callers keep their
    /// turns.
    package mutating func takeFirst(
        where isAllowed: (Caller) -> Bool
    ) -> (caller: Caller, element: Element)? {
        guard nextTurn < turns.count,
            let place = turns[nextTurn...].firstIndex(where: isAllowed)
        else { return nil }
        let caller = turns[place]
        if place > nextTurn {
            turns.remove(at: place)
            turns.insert(caller, at: nextTurn)
        }
        return take().map { (caller, $0) }
    }

    /// Takes the first element of the next caller.
    package mutating func take() -> Element? {
        guard nextTurn < turns.count else { return nil }
        let caller = turns[nextTurn]
        nextTurn += 1
        guard var line = lines.removeValue(forKey: caller) else { return nil }
        let element = line.elements[line.first]
        line.elements[line.first] = nil
        line.first += 1
        if line.first < line.elements.count {
            if line.first > 64, line.first * 2 > line.elements.count {
                line.elements.removeFirst(line.first)
                line.first = 0
            }
            lines[caller] = line
            turns.append(caller)
        }
        // Under a lasting backlog the list of turns never becomes empty, so it is cut from time to time.
        if nextTurn == turns.count || nextTurn > 64 && nextTurn * 2 > turns.count {
            turns.removeFirst(nextTurn)
            nextTurn = 0
        }
        return element
    }
}

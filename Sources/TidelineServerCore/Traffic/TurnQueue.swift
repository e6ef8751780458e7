// TurnQueue: work of several callers, taken from each in turn.
//
// A caller with many requests waits for the other callers, not they for that caller.

package struct TurnQueue<Caller: Hashable, Element> {
    private struct Line {
        var elements: [Element?] = []
        var first = 0
    }

    private var lines: [Caller: Line] = [:]
    /// Those who wait, each once, the next one at `nextTurn`.
    private var turns: [Caller] = []
    private var nextTurn = 0

    package init() {}

    package mutating func append(_ element: Element, of caller: Caller) {
        if lines[caller] == nil { turns.append(caller) }
        lines[caller, default: Line()].elements.append(element)
    }

    /// Whether another caller waits.
    package func hasOthers(than caller: Caller) -> Bool {
        lines.count > 1 || lines.count == 1 && lines[caller] == nil
    }

    /// The first of the next caller who is allowed to have it; the others keep their turns.
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

    /// The first of whose turn it is.
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
        // Under a lasting backlog the turns never end: they must not grow for ever.
        if nextTurn == turns.count || nextTurn > 64 && nextTurn * 2 > turns.count {
            turns.removeFirst(nextTurn)
            nextTurn = 0
        }
        return element
    }
}

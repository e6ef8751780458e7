// TextPattern: regular expressions in bounded time.
//
// Thompson's construction, run on all states at once: the time is at most the length of the text
// times the size of the pattern, whatever either holds. So there is no back-reference and no
// look-around. A pattern must match the whole text; `^` and `$` may stand at its ends.

package struct TextPattern: Sendable {
    /// Why a pattern cannot be read.
    package struct Fault: Error, Sendable {
        package var message: String
        /// In Unicode scalars.
        package var position: Int
    }

    enum Instruction: Sendable {
        case scalar(ScalarSet)
        case split(Int, Int)
        case jump(Int)
        case begin
        case end
        case match
    }

    private let program: [Instruction]

    /// Matches no text.
    package static let nothing = TextPattern(program: [])

    private init(program: [Instruction]) {
        self.program = program
    }

    /// Reads a pattern.
    package init(_ pattern: String) throws(Fault) {
        var parser = PatternParser(pattern)
        var compiler = PatternCompiler()
        try compiler.append(try parser.whole())
        program = compiler.program + [.match]
    }

    // MARK: - Matching

    /// Whether the whole text matches.
    package func matches(_ text: String) -> Bool {
        guard !program.isEmpty else { return false }
        let scalars = Array(text.unicodeScalars)
        var current = States(program.count)
        var next = States(program.count)
        follow(0, 0, scalars.count, &current)
        for (index, scalar) in scalars.enumerated() {
            guard !current.list.isEmpty else { return false }
            next.clear()
            for state in current.list {
                guard case .scalar(let set) = program[state], set.contains(scalar) else { continue }
                follow(state + 1, index + 1, scalars.count, &next)
            }
            swap(&current, &next)
        }
        return current.list.contains { if case .match = program[$0] { true } else { false } }
    }

    /// Adds a state and all that it leads to without a scalar.
    private func follow(_ start: Int, _ index: Int, _ count: Int, _ states: inout States) {
        var open = [start]
        while let state = open.popLast() {
            guard states.insert(state) else { continue }
            switch program[state] {
            case .jump(let target): open.append(target)
            case .split(let one, let two): open += [two, one]
            case .begin: if index == 0 { open.append(state + 1) }
            case .end: if index == count { open.append(state + 1) }
            case .scalar, .match: break
            }
        }
    }

    private struct States {
        var list: [Int] = []
        private var known: [Bool]

        init(_ count: Int) { known = Array(repeating: false, count: count) }

        mutating func insert(_ state: Int) -> Bool {
            guard !known[state] else { return false }
            known[state] = true
            list.append(state)
            return true
        }

        mutating func clear() {
            for state in list { known[state] = false }
            list.removeAll(keepingCapacity: true)
        }
    }
}

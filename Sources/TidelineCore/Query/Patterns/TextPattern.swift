// TextPattern: regular expressions.
//
// The matcher uses Thompson's construction and follows all states at once. The time is therefore at
// most the length of the text times the size of the pattern, for any text and pattern.
// Back-references and look-around would break this limit, so they are not supported.

/// A regular expression with a bounded matching time.
package struct TextPattern: Sendable {
    /// The reason why a pattern is invalid.
    package struct Fault: Error, Sendable {
        package var message: String
        /// The position, in Unicode scalars.
        package var position: Int
    }

    enum Instruction: Sendable {
        case scalar(ScalarSet)
        case split(Int, Int)
        case jump(Int)
        case begin
        case end
        /// A word boundary, or with false, a position that is not a word boundary.
        case boundary(Bool)
        case match
    }

    private let program: [Instruction]

    /// A pattern that matches no string.
    package static let nothing = TextPattern(program: [])

    private init(program: [Instruction]) {
        self.program = program
    }

    /// Compiles the pattern of a column, which must match a whole string; `.` matches any scalar.
    package init(_ pattern: String) throws(Fault) {
        try self.init(PatternParser(pattern))
    }

    /// Compiles the pattern of `matchesPattern`, which matches part of a string; `.` does not match
    /// line ends.
    package init(searching pattern: String) throws(Fault) {
        try self.init(PatternParser(pattern, any: .line))
    }

    private init(_ parser: PatternParser) throws(Fault) {
        var parser = parser
        var compiler = PatternCompiler()
        try compiler.append(try parser.whole())
        program = compiler.program + [.match]
    }

    // MARK: - Matching

    /// Returns whether the whole string matches.
    package func matches(_ text: String) -> Bool {
        run(Array(text.unicodeScalars), isSearch: false, nil)
    }

    /// Returns whether part of the string matches.
    ///
    /// After the watch's time limit is reached, the result is undefined.
    package func isFound(in text: String, _ watch: EvaluationWatch? = nil) -> Bool {
        run(Array(text.unicodeScalars), isSearch: true, watch)
    }

    /// The number of visited states between two checks of the time limit.
    private static let visitsBetweenChecks = 4096
    /// The number of bytes that can be read in the time of one state visit.
    private static let bytesPerVisit = 8

    private func run(
        _ scalars: [Unicode.Scalar],
        isSearch: Bool,
        _ watch: EvaluationWatch?
    ) -> Bool {
        guard !program.isEmpty else { return false }
        var current = States(program.count)
        var next = States(program.count)
        var visits = 0
        follow(0, 0, scalars, &current)
        for (index, scalar) in scalars.enumerated() {
            if isSearch {
                if current.hasMatch { return true }
                if index > 0 { follow(0, index, scalars, &current) }
                if current.hasMatch { return true }
            } else if current.list.isEmpty {
                return false
            }
            visits += current.list.count + 1
            if let watch, visits > Self.visitsBetweenChecks {
                if watch.isOver(beforeReading: visits * Self.bytesPerVisit) { return false }
                visits = 0
            }
            next.clear()
            for state in current.list {
                guard case .scalar(let set) = program[state], set.contains(scalar) else { continue }
                follow(state + 1, index + 1, scalars, &next)
            }
            swap(&current, &next)
        }
        if isSearch { follow(0, scalars.count, scalars, &current) }
        return current.hasMatch
    }

    /// Adds a state, and all states that are reachable from it without reading a scalar.
    private func follow(
        _ start: Int,
        _ index: Int,
        _ scalars: [Unicode.Scalar],
        _ states: inout States
    ) {
        states.open.append(start)
        while let state = states.open.popLast() {
            guard states.insert(state) else { continue }
            switch program[state] {
            case .jump(let target): states.open.append(target)
            case .split(let one, let two):
                states.open.append(two)
                states.open.append(one)
            case .begin: if index == 0 { states.open.append(state + 1) }
            case .end: if index == scalars.count { states.open.append(state + 1) }
            case .boundary(let isWanted):
                if Self.isBoundary(index, scalars) == isWanted { states.open.append(state + 1) }
            case .match: states.hasMatch = true
            case .scalar: break
            }
        }
    }

    private static func isBoundary(_ index: Int, _ scalars: [Unicode.Scalar]) -> Bool {
        let word = ScalarSet(ranges: ScalarSet.word)
        let isBehindWord = index > 0 && word.contains(scalars[index - 1])
        return isBehindWord != (index < scalars.count && word.contains(scalars[index]))
    }

    private struct States {
        var list: [Int] = []
        var hasMatch = false
        /// The states that remain to be followed; empty between calls.
        var open: [Int] = []
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
            hasMatch = false
        }
    }
}

extension TextPattern {
    /// Returns the compiled pattern of a `matchesPattern` call; an invalid pattern matches nothing.
    package static func search(_ pattern: String) -> TextPattern {
        (try? TextPattern(searching: pattern)) ?? .nothing
    }
}

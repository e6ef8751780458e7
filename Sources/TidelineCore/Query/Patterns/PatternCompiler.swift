// PatternCompiler: compiles regular expressions.

/// A compiler that turns the tree of a regular expression into the program that ``TextPattern``
/// runs.
struct PatternCompiler {
    /// The maximum number of instructions in a pattern.
    private static let sizeMax = 500
    /// The maximum number of nodes to visit, counting every repetition of a part, even of an empty
    /// one.
    private static let stepsMax = 5000

    private(set) var program: [TextPattern.Instruction] = []
    private var steps = 0

    mutating func append(_ node: PatternNode) throws(TextPattern.Fault) {
        steps += 1
        guard program.count < Self.sizeMax, steps < Self.stepsMax else {
            throw TextPattern.Fault(message: "the pattern is too large", position: 0)
        }
        switch node {
        case .scalar(let set): program.append(.scalar(set))
        case .begin: program.append(.begin)
        case .end: program.append(.end)
        case .boundary(let isWanted): program.append(.boundary(isWanted))
        case .sequence(let parts): for part in parts { try append(part) }
        case .choice(let parts): try choice(parts[...])
        case .repeated(let part, let least, let most):
            for _ in 0..<least { try append(part) }
            guard let most else { return try star(part) }
            var exits: [Int] = []
            for _ in least..<most {
                exits.append(place())
                try append(part)
            }
            for exit in exits { program[exit] = .split(exit + 1, program.count) }
        }
    }

    /// Reserves a slot for an instruction whose target is not known yet.
    private mutating func place() -> Int {
        program.append(.match)
        return program.count - 1
    }

    private mutating func choice(
        _ parts: ArraySlice<PatternNode>
    ) throws(TextPattern.Fault) {
        guard let first = parts.first else { return }
        guard parts.count > 1 else { return try append(first) }
        let split = place()
        try append(first)
        let jump = place()
        program[split] = .split(split + 1, program.count)
        try choice(parts.dropFirst())
        program[jump] = .jump(program.count)
    }

    private mutating func star(_ part: PatternNode) throws(TextPattern.Fault) {
        let split = place()
        try append(part)
        program.append(.jump(split))
        program[split] = .split(split + 1, program.count)
    }
}

/// A set of Unicode scalars.
struct ScalarSet: Hashable, Sendable {
    var ranges: [ClosedRange<UInt32>]
    var isInverted = false

    func contains(_ scalar: Unicode.Scalar) -> Bool {
        ranges.contains { $0.contains(scalar.value) } != isInverted
    }

    static let any = ScalarSet(ranges: [], isInverted: true)
    /// Any character except line ends.
    static let line = ScalarSet(
        ranges: [0x0A...0x0A, 0x0D...0x0D, 0x2028...0x2029],
        isInverted: true
    )
    static let digits: [ClosedRange<UInt32>] = [0x30...0x39]
    static let word: [ClosedRange<UInt32>] = [0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A]
    static let space: [ClosedRange<UInt32>] = [0x09...0x0D, 0x20...0x20]

    /// Returns the ranges between and around these ranges.
    static func complement(_ ranges: [ClosedRange<UInt32>]) -> [ClosedRange<UInt32>] {
        var result: [ClosedRange<UInt32>] = []
        var next: UInt32 = 0
        for range in ranges {
            if range.lowerBound > next { result.append(next...(range.lowerBound - 1)) }
            next = range.upperBound + 1
        }
        result.append(next...0x10FFFF)
        return result
    }
}

// PatternParser: the grammar of regular expressions.
//
//     whole = part ('|' part)*     part = (atom (('*' | '+' | '?' | '{m}' | '{m,}' | '{m,n}') '?'?)?)*
//     atom = '.' | '^' | '$' | '(' whole ')' | '(?:' whole ')' | '[' class ']' | '\' escape | scalar
//
// Escapes: \d \D \w \W \s \S \b \B (ASCII), \t \n \r \f \v \xHH \uHHHH, and `\` before punctuation.
// Lazy repetition matches the same strings.

/// A node in the tree of a regular expression.
indirect enum PatternNode {
    case scalar(ScalarSet)
    case begin
    case end
    case boundary(Bool)
    case sequence([PatternNode])
    case choice([PatternNode])
    /// The numbers are the minimum and maximum count; a maximum of nil means no limit.
    case repeated(PatternNode, Int, Int?)
}

/// A parser that turns the text of a regular expression into a tree.
struct PatternParser {
    private static let depthMax = 50
    private static let repeatMax = 500

    private let scalars: [Unicode.Scalar]
    /// The scalars that `.` matches.
    private let any: ScalarSet
    private var index = 0
    private var depth = 0

    init(_ text: String, any: ScalarSet = .any) {
        scalars = Array(text.unicodeScalars)
        self.any = any
    }

    private var current: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private func fault(_ message: String) -> TextPattern.Fault {
        TextPattern.Fault(message: message, position: index)
    }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard current == scalar else { return false }
        index += 1
        return true
    }

    mutating func whole() throws(TextPattern.Fault) -> PatternNode {
        let node = try choice()
        guard index == scalars.count else { throw fault("')' without '('") }
        return node
    }

    private mutating func choice() throws(TextPattern.Fault) -> PatternNode {
        var parts = [try sequence()]
        while take("|") { parts.append(try sequence()) }
        return parts.count == 1 ? parts[0] : .choice(parts)
    }

    private mutating func sequence() throws(TextPattern.Fault) -> PatternNode {
        var parts: [PatternNode] = []
        while let scalar = current, scalar != "|", scalar != ")" {
            let atom = try atom()
            parts.append(try repeated(atom))
        }
        return .sequence(parts)
    }

    private mutating func repeated(_ node: PatternNode) throws(TextPattern.Fault) -> PatternNode {
        let result: PatternNode
        if take("*") {
            result = .repeated(node, 0, nil)
        } else if take("+") {
            result = .repeated(node, 1, nil)
        } else if take("?") {
            result = .repeated(node, 0, 1)
        } else if take("{") {
            result = try counted(node)
        } else {
            return node
        }
        _ = take("?")
        if let scalar = current, "*+?{".unicodeScalars.contains(scalar) {
            throw fault("nothing to repeat")
        }
        return result
    }

    private mutating func counted(_ node: PatternNode) throws(TextPattern.Fault) -> PatternNode {
        let least = try number()
        var most: Int? = least
        if take(",") { most = current == "}" ? nil : try number() }
        guard take("}") else { throw fault("'}' is expected") }
        guard least <= most ?? least else {
            throw fault("the lower bound is greater than the upper one")
        }
        return .repeated(node, least, most)
    }

    private mutating func number() throws(TextPattern.Fault) -> Int {
        var value = 0
        let start = index
        while let scalar = current, ("0"..."9").contains(scalar) {
            value = value * 10 + Int(scalar.value - 48)
            guard value <= Self.repeatMax else {
                throw fault("at most \(Self.repeatMax) repetitions are allowed")
            }
            index += 1
        }
        guard index > start else { throw fault("a number is expected") }
        return value
    }

    private mutating func atom() throws(TextPattern.Fault) -> PatternNode {
        guard let scalar = current else { throw fault("it ends too early") }
        switch scalar {
        case "*", "+", "?", "{": throw fault("nothing to repeat")
        case "(": return try group()
        case "[": return .scalar(try characterClass())
        case "\\":
            if let boundary = boundary() { return boundary }
            return .scalar(ScalarSet(ranges: try escape()))
        default: break
        }
        index += 1
        switch scalar {
        case "^": return .begin
        case "$": return .end
        case ".": return .scalar(any)
        default: return .scalar(ScalarSet(ranges: [scalar.value...scalar.value]))
        }
    }

    private mutating func group() throws(TextPattern.Fault) -> PatternNode {
        index += 1
        depth += 1
        guard depth <= Self.depthMax else { throw fault("groups are nested too deep") }
        if take("?") {
            guard take(":") else {
                throw fault("only groups of the forms (…) and (?:…) are supported")
            }
        }
        let node = try choice()
        guard take(")") else { throw fault("')' is expected") }
        depth -= 1
        return node
    }

    private mutating func boundary() -> PatternNode? {
        guard index + 1 < scalars.count else { return nil }
        let letter = scalars[index + 1]
        guard letter == "b" || letter == "B" else { return nil }
        index += 2
        return .boundary(letter == "b")
    }

    /// Reads the scalar of `\xHH` or `\uHHHH`.
    private mutating func hex(_ count: Int) throws(TextPattern.Fault) -> [ClosedRange<UInt32>] {
        var value: UInt32 = 0
        for _ in 0..<count {
            guard let current, let digit = Character(current).hexDigitValue, current.isASCII else {
                throw fault("\(count) hexadecimal digits are expected")
            }
            value = value << 4 | UInt32(digit)
            index += 1
        }
        return [value...value]
    }

    private mutating func escape() throws(TextPattern.Fault) -> [ClosedRange<UInt32>] {
        index += 1
        guard let scalar = current else { throw fault("it ends too early") }
        index += 1
        switch scalar {
        case "d": return ScalarSet.digits
        case "D": return ScalarSet.complement(ScalarSet.digits)
        case "w": return ScalarSet.word
        case "W": return ScalarSet.complement(ScalarSet.word)
        case "s": return ScalarSet.space
        case "S": return ScalarSet.complement(ScalarSet.space)
        case "t": return [9...9]
        case "n": return [10...10]
        case "r": return [13...13]
        case "f": return [12...12]
        case "v": return [11...11]
        case "x": return try hex(2)
        case "u": return try hex(4)
        default:
            guard scalar.isASCII, !ScalarSet(ranges: ScalarSet.word).contains(scalar) else {
                throw fault("unknown escape sequence")
            }
            return [scalar.value...scalar.value]
        }
    }

    private mutating func characterClass() throws(TextPattern.Fault) -> ScalarSet {
        index += 1
        var set = ScalarSet(ranges: [], isInverted: take("^"))
        var isFirst = true
        while let scalar = current, scalar != "]" || isFirst {
            isFirst = false
            let low = try classScalar(scalar)
            guard current == "-", index + 1 < scalars.count, scalars[index + 1] != "]" else {
                set.ranges += low
                continue
            }
            index += 1
            let high = try classScalar(scalars[index])
            guard low.count == 1, high.count == 1, low[0].count == 1, high[0].count == 1,
                low[0].lowerBound <= high[0].lowerBound
            else { throw fault("this range is empty") }
            set.ranges.append(low[0].lowerBound...high[0].lowerBound)
        }
        guard take("]") else { throw fault("']' is expected") }
        return set
    }

    private mutating func classScalar(
        _ scalar: Unicode.Scalar
    ) throws(TextPattern.Fault) -> [ClosedRange<UInt32>] {
        if scalar == "\\" { return try escape() }
        index += 1
        return [scalar.value...scalar.value]
    }
}

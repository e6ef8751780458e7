// CodeScanner: a scanner that removes comments and string literals from Swift text, so that a rule
// about code ignores examples in doc comments and messages.
//
// It replaces them with spaces and keeps line breaks, so that line numbers stay the same. It keeps
// the code of interpolations. It treats regex literals as code; a quote in one hides at most the
// rest of its line.

struct CodeScanner {
    private let bytes: [UInt8]
    private static let beginners: [Bool] = (0...255).map { "\"#/()".utf8.contains($0) }

    private var position = 0
    private var code: [UInt8] = []

    /// Returns the code of a Swift text.
    static func code(of text: String) -> String {
        var scanner = CodeScanner(bytes: Array(text.utf8))
        scanner.code.reserveCapacity(scanner.bytes.count)
        while scanner.position < scanner.bytes.count {
            scanner.scanCode()
            scanner.keep()
        }
        return String(decoding: scanner.code, as: UTF8.self)
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Scans until the end of the text, or until a closing parenthesis that was not opened here.
    private mutating func scanCode() {
        var depth = 0
        while position < bytes.count {
            // A fast path, because most bytes are plain and the tests are built without optimization.
            while position < bytes.count, !Self.beginners[Int(bytes[position])] { keep() }
            if at("//") {
                while position < bytes.count, bytes[position] != UInt8(ascii: "\n") { blank() }
            } else if at("/*") {
                scanBlockComment()
            } else if let hashes = hashesBeforeQuote() {
                scanString(hashes: hashes)
            } else if at(")"), depth == 0 {
                return
            } else {
                depth += at("(") ? 1 : at(")") ? -1 : 0
                keep()
            }
        }
    }

    private mutating func scanBlockComment() {
        var depth = 0
        repeat {
            let delimiter = at("/*") ? 1 : at("*/") ? -1 : 0
            depth += delimiter
            blank(delimiter == 0 ? 1 : 2)
        } while depth > 0 && position < bytes.count
    }

    private mutating func scanString(hashes: Int) {
        let marks = String(repeating: "#", count: hashes)
        blank(hashes)
        let quote = beginsBlock() ? "\"\"\"" : "\""
        blank(quote.utf8.count)
        while position < bytes.count {
            if at(quote + marks) {
                blank(quote.utf8.count + hashes)
                return
            } else if at("\\\(marks)(") {
                blank(2 + hashes)
                scanCode()
                blank()
            } else if at("\\" + marks) {
                blank(2 + hashes)
            } else if at("\n"), quote.utf8.count == 1 {
                return
            } else {
                blank()
            }
        }
    }

    /// Whether three quotes and a line break are here; three quotes may also begin a raw string of one line.
    private func beginsBlock() -> Bool {
        guard at("\"\"\"") else { return false }
        let next = bytes[(position + 3)...].first { $0 != UInt8(ascii: " ") }
        return next == UInt8(ascii: "\n")
    }

    /// Returns the number of `#` before a quote here; nil if no string begins here.
    private func hashesBeforeQuote() -> Int? {
        var index = position
        while index < bytes.count, bytes[index] == UInt8(ascii: "#") { index += 1 }
        let isQuote = index < bytes.count && bytes[index] == UInt8(ascii: "\"")
        return isQuote ? index - position : nil
    }

    private func at(_ text: String) -> Bool {
        bytes[position...].starts(with: text.utf8)
    }

    private mutating func keep() {
        guard position < bytes.count else { return }
        code.append(bytes[position])
        position += 1
    }

    private mutating func blank(_ count: Int = 1) {
        for _ in 0..<count where position < bytes.count {
            let isBreak = bytes[position] == UInt8(ascii: "\n")
            code.append(isBreak ? UInt8(ascii: "\n") : UInt8(ascii: " "))
            position += 1
        }
    }
}

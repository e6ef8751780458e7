// ConfigurationNode: reads configuration files.
//
// Reading does not throw: all problems are collected and shown together.

import Foundation
import TidelineCore
import TidelineServerCore

/// The problems of a configuration, one line for each.
final class ConfigurationProblems {
    private(set) var lines: [String] = []

    func add(_ path: String, _ fault: String) {
        lines.append(path.isEmpty ? fault : "\(path): \(fault)")
    }
}

/// A value of a configuration file with its path, read strictly.
struct ConfigurationNode {
    let path: String
    /// The value as valid JSON.
    let text: String
    let problems: ConfigurationProblems

    /// Parses the whole file.
    init?(_ file: [UInt8], problems: ConfigurationProblems) {
        // Some editors begin a file with the UTF-8 byte order mark, which is not part of the JSON
        // (RFC 8259).
        let bytes =
            file.starts(with: Self.byteOrderMark)
            ? Array(file.dropFirst(Self.byteOrderMark.count)) : file
        guard let source = String(validating: bytes, as: UTF8.self) else {
            problems.add("", "the configuration is not valid UTF-8")
            return nil
        }
        do {
            text = try JSON(source).text
        } catch {
            let fault = (error as? JSONError).map { Self.place(of: $0, in: bytes) } ?? "\(error)"
            problems.add("", "the configuration is not valid JSON: \(fault)")
            return nil
        }
        path = ""
        self.problems = problems
    }

    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private init(_ path: String, _ text: String, _ problems: ConfigurationProblems) {
        self.path = path
        self.text = text
        self.problems = problems
    }

    func wrong(_ expected: String) {
        problems.add(path, "\(expected) is expected, not \(shown)")
    }

    /// Reports the reason why the column does not accept the value.
    func reject(_ error: any Error, of column: ColumnDefinition) {
        var reason =
            (error as? ServerError)?.message ?? (error as? RuleViolation)?.message ?? "\(error)"
        // The path already names the column.
        let name = "Member '\(column.name)': "
        if reason.hasPrefix(name) { reason.removeFirst(name.count) }
        if reason.hasSuffix(".") { reason.removeLast() }
        let expected = " is expected"
        guard reason.hasSuffix(expected) else {
            return problems.add(path, "\(reason): \(shown)")
        }
        wrong(String(reason.dropLast(expected.count)))
    }

    /// The value, shortened to fit on a line.
    var shown: String {
        let text = PasswordFilter.filtered(text)
        let short = text.prefix(Self.shownMax)
        return short.count < text.count ? short + "…" : text
    }

    private static let shownMax = 40

    /// Returns the position of an error in the file, and the characters there.
    private static func place(of error: JSONError, in bytes: [UInt8]) -> String {
        let before = bytes.prefix(error.position)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        let column = String(decoding: before[start...], as: UTF8.self).unicodeScalars.count + 1
        let rest = bytes.dropFirst(error.position).prefix { $0 >= 0x20 }
        let wholeLine = before[start...] + bytes.dropFirst(error.position).prefix { $0 != 0x0A }
        let near =
            mayHoldPassword(wholeLine) ? "" : String(decoding: rest, as: UTF8.self).prefix(20)
        return "line \(line), column \(column): \(error.message)"
            + (near.isEmpty ? "" : ", at '\(near)'")
    }

    /// Returns whether a line of invalid JSON may contain a password, whose end is then unknown.
    private static func mayHoldPassword(_ line: ArraySlice<UInt8>) -> Bool {
        ["://", "assword", "ASSWORD"].contains { line.firstRange(of: Array($0.utf8)) != nil }
    }

    private func token() -> JSONReader.Token? {
        read { reader in try reader.value() }
    }

    private func read<Result>(_ body: (inout JSONReader) throws -> Result) -> Result? {
        Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            return try? body(&reader)
        }
    }

    // MARK: - Values

    /// Returns the members by name; reports a problem and returns nil if the value is not an object.
    func object() -> [(name: String, value: ConfigurationNode)]? {
        guard case .object = token() else {
            wrong("an object")
            return nil
        }
        let members: [(String, String)]? = read { reader in
            var members: [(String, String)] = []
            try reader.beginObject()
            while let name = try reader.nextMember() {
                let span = try reader.rawValue()
                members.append((reader.text(name), reader.text(span)))
            }
            return members
        }
        return members?.map { name, text in
            let path = path.isEmpty ? name : path + "." + name
            return (name, ConfigurationNode(path, text, problems))
        }
    }

    /// Returns the members; reports those with names that are not allowed, and leaves them out.
    ///
    /// `removed` contains the names that earlier versions allowed, with their messages.
    func object(
        allowed: [String],
        removed: [String: String] = [:]
    ) -> [(name: String, value: ConfigurationNode)] {
        (object() ?? []).filter { name, value in
            if allowed.contains(name) { return true }
            if let message = removed[name] {
                problems.add(value.path, message)
                return false
            }
            let suggestion = Spelling.nearest(to: name, among: allowed)
            problems.add(
                value.path,
                "this key is unknown; allowed keys are \(allowed.joined(separator: ", "))"
                    + (suggestion.map { "; did you mean '\($0)'?" } ?? "")
            )
            return false
        }
    }

    /// Returns the members whose names are cases of an enumeration; reports all other members.
    func members<Key: RawRepresentable & CaseIterable>(
        _ type: Key.Type,
        removed: [String: String] = [:]
    ) -> [(key: Key, value: ConfigurationNode)] where Key.RawValue == String {
        object(allowed: type.allCases.map(\.rawValue), removed: removed).compactMap { name, node in
            Key(rawValue: name).map { ($0, node) }
        }
    }

    func array() -> [ConfigurationNode]? {
        guard case .array = token() else {
            wrong("an array")
            return nil
        }
        let elements: [String]? = read { reader in
            var elements: [String] = []
            try reader.beginArray()
            while try reader.nextElement() { elements.append(reader.text(try reader.rawValue())) }
            return elements
        }
        return elements?.enumerated().map { index, text in
            ConfigurationNode("\(path)[\(index)]", text, problems)
        }
    }

    var isString: Bool { if case .string = token() { true } else { false } }

    var isObject: Bool { if case .object = token() { true } else { false } }

    func string() -> String? {
        let value: String?? = read { reader in
            guard case .string(let span) = try reader.value() else { return nil }
            return reader.text(span)
        }
        if let value, let value { return value }
        wrong("a string")
        return nil
    }

    func bool() -> Bool? {
        if case .bool(let value) = token() { return value }
        wrong("true or false")
        return nil
    }

    func integer(_ range: ClosedRange<Int>) -> Int? {
        let value: Int64?? = read { reader in
            guard case .number(let span) = try reader.value() else { return nil }
            return reader.integer(span)
        }
        if let value, let value, range.contains(Int(value)) { return Int(value) }
        wrong("a whole number from \(range.lowerBound) to \(range.upperBound)")
        return nil
    }

    /// Returns seconds, with a fraction if there is one.
    func seconds(mayBeZero: Bool = false) -> Duration? {
        let value: Double?? = read { reader in
            guard case .number(let span) = try reader.value() else { return nil }
            return Double(reader.text(span))
        }
        if let value, let value, value > 0 || mayBeZero && value == 0, value <= 86_400 {
            return .seconds(value)
        }
        wrong("a number of seconds \(mayBeZero ? "from" : "over") 0, up to 86400,")
        return nil
    }

    func choice<Choice: RawRepresentable & CaseIterable>(
        _ type: Choice.Type
    ) -> Choice? where Choice.RawValue == String {
        if isString, let text = string(), let value = Choice(rawValue: text) { return value }
        wrong(
            "one of " + type.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        )
        return nil
    }

    /// Returns the value as a column value.
    func value(of column: ColumnDefinition) -> Value? {
        let stored: SQLValue
        do {
            stored = try Array(text.utf8).withUnsafeBufferPointer { bytes in
                var reader = JSONReader(bytes)
                return try column.read(&reader)
            }
        } catch {
            reject(error, of: column)
            return nil
        }
        return Value(stored, type: column.type)
    }
}

// MergedLists: merges two changed versions of a list.
//
// Pure. A null value counts as an empty list. The result is nil if a value is not a list.

import TidelineCore

/// The merge of two changes to the same list, which is a JSON array or the lines of a string.
enum MergedLists {
    /// Returns the elements of both sides, except base elements that one side removed.
    static func union(base: Value?, mine: Value, theirs: Value) -> Value? {
        if let lists = Lists(base, mine, theirs, elements) {
            return array(lists.union, spelled: \.text)
        }
        guard let lists = Lists(base, mine, theirs, lines) else { return nil }
        let text = lists.union.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
        let hasEnd = [theirs, mine].contains { $0.text?.utf8.last == UInt8(ascii: "\n") }
        return .string(hasEnd && !lists.union.isEmpty ? text + "\n" : text)
    }

    /// Returns the other side's value, followed by the part that this side appended.
    static func append(base: Value?, mine: Value, theirs: Value) -> Value? {
        if let lists = Lists(base, mine, theirs, elements) {
            return array(lists.appended, spelled: \.text)
        }
        func bytes(_ value: Value) -> [UInt8]? {
            value.isNull ? [] : value.text.map { Array($0.utf8) }
        }
        guard let lists = Lists(base, mine, theirs, bytes), lists.mine.starts(with: lists.base)
        else { return nil }
        return .string(String(decoding: lists.appended, as: UTF8.self))
    }

    private static func array(
        _ elements: [JSONElement],
        spelled text: (JSONElement) -> String
    ) -> Value? {
        (try? JSON("[" + elements.map(text).joined(separator: ",") + "]")).map(Value.json)
    }

    private static func elements(_ value: Value) -> [JSONElement]? {
        switch value {
        case .null: []
        case .json(let document): document.elements
        case .bool, .integer, .number, .decimal, .string, .date, .data: nil
        }
    }

    /// Returns the lines of a string; a newline at the end does not start a new line.
    private static func lines(_ value: Value) -> [[UInt8]]? {
        if value.isNull { return [] }
        guard let text = value.text else { return nil }
        let newline = UInt8(ascii: "\n")
        var lines = text.utf8.split(separator: newline, omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        return lines.map { Array($0) }
    }
}

/// The three states of a list.
private struct Lists<Element: Hashable> {
    let base: [Element]
    let mine: [Element]
    let theirs: [Element]

    /// Creates the three states; nil if a value is not a list, or if both sides are null.
    init?(
        _ base: Value?,
        _ mine: Value,
        _ theirs: Value,
        _ list: (Value) -> [Element]?
    ) {
        guard !mine.isNull || !theirs.isNull, let base = list(base ?? .null),
            let own = list(mine), let others = list(theirs)
        else { return nil }
        (self.base, self.mine, self.theirs) = (base, own, others)
    }

    var union: [Element] {
        let (known, own) = (Set(base), Set(mine))
        var seen = Set(theirs)
        let kept = theirs.filter { own.contains($0) || !known.contains($0) }
        return kept + mine.filter { !known.contains($0) && seen.insert($0).inserted }
    }

    var appended: [Element] {
        // Both sides inserted the row, and one value starts with the other.
        if base.isEmpty, theirs.starts(with: mine) { return theirs }
        if mine.starts(with: base) { return theirs + mine.dropFirst(base.count) }
        let known = Set(base)
        return theirs + mine.filter { !known.contains($0) }
    }
}

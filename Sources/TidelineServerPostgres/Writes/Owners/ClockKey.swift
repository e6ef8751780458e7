// ClockKey: which clock stamps a row: its table's, or that of its owner in its table.
//
// A row without an owner, as others than devices may write one, belongs to the owner with the empty name.

/// Owners are compared by their bytes, as in the database; Swift considers canonically equivalent strings equal.
struct ClockKey: Hashable, Comparable, Sendable {
    /// The table's name in lower case.
    let table: String
    /// Nil for the table's own.
    let owner: String?

    static func == (one: ClockKey, other: ClockKey) -> Bool {
        (one.owner == nil) == (other.owner == nil)
            && one.table.utf8.elementsEqual(other.table.utf8)
            && (one.owner ?? "").utf8.elementsEqual((other.owner ?? "").utf8)
    }

    func hash(into hasher: inout Hasher) {
        for var text in [table, owner ?? ""] {
            text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    static func < (one: ClockKey, other: ClockKey) -> Bool {
        if !one.table.utf8.elementsEqual(other.table.utf8) {
            return one.table.utf8.lexicographicallyPrecedes(other.table.utf8)
        }
        guard let owner = other.owner else { return false }
        guard let first = one.owner else { return true }
        return first.utf8.lexicographicallyPrecedes(owner.utf8)
    }
}

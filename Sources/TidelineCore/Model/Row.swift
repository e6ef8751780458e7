// Row: an untyped record. The rows of a page share their column names, so a row costs a single
// array of values.

/// An untyped record: values by column name, in the order in which they were set.
///
/// ```swift
/// var row = Row(["id": "1", "text": "Buy milk"])
/// row["complete"] = true
/// ```
public struct Row: Sendable {
    private var layout: RowLayout
    private var values: [Value]

    /// An empty row.
    public init() {
        layout = .empty
        values = []
    }

    /// Creates a row with these values, sorted by column name.
    public init(_ members: [String: Value]) {
        self.init()
        for name in members.keys.sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            self[name] = members[name]
        }
    }

    package init(layout: RowLayout, values: [Value]) {
        precondition(layout.names.count == values.count, "one value for each name")
        self.layout = layout
        self.values = values
    }

    /// The value of a column; nil if the row does not have the column, `.null` if the column is
    /// null.
    ///
    /// Setting nil removes the column from the row.
    public subscript(name: String) -> Value? {
        get { layout.index(of: name).map { values[$0] } }
        set {
            switch (layout.index(of: name), newValue) {
            case (let index?, let value?):
                values[index] = value
            case (nil, let value?):
                layout = layout.appending(name)
                values.append(value)
            case (let index?, nil):
                layout = layout.removing(at: index)
                values.remove(at: index)
            case (nil, nil):
                break
            }
        }
    }

    /// The column names, in order.
    public var names: [String] { layout.names }

    /// The number of columns in the row.
    public var count: Int { values.count }

    /// The row's id, or an empty string if the row does not have one.
    public var id: String { self["id"]?.text ?? "" }

    /// The opaque version that the server assigned, if there is one.
    public var version: String? { self["version"]?.text }

    package var rowLayout: RowLayout { layout }
    package var allValues: [Value] { values }
}

extension Row: Sequence {
    /// Iterates over the names and values, in order.
    public func makeIterator() -> some IteratorProtocol<(name: String, value: Value)> {
        zip(layout.names, values).lazy.map { (name: $0, value: $1) }.makeIterator()
    }
}

extension Row: Hashable {
    /// Whether both rows have the same columns with equal values, in any order.
    public static func == (left: Row, right: Row) -> Bool {
        guard left.count == right.count else { return false }
        if left.layout === right.layout || left.layout.names == right.layout.names {
            return left.values == right.values
        }
        return left.layout.names.allSatisfy { left[$0] == right[$0] }
    }

    /// Hashes consistently with `==`.
    public func hash(into hasher: inout Hasher) {
        var sum = 0
        for (name, value) in self {
            var member = Hasher()
            member.combine(name)
            member.combine(value)
            sum &+= member.finalize()
        }
        hasher.combine(sum)
    }
}

extension Row: ExpressibleByDictionaryLiteral {
    /// Creates a row from a literal; if a name is repeated, its last value wins.
    public init(dictionaryLiteral elements: (String, Value)...) {
        let layout = RowLayout(elements.map(\.0))
        if layout.hasUniqueNames {
            self.init(layout: layout, values: elements.map(\.1))
        } else {
            self.init()
            for (name, value) in elements { self[name] = value }
        }
    }
}

/// The column names of a row, shared by the rows of a page.
package final class RowLayout: Sendable {
    package let names: [String]
    /// The indexes by name, for layouts with many names; for a few names, a linear search is
    /// faster.
    private let indexes: [String: Int]?

    package static let empty = RowLayout([])

    private static let fewNames = 16

    package init(_ names: [String]) {
        self.names = names
        indexes =
            names.count <= Self.fewNames
            ? nil : Dictionary(zip(names, names.indices), uniquingKeysWith: { first, _ in first })
    }

    package func index(of name: String) -> Int? {
        if let indexes { return indexes[name] }
        return names.firstIndex(of: name)
    }

    var hasUniqueNames: Bool {
        if let indexes { return indexes.count == names.count }
        return names.indices.allSatisfy { names.firstIndex(of: names[$0]) == $0 }
    }

    func appending(_ name: String) -> RowLayout { RowLayout(names + [name]) }

    func removing(at index: Int) -> RowLayout {
        var rest = names
        rest.remove(at: index)
        return RowLayout(rest)
    }
}

/// A column of rows that mostly share one layout, such as the rows of a page.
///
/// The column's index is looked up once per layout.
package struct RowMember {
    private let name: String
    private var layout: RowLayout?
    private var index: Int?
    private var rest: RowLayout?

    package init(_ name: String) { self.name = name }

    private mutating func place(in row: Row) -> Int? {
        let layout = row.rowLayout
        if self.layout !== layout {
            self.layout = layout
            index = layout.index(of: name)
            rest = index.map(layout.removing(at:))
        }
        return index
    }

    /// Returns the column's value, like `row[name]`.
    package mutating func value(in row: Row) -> Value? {
        place(in: row).map { row.allValues[$0] }
    }

    /// Returns the row without the column.
    package mutating func removed(from row: Row) -> Row {
        guard let index = place(in: row), let rest else { return row }
        let all = row.allValues
        var values: [Value] = []
        values.reserveCapacity(all.count - 1)
        values += all[..<index]
        values += all[(index + 1)...]
        return Row(layout: rest, values: values)
    }
}

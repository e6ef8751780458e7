// MergeRule: a rule for one column that both sides of a conflict changed.

public import TidelineCore

/// A rule for a column that both sides changed to different values.
///
/// ```swift
/// let policy = ConflictPolicy.merge([
///     "tags": .union, "bestScore": .max, "log": .append,
///     "visits": .custom { base, local, server in
///         guard case .integer(let begun)? = base, case .integer(let mine) = local,
///             case .integer(let theirs) = server
///         else { return nil }
///         return .integer(theirs + mine - begun)
///     },
/// ])
/// ```
///
/// The row remains in conflict if a rule does not support the kind of the values, or if a closure
/// returns a value that the column cannot hold (a number that is not finite, or another type).
public struct MergeRule: Sendable, Hashable {
    private enum Kind: Sendable, Hashable {
        case max
        case min
        case union
        case append
        case local
        case server
        case custom(Decision)
    }

    private let kind: Kind

    /// The greater of two numbers, dates, strings or booleans; any value is preferred to null.
    ///
    /// The members of an enumeration are ordered by their position. A column is an enumeration if
    /// its property is a `CaseIterable` enum with string raw values, or if it is declared as an
    /// enumeration (`RecordColumn(\.mood, "mood", .enumeration(["low", "high"]))`).
    public static let max = MergeRule(kind: .max)

    /// The lesser of two values of the kinds that ``max`` supports; any value is preferred to null.
    public static let min = MergeRule(kind: .min)

    /// The elements of both sides, except those that one side removed.
    ///
    /// Elements are the elements of a JSON array, or the lines of a string. The server's elements
    /// come first, and each side's elements keep their order.
    public static let union = MergeRule(kind: .union)

    /// The server's value, followed by the elements of a JSON array, or the text, that this device
    /// appended.
    ///
    /// If a string does not start with its base value, the row remains in conflict.
    public static let append = MergeRule(kind: .append)

    /// This device's value.
    public static let local = MergeRule(kind: .local)

    /// The server's value.
    public static let server = MergeRule(kind: .server)

    /// The result of a closure; nil leaves the row in conflict.
    ///
    /// The closure is called outside any transaction, and may be called again for the same row, so
    /// it must have no side effects. `base` is nil if both sides inserted the row.
    ///
    /// If the server recognizes repeated requests, as Tideline's server does, the closure is also
    /// called when both sides changed the column to the same value, because two devices that each
    /// add 1 have added 2. If it returns nil, the value is kept. With other servers, equal values
    /// may come from one change that arrived twice, and are kept.
    public static func custom(
        _ decide:
            @escaping @Sendable (_ base: Value?, _ local: Value, _ server: Value) -> Value?
    ) -> MergeRule {
        MergeRule(kind: .custom(Decision(decide)))
    }

    /// A closure that is equal only to itself.
    private final class Decision: Sendable, Hashable {
        let decide: @Sendable (Value?, Value, Value) -> Value?

        init(_ decide: @escaping @Sendable (Value?, Value, Value) -> Value?) {
            self.decide = decide
        }

        static func == (left: Decision, right: Decision) -> Bool { left === right }

        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    /// Whether the rule may change a value that is the same on both sides.
    var isClosure: Bool { if case .custom = kind { true } else { false } }

    /// Returns the column's value; nil if the row remains in conflict.
    ///
    /// `type` is the column's type, if it is known.
    package func value(
        base: Value?,
        local: Value,
        server: Value,
        in type: ColumnType? = nil
    ) -> Value? {
        switch kind {
        case .local: local
        case .server: server
        case .max: Self.extreme(local, server, sign: 1, type)
        case .min: Self.extreme(local, server, sign: -1, type)
        case .union: MergedLists.union(base: base, mine: local, theirs: server)
        case .append: MergedLists.append(base: base, mine: local, theirs: server)
        case .custom(let decision): decision.decide(base, local, server)
        }
    }

    private static func extreme(
        _ local: Value,
        _ server: Value,
        sign: Int,
        _ type: ColumnType?
    ) -> Value? {
        if local.isNull { return server }
        if server.isNull { return local }
        if case .enumeration(let members) = type, let one = place(of: local, in: members),
            let two = place(of: server, in: members)
        {
            return (one - two) * sign > 0 ? local : server
        }
        switch local {
        case .json, .data: return nil
        case .null, .bool, .integer, .number, .decimal, .string, .date:
            return ValueOrder.compare(local, server).map { $0 * sign > 0 ? local : server }
        }
    }

    private static func place(of value: Value, in members: [String]) -> Int? {
        guard let text = value.text else { return nil }
        return members.firstIndex { $0.utf8.elementsEqual(text.utf8) }
    }
}

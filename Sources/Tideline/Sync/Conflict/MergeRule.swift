// MergeRule: what becomes of one column that both sides of a conflict changed.

public import TidelineCore

/// What becomes of a column that both sides changed, to different values.
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
/// Where a rule cannot be applied, as the values are of another kind, the row is a conflict. So it is
/// where a closure gives what the column cannot hold: a number that is not finite, or another type.
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

    /// The greater of two numbers, dates, texts or booleans; a value rather than null.
    ///
    /// Members of an enumeration go by their position where the column is declared as one
    /// (`RecordColumn(\.mood, "mood", .enumeration(["low", "high"]))`); an enum of Swift alone has texts,
    /// which go by their letters.
    public static let max = MergeRule(kind: .max)

    /// The lesser of two numbers, dates, texts or booleans, as for ``max``; a value rather than null.
    public static let min = MergeRule(kind: .min)

    /// What either side has, but for what one of them removed: of the elements of a JSON array, else
    /// of the lines of a text.
    ///
    /// The server's come first, each in its order.
    public static let union = MergeRule(kind: .union)

    /// The server's value with what was added here at its end: elements of a JSON array, or text.
    ///
    /// A text that is not the base with something at its end is a conflict.
    public static let append = MergeRule(kind: .append)

    /// The value of this device.
    public static let local = MergeRule(kind: .local)

    /// The server's value.
    public static let server = MergeRule(kind: .server)

    /// What a closure says; nil is a conflict.
    ///
    /// It is called outside any transaction, and may be called again for the same row: it must not
    /// do anything but decide. `base` is nil where both sides inserted the row.
    ///
    /// It is also asked where both sides changed the column to the same value, as two that each added 1
    /// have added 2; nil then leaves that value. That needs a server that knows repeated requests, as
    /// Tideline's does: elsewhere equal values may come of one change that arrived twice, and stay.
    public static func custom(
        _ decide:
            @escaping @Sendable (_ base: Value?, _ local: Value, _ server: Value) -> Value?
    ) -> MergeRule {
        MergeRule(kind: .custom(Decision(decide)))
    }

    /// A closure, which is equal to itself only.
    private final class Decision: Sendable, Hashable {
        let decide: @Sendable (Value?, Value, Value) -> Value?

        init(_ decide: @escaping @Sendable (Value?, Value, Value) -> Value?) {
            self.decide = decide
        }

        static func == (left: Decision, right: Decision) -> Bool { left === right }

        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    /// Whether it may make something else of two values that are the same.
    var isClosure: Bool { if case .custom = kind { true } else { false } }

    /// The column's value; nil for a conflict.
    ///
    /// `type` is the column's, where it is known.
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
        default: return ValueOrder.compare(local, server).map { $0 * sign > 0 ? local : server }
        }
    }

    private static func place(of value: Value, in members: [String]) -> Int? {
        guard let text = value.text else { return nil }
        return members.firstIndex { $0.utf8.elementsEqual(text.utf8) }
    }
}

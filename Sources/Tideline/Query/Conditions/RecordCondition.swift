// RecordCondition: a condition on the records of a model that is created outside of a query.

import TidelineCore

/// A condition on records, as a value that queries share.
///
/// ```swift
/// let isOpen = RecordCondition<TodoItem> { !$0.complete }
/// let isMine = RecordCondition<TodoItem> { $0.list == "mine" }
///
/// let query = try Query<TodoItem>(where: isOpen && !isMine)
/// let milk = try await todos.read(where: { isOpen($0) && $0.text.contains("milk") })
/// ```
///
/// Conditions on the same type are combined with `&&`, `||` and `!`. In a closure, a condition is called with
/// the columns: `isOpen($0)`. An error of the closure, such as a property without a column, is thrown when a
/// query is created.
public struct RecordCondition<Record: Sendable>: Sendable {
    private let condition: Condition

    private init(_ condition: Condition) { self.condition = condition }

    /// Creates a condition from a closure over the columns, which is called once.
    public init(_ condition: (Columns<Record>) throws -> Condition) {
        self.condition = Condition { try Filter(for: Record.self, where: condition).expression }
    }

    /// Returns the condition for a closure over the columns of the same record.
    public func callAsFunction(_ columns: Columns<Record>) -> Condition { condition }

    /// Whether both conditions match.
    public static func && (left: RecordCondition, right: RecordCondition) -> RecordCondition {
        RecordCondition(left.condition && right.condition)
    }

    /// Whether at least one condition matches.
    public static func || (left: RecordCondition, right: RecordCondition) -> RecordCondition {
        RecordCondition(left.condition || right.condition)
    }

    /// Whether the condition does not match.
    public static prefix func ! (condition: RecordCondition) -> RecordCondition {
        RecordCondition(!condition.condition)
    }
}

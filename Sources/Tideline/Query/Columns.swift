// Columns: what a `where:` closure sees of a table, and the typed expressions it builds.
//
// A closure cannot throw where a key path has no column, so an expression is a result: the first
// failure travels to the top and is thrown when the filter is made.

public import TidelineCore

/// The columns of a table, as the argument of a `where:` closure.
///
/// ```swift
/// try await todos.read(where: { !$0.complete && $0.text.contains("milk") })
/// ```
///
/// A column is named by its property, or by its name where there is none: `$0["text"]`.
@dynamicMemberLookup
public struct Columns<Record> {
    private let resolve: (AnyKeyPath) throws -> String

    package init(_ resolve: @escaping (AnyKeyPath) throws -> String) {
        self.resolve = resolve
    }

    /// The column of a stored property.
    public subscript<Content>(dynamicMember path: KeyPath<Record, Content>) -> Column<Content>
    where Record: SyncRecord {
        Column { QueryExpression(.field(try resolve(path))) }
    }

    /// The column of an optional `Bool` as a condition of its own: null does not hold.
    @_disfavoredOverload
    public subscript(dynamicMember path: KeyPath<Record, Bool?>) -> Condition
    where Record: SyncRecord {
        Column { QueryExpression(.field(try resolve(path))) }
    }

    /// The column with this name, compared with untyped values and literals.
    public subscript(name: String) -> Column<Value> {
        Column(QueryExpression(.field(name)))
    }

    /// The column with this name, with the type that it is said to have.
    ///
    /// ```swift
    /// try await rows.read(where: { $0["complete", as: Bool.self] && $0["rank"] > 3 })
    /// ```
    public subscript<Content>(name: String, as type: Content.Type) -> Column<Content> {
        Column(QueryExpression(.field(name)))
    }
}

/// A column, or what is computed from columns, with the type of its contents.
///
/// Operators and functions make further expressions of it; those of type `Bool` are conditions.
/// Nothing is computed in Swift: the store or the server does that, and null follows the rules
/// of the query, not of Swift: a comparison with null other than `==` and `!=` does not hold.
public struct Column<Content>: Sendable {
    /// The tree, or several of which one counts, where a value stands in for null.
    private let built: Result<Alternatives, SyncError>

    package init(_ expression: QueryExpression) {
        built = .success(Alternatives(expression))
    }

    /// Takes errors that are not a ``SyncError`` for unsupported queries.
    package init(_ build: () throws -> QueryExpression) {
        self.init(either: { Alternatives(try build()) })
    }

    init(either build: () throws -> Alternatives) {
        do {
            let alternatives = try build()
            guard alternatives.depth <= Self.depthMax else {
                throw SyncError.unsupportedQuery(
                    "a condition of more than \(Self.depthMax) levels. Join its parts in one chain."
                )
            }
            let isCondition = Content.self == Bool.self && alternatives.cases.count > 1
            guard isCondition else {
                built = .success(alternatives)
                return
            }
            var condition = Alternatives(alternatives.condition)
            condition.depth = alternatives.depth + 1
            built = .success(condition)
        } catch {
            built = .failure(
                error as? SyncError ?? SyncError(.unsupportedQuery, "\(error)", cause: error)
            )
        }
    }

    /// The most levels of a condition: each of them is a call within a call for whoever reads it.
    private static var depthMax: Int { 200 }

    /// The tree, or the first failure of its parts.
    package func expression() throws -> QueryExpression {
        let cases = try built.get().cases
        guard cases.count == 1, cases[0].guardCondition == nil else {
            throw SyncError.unsupportedQuery("'??' outside of a comparison. Compare its value.")
        }
        return cases[0].value
    }

    func alternatives() throws -> Alternatives { try built.get() }

    package func map<Result>(
        _ transform: (QueryExpression) throws -> QueryExpression
    ) -> Column<Result> {
        Column<Result>(either: { try alternatives().map(transform) })
    }

    func with<Other, Result>(
        _ other: Column<Other>,
        _ transform: (QueryExpression, QueryExpression) throws -> QueryExpression
    ) -> Column<Result> {
        Column<Result>(either: { try alternatives().with(other.alternatives(), transform) })
    }

    /// A literal of the type of a column.
    package static func literal(_ value: Content) -> Column<Content> {
        Column { try Literal.expression(value) }
    }
}

/// What a `where:` closure gives back.
public typealias Condition = Column<Bool>

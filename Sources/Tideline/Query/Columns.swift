// Columns: the columns of a table in a `where:` closure, and the typed expressions that it builds.
//
// A subscript cannot throw an error for a key path that has no column. An expression is therefore a
// `Result`: its first failure is passed on, and thrown when the filter is created.

public import TidelineCore

/// The columns of a table, as the argument of a `where:` closure.
///
/// ```swift
/// try await todos.read(where: { !$0.complete && $0.text.contains("milk") })
/// ```
///
/// A column is referred to by its property, or by its name if it has no property: `$0["text"]`.
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

    /// The column of an optional `Bool` as a condition; null does not match.
    @_disfavoredOverload
    public subscript(dynamicMember path: KeyPath<Record, Bool?>) -> Condition
    where Record: SyncRecord {
        Column { QueryExpression(.field(try resolve(path))) }
    }

    /// The column with this name, for comparisons with untyped values and literals.
    public subscript(name: String) -> Column<Value> {
        Column(QueryExpression(.field(name)))
    }

    /// The column with this name, with the given type.
    ///
    /// ```swift
    /// try await rows.read(where: { $0["complete", as: Bool.self] && $0["rank"] > 3 })
    /// ```
    public subscript<Content>(name: String, as type: Content.Type) -> Column<Content> {
        Column(QueryExpression(.field(name)))
    }
}

/// A column, or an expression over columns, with the type of its contents.
///
/// Operators and functions combine columns into further expressions; expressions of type `Bool` are conditions.
/// The store or the server evaluates the expressions, not Swift. Comparisons with null other than `==` and `!=`
/// do not match.
///
/// A property of a nested value is a column, too: `$0.address.city`.
@dynamicMemberLookup
public struct Column<Content>: Sendable {
    /// The expression, or its alternatives, one of which applies when a value replaces null.
    private let built: Result<Alternatives, SyncError>

    package init(_ expression: QueryExpression) {
        built = .success(Alternatives(expression))
    }

    /// Converts an error other than ``SyncError`` to an unsupported query.
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

    /// The maximum nesting depth of a condition.
    ///
    /// Code that walks a condition makes a nested call for each level.
    private static var depthMax: Int { 200 }

    /// Returns the expression, or throws the first failure of its parts.
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

    /// Returns a literal of a column's type.
    package static func literal(_ value: Content) -> Column<Content> {
        Column { try Literal.expression(value) }
    }
}

// A nested value is stored as a JSON document. A member is null if the document, or a value on the path to the member,
// lacks it.

extension Column where Content: Decodable {
    /// A property of a nested value: `$0.address.city`.
    public subscript<Member>(dynamicMember path: KeyPath<Content, Member>) -> Column<Member> {
        member(path, of: Content.self)
    }

    /// A property of a nested value as a condition; null does not match.
    @_disfavoredOverload
    public subscript(dynamicMember path: KeyPath<Content, Bool?>) -> Condition {
        member(path, of: Content.self)
    }
}

extension Column {
    /// A property of an optional nested value; null if that value is null.
    public subscript<Wrapped: Decodable, Member>(
        dynamicMember path: KeyPath<Wrapped, Member>
    ) -> Column<Member?> where Content == Wrapped? {
        member(path, of: Wrapped.self)
    }

    /// An optional property of an optional nested value.
    public subscript<Wrapped: Decodable, Member>(
        dynamicMember path: KeyPath<Wrapped, Member?>
    ) -> Column<Member?> where Content == Wrapped? {
        member(path, of: Wrapped.self)
    }

    /// A property of an optional nested value, as a condition; null does not match.
    @_disfavoredOverload
    public subscript<Wrapped: Decodable>(dynamicMember path: KeyPath<Wrapped, Bool>) -> Condition
    where Content == Wrapped? {
        member(path, of: Wrapped.self)
    }

    /// An optional property of an optional nested value, as a condition; null does not match.
    @_disfavoredOverload
    public subscript<Wrapped: Decodable>(dynamicMember path: KeyPath<Wrapped, Bool?>) -> Condition
    where Content == Wrapped? {
        member(path, of: Wrapped.self)
    }

    /// The JSON member of a nested value with this name, of the given type: `$0.address["post_code", as: String.self]`.
    public subscript<Member>(name: String, as type: Member.Type) -> Column<Member> {
        Column<Member>(either: {
            try alternatives().map { .member(name, of: $0).read(as: Member.self) }
        })
    }

    private func member<Member>(
        _ path: AnyKeyPath,
        of type: any Decodable.Type
    ) -> Column<Member> {
        Column<Member>(either: {
            let name = try NestedKeys.name(of: path, in: type)
            return try alternatives().map { .member(name, of: $0).read(as: Member.self) }
        })
    }
}

extension Column where Content == Value {
    /// The JSON member of a nested value with this name, for comparisons with untyped values: `$0["address"]["city"]`.
    public subscript(name: String) -> Column<Value> {
        map { .member(name, of: $0) }
    }
}

/// The result of a `where:` closure.
public typealias Condition = Column<Bool>

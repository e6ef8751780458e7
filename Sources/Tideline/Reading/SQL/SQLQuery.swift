// SQLQuery: SQL that an app writes, with values that come only from interpolation.

import TidelineCore

/// A SQL statement that an app writes for ``SyncReader``.
///
/// Each interpolated value becomes a bound parameter, converted to the form that the store uses: an instant to
/// milliseconds since 1970, a decimal to its text, a UUID to lowercase text. An array becomes a list in parentheses. A
/// record type becomes the name of its table, and a key path the name of its column.
///
/// ```swift
/// let query: SQLQuery = """
///     SELECT status, sum(minutes) AS minutes FROM \(Job.self)
///     WHERE \(\Job.customerID) IN \(ids) AND updatedAt >= \(monday)
///     GROUP BY status
///     """
/// ```
public struct SQLQuery: Sendable, ExpressibleByStringInterpolation {
    package private(set) var sql = SQL()
    /// The error of a value, type or key path that cannot be part of SQL.
    private(set) var failure: SyncError?

    /// Creates SQL without values.
    public init(stringLiteral text: String) { sql = SQL(verbatim: text) }

    /// Creates SQL from its parts.
    public init(stringInterpolation: StringInterpolation) { self = stringInterpolation.query }

    /// The parts of a statement.
    public struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var query = SQLQuery(stringLiteral: "")

        /// Creates an empty statement.
        public init(literalCapacity: Int, interpolationCount: Int) {}

        /// Appends text of the statement.
        public mutating func appendLiteral(_ literal: String) {
            query.sql.append(SQL(verbatim: literal))
        }

        /// Appends a bound value.
        public mutating func appendInterpolation<Content>(_ value: Content) {
            append { "\(SQLiteStoreSQL.stored(try Literal.value(value)))" }
        }

        /// Appends a bound value; nil becomes null.
        public mutating func appendInterpolation<Content>(_ value: Content?) {
            append { "\(SQLiteStoreSQL.stored(try Literal.value(value)))" }
        }

        /// Appends a list of bound values in parentheses, for `IN`.
        public mutating func appendInterpolation<Content>(_ values: [Content]) {
            append {
                let list: [SQL] = try values.map {
                    "\(SQLiteStoreSQL.stored(try Literal.value($0)))"
                }
                return "(" + list.joined(separator: ", ") + ")"
            }
        }

        /// Appends the quoted name of a record type's table.
        public mutating func appendInterpolation<Record: SyncRecord>(_ type: Record.Type) {
            append { "\(Identifier(Record.tableName))" }
        }

        /// Appends the quoted name of a property's column, without its table.
        public mutating func appendInterpolation<Record: SyncRecord, Content>(
            _ path: KeyPath<Record, Content>
        ) {
            append { "\(Identifier(try RecordSchema.of(Record.self).column(for: path)))" }
        }

        /// Appends another statement, or part of a statement, with its values.
        public mutating func appendInterpolation(_ part: SQLQuery) {
            query.failure = query.failure ?? part.failure
            query.sql.append(part.sql)
        }

        private mutating func append(_ part: () throws -> SQL) {
            do {
                query.sql.append(try part())
            } catch {
                let failure = error as? SyncError ?? SyncError.unsupportedQuery("\(error)")
                query.failure = query.failure ?? failure
            }
        }
    }
}

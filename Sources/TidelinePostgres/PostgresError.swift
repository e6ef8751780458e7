// PostgresError: an error from PostgreSQL, without the values in it.

import CLibPQ

/// An error from PostgreSQL, or from the connection to it.
package struct PostgresError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The five characters of the SQLSTATE; empty if there was no connection.
    package var state: String
    /// The description of the error, for an operator's log.
    package var message: String
    /// The index of the statement in a pipeline, from 0; nil if it was sent alone.
    package var place: Int?
    /// The columns, or the name, of the constraint that rejected a row; nil for other errors.
    package var constraint: String?
    /// The name of the constraint that rejected a row; empty for other errors.
    package private(set) var constraintName = ""
    /// The schema and the table of the constraint that rejected a row; nil for other errors.
    package var relation: (schema: String, table: String)? {
        schema.isEmpty || table.isEmpty ? nil : (schema, table)
    }
    private var schema = ""
    private var table = ""

    package init(state: String, _ message: String) {
        self.state = state
        self.message = message
    }

    package var description: String {
        state.isEmpty ? message : "\(message) (SQLSTATE \(state))"
    }

    /// The first two characters of the state.
    package var category: Substring { state.prefix(2) }

    /// Whether the connection is lost, so that the outcome of its current work is unknown.
    package var isConnectionLost: Bool {
        state.isEmpty || category == "08" || category == "57" && state != "57014"
    }

    /// Whether the same transaction may succeed when it is retried.
    package var isTransient: Bool { state == "40001" || state == "40P01" }

    /// Whether another transaction has inserted a row with the same key.
    package var isUniqueViolation: Bool { state == "23505" }

    /// Whether the statement timed out or was cancelled.
    package var isCanceled: Bool { state == "57014" }

    /// Whether a lock timeout was exceeded.
    package var isLockTimeout: Bool { state == "55P03" }

    /// The state of a statement that exceeds a limit of PostgreSQL.
    package static let tooComplex = "54001"

    /// Whether the connection does not have the prepared statement.
    var isStatementMissing: Bool { state == "26000" }

    /// Whether a statement can no longer be run as it was prepared.
    var isStatementChanged: Bool { state == "0A000" }

    /// The SQLSTATE classes whose messages contain values of rows.
    private static let quoting: Set<Substring> = ["22", "23", "P0"]

    init(_ result: OpaquePointer?) {
        let state = Self.field(result, Self.stateField)
        let message = Self.field(result, Self.messageField)
        self.state = state
        self.message =
            Self.quoting.contains(state.prefix(2)) ? "PostgreSQL rejected a value" : message
        guard state.hasPrefix("23") else { return }
        constraint = Self.constraint(result, state)
        constraintName = Self.field(result, Self.constraintField)
        schema = Self.field(result, Self.schemaField)
        table = Self.field(result, Self.tableField)
    }

    /// Returns the columns, without the values that follow them, or the name of a CHECK constraint.
    private static func constraint(_ result: OpaquePointer?, _ state: String) -> String {
        let column = field(result, columnField)
        if !column.isEmpty { return column }
        let detail = field(result, detailField)
        // Only these begin with the columns; the detail of a CHECK has the values of the row.
        let keys = ["23503", "23505", "23P01"]
        if keys.contains(state), let end = detail.firstRange(of: ")=(")?.lowerBound,
            let start = detail[..<end].firstIndex(of: "(")
        {
            return String(detail[detail.index(after: start)..<end])
        }
        return field(result, constraintField)
    }

    /// Reads the error message of a connection.
    init(connection: OpaquePointer?) {
        state = ""
        let text = PQerrorMessage(connection).map { String(cString: $0) } ?? ""
        message = text.split(separator: "\n").first.map(String.init) ?? "no connection"
    }

    private static let stateField = Int32(UInt8(ascii: "C"))
    private static let detailField = Int32(UInt8(ascii: "D"))
    private static let schemaField = Int32(UInt8(ascii: "s"))
    private static let tableField = Int32(UInt8(ascii: "t"))
    private static let columnField = Int32(UInt8(ascii: "c"))
    private static let constraintField = Int32(UInt8(ascii: "n"))
    private static let messageField = Int32(UInt8(ascii: "M"))

    private static func field(_ result: OpaquePointer?, _ code: Int32) -> String {
        PQresultErrorField(result, code).map { String(cString: $0) } ?? ""
    }
}

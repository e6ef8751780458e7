// PostgresError: why PostgreSQL did not do a statement, without the values that it was about.

import CLibPQ

/// What PostgreSQL, or the way to it, answered.
package struct PostgresError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The SQLSTATE, five characters; empty when there is no connection.
    package var state: String
    /// What happened, for the log of an operator.
    package var message: String
    /// Which statement of a pipeline it was, counted from 0; nil where there was one alone.
    package var place: Int?
    /// Columns or the name of the constraint that refused a row; nil for anything else.
    package var constraint: String?
    /// The schema and the table of the constraint that refused a row; nil for anything else.
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

    /// Whether the connection is gone, and it is not known what became of what was under way.
    package var isConnectionLost: Bool {
        state.isEmpty || category == "08" || category == "57" && state != "57014"
    }

    /// Whether the same transaction may succeed when it begins anew.
    package var isTransient: Bool { state == "40001" || state == "40P01" }

    /// Whether somebody has put a row in the place of one that was to be made.
    package var isUniqueViolation: Bool { state == "23505" }

    /// Whether the time of a statement was over, or somebody cancelled it.
    package var isCanceled: Bool { state == "57014" }

    /// Whether a lock did not come free in time.
    package var isLockTimeout: Bool { state == "55P03" }

    /// Whether the connection does not have a statement by the name that it was given.
    var isStatementMissing: Bool { state == "26000" }

    /// Whether a statement cannot be done as it was prepared.
    var isStatementChanged: Bool { state == "0A000" }

    /// Messages of these classes quote the values of rows.
    private static let quoting: Set<Substring> = ["22", "23", "P0"]

    init(_ result: OpaquePointer?) {
        let state = Self.field(result, Self.stateField)
        let message = Self.field(result, Self.messageField)
        self.state = state
        self.message =
            Self.quoting.contains(state.prefix(2)) ? "PostgreSQL refused a value" : message
        guard state.hasPrefix("23") else { return }
        constraint = Self.constraint(result, state)
        schema = Self.field(result, Self.schemaField)
        table = Self.field(result, Self.tableField)
    }

    /// Returns the columns without the values that follow them, or the name of a CHECK.
    private static func constraint(_ result: OpaquePointer?, _ state: String) -> String {
        let column = field(result, columnField)
        if !column.isEmpty { return column }
        let detail = field(result, detailField)
        // Only these begin with the columns; that of a CHECK has the values of the row.
        let keys = ["23503", "23505", "23P01"]
        if keys.contains(state), let end = detail.firstRange(of: ")=(")?.lowerBound,
            let start = detail[..<end].firstIndex(of: "(")
        {
            return String(detail[detail.index(after: start)..<end])
        }
        return field(result, constraintField)
    }

    /// What a connection says of itself.
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

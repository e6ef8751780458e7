// GrowthLimits: the limits for the tables and columns that a dynamic schema adds.

import TidelineCore

extension ServerError {
    /// Returns why a write may not add tables or columns; nil if it may add them.
    ///
    /// - Parameters:
    ///   - table: The table, with its columns after the write.
    ///   - isNew: Whether the database lacks the table.
    ///   - tables: The number of tables in the database.
    ///   - limits: The limits.
    /// - Returns: The rejection, or nil.
    package static func growth(
        of table: TableDefinition,
        isNew: Bool,
        tables: Int,
        _ limits: ServerLimits
    ) -> ServerError? {
        if isNew, tables >= limits.tables {
            return ServerError(
                403,
                "The table cannot be created: the database already has \(limits.tables) tables (limits.tables).",
                code: .tooManyTables
            )
        }
        guard table.schema.columns.count > limits.columns else { return nil }
        return ServerError(
            403,
            "Table '\(table.name)' would have more columns than limits.columns allows "
                + "(\(limits.columns)).",
            code: .tooManyColumns
        )
    }
}

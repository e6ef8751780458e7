// GrowthLimits: how far a dynamic schema grows.

import TidelineCore

extension ServerError {
    /// Why a write makes no table or columns; nil if it may.
    ///
    /// - Parameters:
    ///   - table: The table with the columns that it would have.
    ///   - isNew: Whether the database lacks the table.
    ///   - tables: How many tables the database has.
    ///   - limits: The bounds.
    /// - Returns: The refusal.
    package static func growth(
        of table: TableDefinition,
        isNew: Bool,
        tables: Int,
        _ limits: ServerLimits
    ) -> ServerError? {
        if isNew, tables >= limits.tables {
            return ServerError(
                403,
                "The database has as many tables as limits.tables allows (\(limits.tables)).",
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

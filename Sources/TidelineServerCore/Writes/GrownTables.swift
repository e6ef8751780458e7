// GrownTables: the tables as the earlier writes of a group will leave them, if a dynamic schema adds tables or
// columns.

/// Tables that the writes of a group will create or extend.
struct GrownTables {
    private var tables: [String: Table] = [:]

    /// Returns the table's definition after the writes so far; nil if they do not change it.
    func table(named name: String) -> Table? { tables.isEmpty ? nil : tables[name.lowercased()] }

    /// Adds the tables and columns that a write creates.
    mutating func take(_ write: PreparedWrite) {
        if write.table.needsGrowth { tables[write.table.name.lowercased()] = write.table }
    }
}

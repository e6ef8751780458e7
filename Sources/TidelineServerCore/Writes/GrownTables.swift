// GrownTables: the tables as the earlier writes of a group will leave them, where a dynamic schema
// makes what they lack.

/// Tables that writes of a group are going to make, or make wider.
struct GrownTables {
    private var tables: [String: Table] = [:]

    /// Returns the table's definition after the writes so far; nil if they do not change it.
    func table(named name: String) -> Table? { tables.isEmpty ? nil : tables[name.lowercased()] }

    /// Takes in what a write will make.
    mutating func take(_ write: PreparedWrite) {
        if write.table.needsGrowth { tables[write.table.name.lowercased()] = write.table }
    }
}

// RowProgram: evaluates expressions on rows in memory.

package import TidelineCore

/// An expression that is evaluated on rows in memory.
package struct RowProgram {
    private let program: FilterProgram
    /// The indexes of the columns and system columns that the expression reads.
    package let places: [Int]

    package init(_ expression: QueryExpression, isCondition: Bool, of table: Table) {
        // A program is not rendered as SQL, so the dialect has no effect.
        let renderer = FilterRenderer(schema: table.definition.schema, dateUnit: .microseconds)
        program = FilterProgram(expression, isCondition: isCondition, in: renderer)
        places = program.columnNames.map { table.place(of: $0) ?? -1 }
    }

    package func holds(_ image: RowImage, _ watch: EvaluationWatch?) -> Bool {
        value(image, watch) == .integer(1)
    }

    package func value(_ image: RowImage, _ watch: EvaluationWatch?) -> SQLValue {
        let all = image.allValues
        return program.evaluate(places.map { all.indices.contains($0) ? all[$0] : .null }, watch)
    }
}

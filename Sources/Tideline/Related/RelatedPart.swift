// RelatedPart: the related records that a query declares for its records.

import TidelineCore

/// The related records of one kind, for each record of a query.
struct RelatedPart<Value: Sendable>: Sendable {
    /// The columns of the records whose values determine the related records.
    let columns: [String]
    /// The reader of one value for each record's row, in its initial state.
    let values: any RelatedValues<Value>
    /// The queries of the related records, at any depth.
    let queries: [TableQuery]
    /// The tables of the related records.
    let tables: [String]

    private init<Record, Entry>(
        _ included: IncludedQuery<Record, Entry>,
        _ columns: [String],
        _ values: any RelatedValues<Value>
    ) {
        (self.columns, self.values) = (columns, values)
        queries = [included.query] + included.relatedQueries
        tables = [Record.tableName] + included.relatedTables
    }

    private init(
        _ columns: [String],
        _ values: any RelatedValues<Value>,
        _ queries: [TableQuery],
        _ tables: [String]
    ) {
        (self.columns, self.values, self.queries, self.tables) = (columns, values, queries, tables)
    }
}

extension RelatedPart {
    /// Returns the children of each record.
    static func children<Parent: SyncRecord, Record, Entry>(
        _ children: IncludedQuery<Record, Entry>,
        of parent: Parent.Type,
        on reference: PartialKeyPath<Record>?
    ) throws -> RelatedPart where Value == [Entry] {
        let column = try RecordSchema.column(of: reference, to: parent)
        let keyed = KeyedEntries(children, by: column)
        return RelatedPart(children, [SystemColumn.id], ChildValues(keyed))
    }

    /// Returns the parent of each record.
    static func parent<Child: SyncRecord, Record, Entry>(
        _ parent: IncludedQuery<Record, Entry>,
        of child: Child.Type,
        on reference: PartialKeyPath<Child>?
    ) throws -> RelatedPart where Value == Entry? {
        let column = try RecordSchema.column(of: reference, to: Record.self)
        guard parent.query.limit == nil, parent.query.offset == 0 else {
            throw SyncError.unsupportedQuery(
                "a limit of parents. A record has at most one: remove the limit and the offset."
            )
        }
        let keyed = KeyedEntries(parent, by: SystemColumn.id)
        return RelatedPart(parent, [column], ParentValues(keyed, by: column))
    }
}

extension RelatedPart {
    /// Returns the related records of two kinds.
    static func pair<First, Second>(
        _ first: RelatedPart<First>,
        _ second: RelatedPart<Second>
    ) -> RelatedPart where Value == RelatedPair<First, Second> {
        RelatedPart(
            first.columns + second.columns,
            PairValues(first.values, second.values),
            first.queries + second.queries,
            first.tables + second.tables
        )
    }
}

// LiveQuery+Reading: lists from a closure over several tables, and from queries with related records.

import TidelineCore

extension LiveQuery {
    /// Observes the array that a closure reads from any number of tables.
    ///
    /// ```swift
    /// let late = await LiveQuery(client.syncContext) { reader in
    ///     let todos = try reader.table(TodoItem.self)
    ///     return try reader.table(TodoList.self).read().filter { list in
    ///         try todos.exists(where: { $0.list == list.id && !$0.complete })
    ///     }
    /// }
    /// ```
    ///
    /// The closure runs as in `SyncContext.observe(_:)`: off the main actor, on one committed state, and again after
    /// each commit that may change its result. An error that the closure throws ends the observation and is stored in
    /// ``error``; an error that is not a ``SyncError`` is stored as its `cause`. Call `update(reading:)` to restart
    /// the observation.
    ///
    /// - Parameters:
    ///   - context: The context of the client.
    ///   - read: The closure. It must depend only on the reader.
    public convenience init(
        _ context: SyncContext,
        reading read: @escaping @Sendable (SyncReader) throws -> [Record]
    ) {
        self.init(context, context.observed(isSame: nil, read))
    }

    /// Observes the array that a closure reads; an equal array does not redraw the view.
    ///
    /// See the overload for records that are not `Equatable`.
    public convenience init(
        _ context: SyncContext,
        reading read: @escaping @Sendable (SyncReader) throws -> [Record]
    ) where Record: Equatable {
        self.init(context, context.observed(isSame: { $0 == $1 }, read))
    }

    /// Observes the records of a query with their related records.
    ///
    /// ```swift
    /// let lists = try Query<TodoList>().including(Query<TodoItem>(), on: \.list)
    /// let live = await LiveQuery(client.syncContext, lists)
    /// ```
    ///
    /// After a change, only the rows that the change affects are read again. If a closure read the query instead, each
    /// run would read all rows.
    ///
    /// - Parameters:
    ///   - context: The context of the client.
    ///   - query: The query.
    ///   - onDecodingFailure: What to do with a row that does not decode; with `.throw`, it ends the observation.
    public convenience init<Related: IncludableQuery>(
        _ context: SyncContext,
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) where Record == Related.Entry {
        self.init(context, context.observed(query.included, onDecodingFailure, isSame: nil))
    }

    /// Observes the records of a query with their related records; an equal array does not redraw the view.
    ///
    /// See the overload for records that are not `Equatable`.
    public convenience init<Related: IncludableQuery>(
        _ context: SyncContext,
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) where Record == Related.Entry, Related.Entry: Equatable {
        self.init(
            context,
            context.observed(query.included, onDecodingFailure, isSame: { $0 == $1 })
        )
    }

    /// From now on, shows the array that a closure reads.
    public func update(reading read: @escaping @Sendable (SyncReader) throws -> [Record]) {
        observe(isSame: nil, read)
    }

    /// From now on, shows the array that a closure reads; an equal array does not redraw the view.
    public func update(
        reading read: @escaping @Sendable (SyncReader) throws -> [Record]
    ) where Record: Equatable {
        observe(isSame: { $0 == $1 }, read)
    }

    private func observe(
        isSame: (@Sendable ([Record], [Record]) -> Bool)?,
        _ read: @escaping @Sendable (SyncReader) throws -> [Record]
    ) {
        show(
            ObservedValues(deferred: { [engine] in
                let engine = try engine()
                return QueryObservation(engine: engine).observe {
                    ObservedReads(engine, isSame: isSame, read)
                }
            })
        )
    }
}

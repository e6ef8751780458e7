// LiveQuery+Reading: lists of a closure over several tables, and of queries with related records.

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
    /// each commit that may change its result. An error that it throws ends the observation and is in ``error``, where
    /// an error that is not a ``SyncError`` is the `cause`. Call `update(reading:)` to begin again.
    ///
    /// - Parameters:
    ///   - context: The context of the client.
    ///   - read: The closure. It must depend on nothing but the reader.
    public convenience init(
        _ context: SyncContext,
        reading read: @escaping @Sendable (SyncReader) throws -> [Record]
    ) {
        self.init(context, context.observed(isSame: nil, read))
    }

    /// Observes the array that a closure reads; an equal array does not redraw the view.
    ///
    /// See the other form of this initializer, for records that cannot be compared.
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
    /// After a change, only the rows that it affects are read, whereas a closure that reads the query would run
    /// completely.
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
    /// See the other form of this initializer, for records that cannot be compared.
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

    /// Shows the array that a closure reads from now on.
    public func update(reading read: @escaping @Sendable (SyncReader) throws -> [Record]) {
        observe(isSame: nil, read)
    }

    /// Shows the array that a closure reads from now on; an equal array does not redraw the view.
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

// SyncErrorMessages: the fixed messages about models, rows, ids and queries.
//
// Messages may contain names of tables, columns and types, and ids, but never the values of records.

import TidelineCore

extension SyncError {
    package static func rowDoesNotFit(
        table: String,
        id: String,
        column: String,
        expected: String
    ) -> SyncError {
        let failure = DecodingFailure(
            table: table,
            itemID: id,
            column: column,
            message: """
                Row '\(id)' of table '\(table)' cannot be decoded: column '\(column)' is not \(expected). \
                Change the property to match the table, or read with 'onDecodingFailure: .skip'.
                """
        )
        return SyncError(.rowDoesNotFit, failure.message, cause: failure)
    }

    /// The error for a row whose reference cannot be null.
    static func parentRequired(_ error: TableOperationError, column: String) -> SyncError {
        SyncError(
            .rowDoesNotFit,
            """
            Row '\(error.itemID)' of table '\(error.table)' must have a parent, because the property of column \
            '\(column)' is not optional. Pass the id of a parent, or discard the row.
            """
        )
    }

    /// The error for a value of a group of rows that does not fit the property.
    static func valueDoesNotFit(table: String, column: String, expected: String) -> SyncError {
        SyncError(
            .rowDoesNotFit,
            """
            Rows of table '\(table)' cannot be decoded: a value of column '\(column)' is not \(expected). Change the \
            property to match the table, or exclude these rows with a condition.
            """
        )
    }

    package static func recordDoesNotFit(
        table: String,
        id: String,
        column: String,
        reason: String
    ) -> SyncError {
        SyncError(
            .rowDoesNotFit,
            """
            Record \(id.isEmpty ? "without an id" : "'\(id)'") does not fit into table '\(table)': \
            column '\(column)' \(reason). \
            Change the record before you store it.
            """
        )
    }

    /// The error for an update of a record whose type has no property that identifies the state of
    /// the row.
    static func versionRequired(table: String, type: String) -> SyncError {
        SyncError(
            .versionRequired,
            """
            '\(type)' has neither 'version' nor 'updatedAt', so an update of a record of table '\(table)' \
            could overwrite changes of another device. Add 'var updatedAt: Date?' (or \
            'var version: String?') to the type, or use update(id:_:).
            """
        )
    }

    package static func invalidModel(_ type: String, _ reason: String) -> SyncError {
        SyncError(.invalidModel, "'\(type)' cannot be a synced record: \(reason)")
    }

    package static func noPlaceholder(_ model: String, property: String, type: String) -> SyncError
    {
        invalidModel(
            model,
            """
            no value of type '\(type)' can be created to find the columns. Make property \
            '\(property)' optional, conform '\(type)' to CaseIterable, or declare 'static var \
            columns'.
            """
        )
    }

    package static func undeclaredColumn(_ model: String, _ column: String) -> SyncError {
        invalidModel(
            model,
            """
            it encodes column '\(column)', which its init(from:) does not decode. Use the same keys \
            in both, or declare the column in 'static var columns'.
            """
        )
    }

    package static func invalidID(_ reason: String) -> SyncError {
        SyncError(
            .invalidID,
            """
            The id cannot be used: \(reason). An id has 1 to 255 characters, no control \
            characters and none of " + ? \\ / `.
            """
        )
    }

    package static func invalidQueryID(_ reason: String) -> SyncError {
        SyncError(
            .invalidQueryID,
            """
            The query id cannot be used: \(reason). A query id has 1 to 50 characters: the \
            letters a to z and A to Z, digits, '-' and '_'.
            """
        )
    }

    package static func unsupportedQuery(_ what: String) -> SyncError {
        SyncError(.unsupportedQuery, "The query cannot be expressed: \(what)")
    }

    /// Returns the error for a query that no server could run.
    package static func unsupportedQuery(_ cause: ODataError) -> SyncError {
        var error = unsupportedQuery(
            "\(cause.message). Use a broader server query and filter the results on the device."
        )
        error.cause = cause
        return error
    }

    package static func unknownColumn(keyPath: String, table: String, reason: String) -> SyncError {
        unsupportedQuery(
            """
            key path '\(keyPath)' \(reason). Use a stored property of the model of table \
            '\(table)', name the column as in $0["name"], or declare 'static var columns'.
            """
        )
    }

    package static func unsupportedLiteral(_ type: Any.Type) -> SyncError {
        unsupportedQuery(
            """
            a value of type '\(type)' has no column type. Compare with a string, a number, a \
            boolean, a date, a UUID or an enum with such a raw value.
            """
        )
    }
}

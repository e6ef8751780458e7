// Exports: re-exports the core's values (Row, Value, TableSchema), so that users of the client need one import.

@_exported public import TidelineCore

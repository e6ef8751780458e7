// Exports: the client's users get the core's values (Row, Value, TableSchema) with one import.

@_exported public import TidelineCore

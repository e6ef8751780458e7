// Exports: gives users of the client the core's values (Row, Value, TableSchema) with one import.

@_exported public import TidelineCore

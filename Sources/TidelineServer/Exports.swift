// Exports: `import TidelineServer` includes the types of its API: columns, tables, limits.

@_exported public import TidelineCore
@_exported public import TidelineHTTP
@_exported public import TidelineServerCore

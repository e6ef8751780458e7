// Exports: with `import TidelineServer` comes what its API is made of: columns, tables, limits.

@_exported public import TidelineCore
@_exported public import TidelineHTTP
@_exported public import TidelineServerCore

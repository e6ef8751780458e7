// Exports: makes the types for tables, hooks, and endpoints of an `InProcessServer` available with
// `import TidelineTestKit`, because the product `TidelineServer` does not exist on a Mac.
//
// The types are listed individually, because an app may have a type with the same name as another
// type of the server, such as `User`.

@_exported public import struct TidelineServerCore.Endpoint
@_exported public import struct TidelineServerCore.Rejection
@_exported public import struct TidelineServerCore.ServerResponse
@_exported public import struct TidelineServerCore.TableDefinition
@_exported public import struct TidelineServerCore.TableHooks
@_exported public import struct TidelineServerCore.TablePermissions

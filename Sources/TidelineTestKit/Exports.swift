// Exports: `import TidelineTestKit` includes the types by which a test declares the tables, hooks and endpoints of an
// `InProcessServer`, because the product `TidelineServer` does not exist on a Mac.
//
// Types are named one by one, because apps have types of their own that are named `User`, for example.

@_exported public import struct TidelineServerCore.Endpoint
@_exported public import struct TidelineServerCore.Rejection
@_exported public import struct TidelineServerCore.ServerResponse
@_exported public import struct TidelineServerCore.TableDefinition
@_exported public import struct TidelineServerCore.TableHooks
@_exported public import struct TidelineServerCore.TablePermissions

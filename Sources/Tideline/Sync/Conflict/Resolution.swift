// Resolution: how an app's handler resolves a conflict.

public import TidelineCore

/// The resolution of a row that changed on both sides.
///
/// ```swift
/// let policy = ConflictPolicy.custom { conflict in
///     guard var row = conflict.server else { return .delete }
///     row["rank"] = conflict.local?["rank"]
///     return .write(row)
/// }
/// ```
public enum Resolution: Sendable, Hashable {
    /// The local row replaces the server's; a row that was deleted locally is deleted on the server.
    case local
    /// The server's row replaces the local one and all its edits; a row that was deleted on the server is
    /// deleted locally.
    case server
    /// This row replaces the local and the server's row; columns that it lacks keep the server's values.
    ///
    /// A record is written by `.write(try Row(record))`.
    case write(Row)
    /// The row is deleted on both sides.
    case delete
    /// Parks the operation, with an error that has both rows.
    case fail
}

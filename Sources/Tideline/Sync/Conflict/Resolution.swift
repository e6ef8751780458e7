// Resolution: the decision of an app's handler on a conflict.

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
    /// The local row replaces the server's row; if the row was deleted locally, it is deleted on
    /// the server.
    case local
    /// The server's row replaces the local row and all its edits; if the row was deleted on the
    /// server, it is deleted locally.
    case server
    /// This row replaces both the local row and the server's row; columns that it lacks keep the
    /// server's values.
    ///
    /// To write a record, use `.write(try Row(record))`.
    case write(Row)
    /// The row is deleted on both sides.
    case delete
    /// Parks the operation with an error that contains both rows.
    case fail
}

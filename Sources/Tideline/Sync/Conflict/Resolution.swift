// Resolution: an app handler's decision about a conflict.

public import TidelineCore

/// The decision about a row that changed on both sides.
///
/// ```swift
/// let policy = ConflictPolicy.custom { conflict in
///     guard var row = conflict.server else { return .delete }
///     row["rank"] = conflict.local?["rank"]
///     return .write(row)
/// }
/// ```
public enum Resolution: Sendable, Hashable {
    /// The local row, as it is, replaces the server's; a row that is deleted here is deleted there.
    case local
    /// The server's row replaces the local one and all its edits; a row that is deleted there is
    /// deleted here.
    case server
    /// This row replaces both; columns that it does not have keep the server's values.
    ///
    /// A record is written by `.write(try Row(record))`.
    case write(Row)
    /// The row is deleted on both sides.
    case delete
    /// The operation is parked, with an error that has both rows.
    case fail
}

// TodoItem: the record of the app.

public import Foundation
public import Tideline

/// One thing to do.
public struct TodoItem: SyncRecord, Hashable {
    /// The row's id.
    public var id: String
    /// The task to do.
    public var text: String
    /// Whether it is done.
    public var complete = false
    /// When the server last changed the row.
    ///
    /// With it, an edit of an old copy causes a conflict and overwrites nothing.
    public var updatedAt: Date?

    /// A new item; the store gives it an id.
    public init(id: String = "", text: String, complete: Bool = false) {
        (self.id, self.text, self.complete) = (id, text, complete)
    }
}

// TodoItem: the record of the app.

public import Foundation
public import Tideline

/// An item of the to-do list.
public struct TodoItem: SyncRecord, Hashable {
    /// The row's id.
    public var id: String
    /// The task to do.
    public var text: String
    /// Whether it is done.
    public var complete = false
    /// When the server last changed the row.
    ///
    /// With this property, an edit of an old copy causes a conflict instead of overwriting changes.
    public var updatedAt: Date?

    /// Creates an item; the store gives it an id.
    public init(id: String = "", text: String, complete: Bool = false) {
        (self.id, self.text, self.complete) = (id, text, complete)
    }
}

// TodoItem: what the app keeps.

public import Foundation
public import Tideline

/// One thing to do.
public struct TodoItem: SyncRecord, Hashable {
    /// The row's id.
    public var id: String
    /// What is to be done.
    public var text: String
    /// Whether it is done.
    public var complete = false
    /// What the device saw last: an edit of an older copy meets a conflict and overwrites nothing.
    public var updatedAt: Date?

    /// A new item; the store gives it an id.
    public init(id: String = "", text: String, complete: Bool = false) {
        (self.id, self.text, self.complete) = (id, text, complete)
    }
}

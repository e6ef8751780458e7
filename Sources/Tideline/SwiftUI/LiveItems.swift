// LiveItems: a property wrapper for SwiftUI over LiveQuery.
//
// If SwiftUI is not available, scripts/apple only type-checks this file; docs/apple.md lists what that check
// does not cover.

#if canImport(SwiftUI)
public import SwiftUI

/// The records of a query in a view.
///
/// ```swift
/// struct OpenItems: View {
///     @LiveItems private var items: [TodoItem]
///
///     init(_ todos: SyncTable<TodoItem>, _ query: Query<TodoItem>) {
///         _items = LiveItems(todos, query)
///     }
///
///     var body: some View { List(items) { Text($0.text) } }
/// }
/// ```
@propertyWrapper
@MainActor
public struct LiveItems<Record: Sendable>: @MainActor DynamicProperty {
    @State private var holder = Holder()
    private let table: SyncTable<Record>
    private let query: Query<Record>

    /// A holder that keeps the query when SwiftUI recreates the view.
    @MainActor
    private final class Holder {
        var live: LiveQuery<Record>?
    }

    /// Creates a wrapper for the records of a query.
    public init(_ table: SyncTable<Record>, _ query: Query<Record> = Query()) {
        self.table = table
        self.query = query
    }

    /// Starts the observation when the view first appears.
    ///
    /// If the view is recreated with another query, the wrapper observes the new query.
    public func update() { projectedValue.follow(query) }

    /// The records.
    public var wrappedValue: [Record] { projectedValue.items }

    /// The observable object, with `error` and `isLoading`.
    public var projectedValue: LiveQuery<Record> {
        if let live = holder.live { return live }
        let live = LiveQuery(table, query)
        live.follow(query)
        holder.live = live
        return live
    }
}
#endif

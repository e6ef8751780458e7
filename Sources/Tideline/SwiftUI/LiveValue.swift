// LiveValue: the result of a closure over several tables as an observable object, for views.

public import Observation

/// The result of a closure that reads several tables, now and after every change to the data that it read, for views.
///
/// ``LiveQuery`` shows the records of one query; this type shows anything that a ``SyncReader`` can read.
///
/// ```swift
/// struct ListScreen: View {
///     @State private var overview: LiveValue<Overview>
///
///     init(_ client: SyncClient, list id: String) {
///         let context = client.syncContext
///         _overview = State(initialValue: LiveValue(context) { try Overview($0, list: id) })
///     }
///
///     var body: some View {
///         if let overview = overview.value { List(overview.open) { Text($0.text) } }
///     }
/// }
/// ```
///
/// The closure runs off the main actor, as in `SyncContext.observe(_:)`; only its result is delivered to the
/// main actor. Observation ends when the object is released.
@Observable
@MainActor
public final class LiveValue<Value: Sendable> {
    /// The last result; nil before the first result.
    ///
    /// Until the first result of another closure, this is the last result of the previous closure.
    public private(set) var value: Value?
    /// The error that ended the observation: an error of the closure, or a ``SyncError``.
    ///
    /// `value` keeps the last result. Call `update` to restart the observation.
    public private(set) var error: (any Error)?
    /// Whether the closure has not yet returned a result or an error.
    public private(set) var isLoading = true

    @ObservationIgnored private let context: SyncContext
    @ObservationIgnored private let watching = LiveTask()

    /// Observes the result of a closure.
    ///
    /// - Parameters:
    ///   - context: The context of the client whose tables are read.
    ///   - body: The closure, as in `SyncContext.observe(_:)`.
    public init(
        _ context: SyncContext,
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) {
        self.context = context
        watch(context.observed(isSame: nil, body))
    }

    /// Observes the result of a closure; an equal result does not redraw the view.
    public init(
        _ context: SyncContext,
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) where Value: Equatable {
        self.context = context
        watch(context.observed(isSame: { $0 == $1 }, body))
    }

    /// Observes the records of a query with their related records.
    ///
    /// ```swift
    /// let customers = try Query<Customer>().including(Query<Job>())
    /// let live = await LiveValue(client.syncContext, customers)
    /// ```
    ///
    /// After a change, only the rows that the change affects are read again. If a closure read the query instead, each
    /// run would read all rows.
    ///
    /// - Parameters:
    ///   - context: The context of the client whose tables are read.
    ///   - query: A ``Query`` or a ``RelatedQuery``.
    ///   - onDecodingFailure: Whether a row that does not decode ends the observation or is skipped.
    public init<Related: IncludableQuery>(
        _ context: SyncContext,
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) where Value == [Related.Entry] {
        self.context = context
        watch(context.observed(query.included, onDecodingFailure, isSame: nil))
    }

    /// Observes the records of a query with their related records; an equal result does not redraw the view.
    ///
    /// See the overload for records that are not `Equatable`.
    public init<Related: IncludableQuery>(
        _ context: SyncContext,
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) where Value == [Related.Entry], Related.Entry: Equatable {
        self.context = context
        watch(context.observed(query.included, onDecodingFailure, isSame: { $0 == $1 }))
    }

    /// Replaces the closure, and observes the result of the new closure from now on.
    ///
    /// - Parameter body: The new closure.
    public func update(_ body: @escaping @Sendable (SyncReader) throws -> Value) {
        watch(context.observed(isSame: nil, body))
    }

    /// Replaces the closure, and observes the result of the new closure; an equal result does not redraw the view.
    public func update(
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) where Value: Equatable {
        watch(context.observed(isSame: { $0 == $1 }, body))
    }

    /// Observes a query with related records from now on, instead of the closure or the previous query.
    public func update<Related: IncludableQuery>(
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) where Value == [Related.Entry] {
        watch(context.observed(query.included, onDecodingFailure, isSame: nil))
    }

    /// Observes a query with related records from now on; an equal result does not redraw the view.
    public func update<Related: IncludableQuery>(
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) where Value == [Related.Entry], Related.Entry: Equatable {
        watch(context.observed(query.included, onDecodingFailure, isSame: { $0 == $1 }))
    }

    private func watch(_ values: ObservedValues<Value>) {
        isLoading = true
        watching.replace(
            with: Task { [weak self] in
                do {
                    for try await value in values { self?.show(.success(value)) }
                } catch {
                    self?.show(.failure(error))
                }
            }
        )
    }

    /// Shows a result.
    ///
    /// The task of a replaced closure is cancelled on this actor, so its last result is not shown.
    private func show(_ result: Result<Value, any Error>) {
        guard !Task.isCancelled else { return }
        isLoading = false
        switch result {
        case .success(let value):
            self.value = value
            error = nil
        case .failure(let error):
            self.error = error
        }
    }
}

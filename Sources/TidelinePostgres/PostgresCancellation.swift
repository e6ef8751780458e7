// PostgresCancellation: cancels the work of a connection from another thread.

import CLibPQ

/// A cancellation of a connection's current statement, which any thread may request.
///
/// `@unchecked`: libpq never changes a `PGcancel`, and `PQcancel` may be called by any thread.
package final class PostgresCancellation: @unchecked Sendable {
    private let handle: OpaquePointer?

    init(_ handle: OpaquePointer?) { self.handle = handle }

    deinit { PQfreeCancel(handle) }

    package func cancel() {
        var reason = [CChar](repeating: 0, count: 256)
        _ = PQcancel(handle, &reason, Int32(reason.count))
    }
}

// LocalizedCollation: registers the collation of a localized order when a statement first names it.

import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The order of a collation, which SQLite releases with its connection.
private final class CollationOrder {
    let order: LocalizedOrder

    init(_ order: LocalizedOrder) { self.order = order }
}

/// Lets a connection create the collation of a localized order when a statement first names it.
///
/// - Returns: `SQLITE_OK`, or the code of the failure.
func registerLocalizedCollations(on handle: OpaquePointer) -> Int32 {
    sqlite3_collation_needed(handle, nil) { _, handle, _, name in
        guard let handle, let name, let order = LocalizedOrder(collation: String(cString: name))
        else { return }
        _ = sqlite3_create_collation_v2(
            handle,
            name,
            SQLITE_UTF8,
            Unmanaged.passRetained(CollationOrder(order)).toOpaque(),
            { context, leftCount, left, rightCount, right in
                guard let context else { return 0 }
                let order = Unmanaged<CollationOrder>.fromOpaque(context).takeUnretainedValue()
                    .order
                let one = UnsafeRawBufferPointer(start: left, count: Int(leftCount))
                let two = UnsafeRawBufferPointer(start: right, count: Int(rightCount))
                return Int32(
                    order.compare(
                        one.assumingMemoryBound(to: UInt8.self),
                        two.assumingMemoryBound(to: UInt8.self)
                    )
                )
            },
            { context in
                if let context { Unmanaged<CollationOrder>.fromOpaque(context).release() }
            }
        )
    }
}

// LostRowCheck: the rows of a simulated device that a restored server lost.

/// The rows of a device that a restored server lost, until their user resolves them.
package struct LostRowCheck: Sendable {
    /// Rows that the user has not resolved.
    private var unresolved: Set<String> = []
    /// Rows that disappeared before the user resolved them, and before another request changed them.
    private var vanished: Set<String> = []

    package init() {}

    /// Records that the server was restored without the device's state of these rows.
    package mutating func restored(without ids: Set<String>) { unresolved = ids }

    /// Records that the user resolved or changed rows, so they need not be as the server had them.
    package mutating func resolved(_ ids: [String]) { unresolved.subtract(ids) }

    /// Records that the device does not have a row; `changed` are those that were changed since the restore.
    package mutating func isMissing(_ id: String, changed: Set<String>) {
        if unresolved.contains(id), !changed.contains(id) { vanished.insert(id) }
    }

    /// Returns the rows that the device lost without a report to its user.
    package func silentlyLost(changed: Set<String>) -> Set<String> {
        unresolved.subtracting(changed).union(vanished)
    }
}

/// The rows that the server's pages removed from each device.
package struct PageRemovals: Sendable {
    private var removed: [String: Set<String>] = [:]

    package init() {}

    /// Records the rows of a page that a device requested.
    package mutating func sent(removed ids: Set<String>, present: Set<String>, to device: String) {
        removed[device, default: []].formUnion(ids)
        removed[device]?.subtract(present)
    }

    /// Records that the server accepted a row from a device.
    package mutating func accepted(_ id: String, from device: String) {
        removed[device]?.remove(id)
    }

    /// Returns the rows whose last state on a device's pages was removed.
    package subscript(device: String) -> Set<String> { removed[device] ?? [] }
}

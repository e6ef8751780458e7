// LostRowCheck: the rows of a simulated device that a restored server lost.

/// The rows of a device that a restored server lost, until their user resolves them.
package struct LostRowCheck: Sendable {
    /// The rows that the user has not resolved yet.
    private var unresolved: Set<String> = []
    /// The rows that disappeared before the user resolved them and before another request changed
    /// them.
    private var vanished: Set<String> = []

    package init() {}

    /// Records that the server was restored and lost the device's state of these rows.
    package mutating func restored(without ids: Set<String>) { unresolved = ids }

    /// Records that the user resolved or changed rows, so the rows do not have to match the
    /// server's earlier rows.
    package mutating func resolved(_ ids: [String]) { unresolved.subtract(ids) }

    /// Records that the device does not have a row; `changed` contains the rows that were changed
    /// after the restore.
    package mutating func isMissing(_ id: String, changed: Set<String>) {
        if unresolved.contains(id), !changed.contains(id) { vanished.insert(id) }
    }

    /// Returns the rows that disappeared from the device without a report to its user.
    package func silentlyLost(changed: Set<String>) -> Set<String> {
        unresolved.subtracting(changed).union(vanished)
    }
}

/// The rows that pages from the server removed from each device.
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

    /// Returns the rows that pages removed from a device, and that no later page contained.
    package subscript(device: String) -> Set<String> { removed[device] ?? [] }
}

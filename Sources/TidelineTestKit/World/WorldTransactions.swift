// WorldTransactions: the transactions of users, and the requests that brought them to the server.

import Synchronization

/// The transactions of a simulation's users, and the requests that sent them to the server.
///
/// All rows of a transaction get the same text, which no other edit uses. The text must reach the server in the
/// same request for all rows.
package final class WorldTransactions: Sendable {
    private struct Entry {
        var device: String
        var rows: Set<String>
        /// Whether the device's file was copied later, so that two devices may send the transaction.
        var isCopied = false
        /// The first request with which each row had the text on the server.
        var shown: [String: Int] = [:]
        /// The rows whose insert with the text the server rejected.
        var rejected: Set<String> = []
        /// The rows that the user changed later.
        var changed: Set<String> = []

        /// The rows whose text must reach the server in the same request.
        ///
        /// An insert has no precondition. If the server rejected it, and the user changed the row since, a late copy
        /// of the request may still insert the row after the device has sent the rest of the transaction.
        var checked: Set<String> { rows.subtracting(rejected.intersection(changed)) }
    }

    private let entries = Mutex<[String: Entry]>([:])

    package init() {}

    package func begin(_ text: String, rows: [String], by device: String) {
        for id in rows { changed(id, by: device) }
        entries.withLock { $0[text] = Entry(device: device, rows: Set(rows)) }
    }

    /// Records that the user of a device changes or deletes a row.
    package func changed(_ id: String, by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.rows.contains(id) {
                entries[text]?.changed.insert(id)
            }
        }
    }

    /// Records that the server rejected the insert of a row with a text.
    package func rejected(_ text: String, of id: String) {
        entries.withLock { _ = $0[text]?.rejected.insert(id) }
    }

    /// Records that the user discarded a change of a row, whose text may now reach the server in another way.
    ///
    /// A text that reached the server before stays a part of its transaction.
    package func giveUp(_ id: String, by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.shown[id] == nil {
                entries[text]?.rows = entry.rows.subtracting([id])
            }
        }
    }

    /// Records that the device was restored to an older file, so that all its texts may reach the server again.
    package func giveUpAll(by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device { entries[text]?.rows = [] }
        }
    }

    /// Records that the device's file was copied, with its unsent transactions.
    package func copied(from device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device {
                entries[text]?.isCopied = true
            }
        }
    }

    /// Records that the user of a device, or of the copy of its file, changed a row again.
    ///
    /// The change becomes part of the unsent transaction on only one of the two devices, so that they send
    /// different transactions.
    package func changed(_ id: String, copiedFrom device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.isCopied {
                entries[text]?.rows = entry.rows.subtracting([id])
            }
        }
    }

    /// Records that the server was restored, in a network that delivers requests late.
    ///
    /// The server no longer knows its earlier responses. A request for a whole transaction may still arrive
    /// after the device has sent the transaction without a row that had a conflict.
    package func serverRestored() {
        entries.withLock { entries in
            for (text, entry) in entries where entry.shown.count < entry.rows.count {
                entries[text]?.rows = []
            }
        }
    }

    package func shown(_ text: String, of id: String, request: Int) {
        entries.withLock { entries in
            guard entries[text]?.rows.contains(id) == true, entries[text]?.shown[id] == nil else {
                return
            }
            entries[text]?.shown[id] = request
        }
    }

    /// A description of a transaction whose rows reached the server in different requests; nil if there is none.
    package var half: String? {
        entries.withLock { entries in
            for (text, entry) in entries.sorted(by: { $0.key < $1.key }) {
                let checked = entry.checked
                let shown = entry.shown.filter { checked.contains($0.key) }
                guard Set(shown.values).count > 1 else { continue }
                let rows = shown.sorted { $0.value < $1.value }.map(\.key)
                return "\(entry.device) set the text \(text) of \(rows) in one transaction, "
                    + "but the text of \(rows[0]) reached the server first"
            }
            return nil
        }
    }
}

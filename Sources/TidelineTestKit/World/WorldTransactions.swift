// WorldTransactions: the transactions of simulated users, and the requests that sent them to the
// server.

import Synchronization

/// The transactions of a simulation's users, and the requests that sent them to the server.
///
/// All rows of a transaction get the same text, which no other edit uses. For all rows, the text
/// must reach the server in the same request.
package final class WorldTransactions: Sendable {
    private struct Entry {
        var device: String
        var rows: Set<String>
        /// Whether the device's file was copied later, so that two devices may send the
        /// transaction.
        var isCopied = false
        /// The first request after which each row had the text on the server.
        var shown: [String: Int] = [:]
        /// The rows whose insert with this text the server rejected.
        var rejected: Set<String> = []
        /// The rows that the user changed later.
        var changed: Set<String> = []

        /// The rows whose text must reach the server in the same request.
        ///
        /// An insert has no precondition. If the server rejected the insert and the user has
        /// changed the row since then, a late duplicate of the request may still insert the row
        /// after the device has sent the rest of the transaction.
        var checked: Set<String> { rows.subtracting(rejected.intersection(changed)) }
    }

    private let entries = Mutex<[String: Entry]>([:])

    package init() {}

    package func begin(_ text: String, rows: [String], by device: String) {
        for id in rows { changed(id, by: device) }
        entries.withLock { $0[text] = Entry(device: device, rows: Set(rows)) }
    }

    /// Records that a device's user changes or deletes a row.
    package func changed(_ id: String, by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.rows.contains(id) {
                entries[text]?.changed.insert(id)
            }
        }
    }

    /// Records that the server rejected the insert of a row with the given text.
    package func rejected(_ text: String, of id: String) {
        entries.withLock { _ = $0[text]?.rejected.insert(id) }
    }

    /// Records that the user discarded a change to a row, so the row's text may now reach the
    /// server in a different way.
    ///
    /// A text that has already reached the server stays part of its transaction.
    package func giveUp(_ id: String, by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.shown[id] == nil {
                entries[text]?.rows = entry.rows.subtracting([id])
            }
        }
    }

    /// Records that a device was restored to an older file, so all of its texts may reach the
    /// server again.
    package func giveUpAll(by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device { entries[text]?.rows = [] }
        }
    }

    /// Records that a device's file was copied, including its unsent transactions.
    package func copied(from device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device {
                entries[text]?.isCopied = true
            }
        }
    }

    /// Records that the user of a device, or of the device with a copy of its file, changed a row
    /// again.
    ///
    /// The change becomes part of the unsent transaction on only one of the two devices, so the two
    /// devices send different transactions.
    package func changed(_ id: String, copiedFrom device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.isCopied {
                entries[text]?.rows = entry.rows.subtracting([id])
            }
        }
    }

    /// Records that the server was restored, while the network may still deliver requests late.
    ///
    /// The server no longer knows its earlier responses. A request for a whole transaction may
    /// therefore arrive after the device has sent the transaction again without a row that had a
    /// conflict.
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

    /// A description of a transaction whose rows reached the server in different requests; nil if
    /// there is none.
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

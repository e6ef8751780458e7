// WorldTransactions: the transactions of users, and when the server first showed each one.

import Synchronization

/// The transactions of a world's users, and when the server first showed each one.
///
/// Every row of a transaction has the same text, which no other edit has. Even if a row changes
/// later, that text must not reach the server after another row of the transaction showed it.
package final class WorldTransactions: Sendable {
    private struct Entry {
        var device: String
        var rows: Set<String>
        /// Whether the device's file was copied since: two devices may send the transaction.
        var isCopied = false
        /// The request with which each row first had the text on the server.
        var shown: [String: Int] = [:]
    }

    private let entries = Mutex<[String: Entry]>([:])

    package init() {}

    package func begin(_ text: String, rows: [String], by device: String) {
        entries.withLock { $0[text] = Entry(device: device, rows: Set(rows)) }
    }

    /// The user discarded a change of a row, so its text may reach the server again in another way.
    package func giveUp(_ id: String, by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device {
                entries[text]?.rows = entry.rows.subtracting([id])
            }
        }
    }

    /// The device was restored to an older file, so all its texts may reach the server again.
    package func giveUpAll(by device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device { entries[text]?.rows = [] }
        }
    }

    /// The device's file was copied, with the transactions that it has not sent.
    package func copied(from device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device {
                entries[text]?.isCopied = true
            }
        }
    }

    /// The user of a device, or of the copy of its file, changed a row again.
    ///
    /// The change goes into the unsent transaction on one of the two devices only, so from now on the
    /// two send different transactions.
    package func changed(_ id: String, copiedFrom device: String) {
        entries.withLock { entries in
            for (text, entry) in entries where entry.device == device && entry.isCopied {
                entries[text]?.rows = entry.rows.subtracting([id])
            }
        }
    }

    /// The server was restored in a network that delivers requests late.
    ///
    /// It no longer knows what it answered before. A request for a whole transaction may still arrive
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

    /// A transaction whose rows reached the server one after the other.
    package var half: String? {
        entries.withLock { entries in
            for (text, entry) in entries.sorted(by: { $0.key < $1.key }) {
                let shown = entry.shown.filter { entry.rows.contains($0.key) }
                guard Set(shown.values).count > 1 else { continue }
                let rows = shown.sorted { $0.value < $1.value }.map(\.key)
                return "\(entry.device) gave \(rows) the text \(text) in one transaction, "
                    + "and the server had it in \(rows[0]) before"
            }
            return nil
        }
    }
}

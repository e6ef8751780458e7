// EventID: ids of events. Pure.
//
// An id lists the tables without unreported changes, each with its last commit timestamp then. A table that is absent,
// or that has a different timestamp by now, has changed. So an id needs no state on the server: it stays valid after a
// restart, and on another server of the same database.

import TidelineCore

/// The state of the tables that a listener has received, as the `id` of its events.
package struct EventID: Equatable, Sendable {
    /// A table and its last commit timestamp, as they appear in an id.
    ///
    /// A number replaces the name, which may have any length.
    package struct Entry: Equatable, Sendable {
        package var table: UInt64
        package var timestamp: Int64

        package init(table: UInt64, timestamp: Int64) {
            self.table = table
            self.timestamp = timestamp
        }
    }

    /// The epoch of the database, which changes after a restore.
    package var epoch: UInt64
    package var entries: [Entry]

    package init(epoch: UInt64, entries: [Entry]) {
        self.epoch = epoch
        self.entries = entries
    }

    /// Parses an id; nil if it is invalid.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.textBytesMax, let words = Self.words(text),
            let first = words.first, words.count % 2 == 1
        else { return nil }
        epoch = first
        entries = stride(from: 1, to: words.count, by: 2).map { place in
            Entry(table: words[place], timestamp: Int64(bitPattern: words[place + 1]))
        }
    }

    /// The id as a string of letters and digits, sixteen for each number.
    package var text: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(16 + entries.count * 32)
        Self.append(epoch, &bytes)
        for entry in entries {
            Self.append(entry.table, &bytes)
            Self.append(UInt64(bitPattern: entry.timestamp), &bytes)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the number that replaces a name, an FNV-1a hash.
    package static func number(of name: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(ASCII.lower(byte))) &* 0x100_0000_01B3 }
        return hash
    }

    /// The maximum number of bytes of an id, more than the tables of a listener need.
    private static let textBytesMax = 4096

    private static func words(_ text: String) -> [UInt64]? {
        let bytes = Array(text.utf8)
        guard bytes.count % 16 == 0 else { return nil }
        var words: [UInt64] = []
        for start in stride(from: 0, to: bytes.count, by: 16) {
            var word: UInt64 = 0
            for byte in bytes[start..<start + 16] {
                guard let digit = digit(byte) else { return nil }
                word = word << 4 | digit
            }
            words.append(word)
        }
        return words
    }

    private static func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt64(byte - UInt8(ascii: "a") + 10)
        default: nil
        }
    }

    private static func append(_ word: UInt64, _ bytes: inout [UInt8]) {
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: word >> shift & 0xF)
            bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") - 10 + digit)
        }
    }
}

// EventListener: changes for one listener. Pure.
//
//     open -> { note(changes) | next(timestamps) }*
//
// A change sets a bit, and sending the event clears it: however many changes happen while the listener does not read,
// one event for each table is pending.

import TidelineCore

/// A listener of changes: the tables that it watches, and the changes still to be sent to it.
package struct EventListener: Sendable {
    /// The maximum number of tables of a listener, which has one bit for each.
    package static let tablesMax = 64

    /// A table of a listener.
    package struct Table: Sendable, Equatable {
        /// The index of the table on the server.
        package var place: Int
        package var name: String
        /// The number that replaces the name in ids.
        package var number: UInt64

        package init(place: Int, name: String) {
            self.place = place
            self.name = name
            number = EventID.number(of: name)
        }
    }

    fileprivate let tables: [Table]
    fileprivate let epoch: UInt64
    /// The tables with unreported changes, by their index in `tables`.
    fileprivate var pending: UInt64 = 0

    /// Begins to listen.
    ///
    /// - Parameters:
    ///   - tables: At most `tablesMax` tables.
    ///   - epoch: The epoch of the database.
    ///   - lastID: The id of the last event that the listener received, if it sent one. If the id is invalid,
    ///     all tables count as changed.
    ///   - timestamps: The last commit timestamps by table index.
    package init(_ tables: [Table], epoch: UInt64, lastID: String?, timestamps: [Int64]) {
        self.tables = Array(tables.prefix(Self.tablesMax))
        self.epoch = epoch
        guard let lastID else { return }
        let known = EventID(lastID)
        for (index, table) in self.tables.enumerated() {
            let isSame =
                known?.epoch == epoch
                && known?.entries.contains { entry in
                    entry.table == table.number
                        && entry.timestamp == Self.timestamp(table, timestamps)
                } == true
            if !isSame { pending |= 1 << UInt64(index) }
        }
    }

    /// Whether there are unreported changes.
    package var isPending: Bool { pending != 0 }

    /// Records changed tables, which are given as flags by table index.
    package mutating func note(_ changed: [Bool]) {
        for (index, table) in tables.enumerated() where table.place < changed.count {
            if changed[table.place] { pending |= 1 << UInt64(index) }
        }
    }

    /// Returns the beginning of the stream, which sets the listener's last id without an event.
    package func opening(_ timestamps: [Int64]) -> [UInt8] {
        Array("retry: \(Self.retryMilliseconds)\nid: \(id(timestamps).text)\n\n".utf8)
    }

    /// The approximate size of one write, in bytes; each event has an id with all tables.
    package static let eventsBytesMax = 16 << 10

    /// Returns the pending events, up to about this many bytes; the rest remains pending.
    package mutating func next(_ timestamps: [Int64], bytesMax: Int = eventsBytesMax) -> [UInt8] {
        var bytes: [UInt8] = []
        for (index, table) in tables.enumerated() where pending & 1 << UInt64(index) != 0 {
            if bytes.count >= bytesMax { break }
            // The id counts its own event as sent, but none of the events after it.
            pending &= ~(1 << UInt64(index))
            bytes += "id: ".utf8
            bytes += id(timestamps).text.utf8
            bytes += "\nevent: change\ndata: {\"table\":\"".utf8
            bytes += table.name.utf8
            bytes += "\"}\n\n".utf8
        }
        return bytes
    }

    private func id(_ timestamps: [Int64]) -> EventID {
        var entries: [EventID.Entry] = []
        for (index, table) in tables.enumerated() where pending & 1 << UInt64(index) == 0 {
            entries.append(
                EventID.Entry(table: table.number, timestamp: Self.timestamp(table, timestamps))
            )
        }
        return EventID(epoch: epoch, entries: entries)
    }

    /// Returns the last commit timestamp of a table; 0 if the table was never written to.
    private static func timestamp(_ table: Table, _ timestamps: [Int64]) -> Int64 {
        timestamps.indices.contains(table.place) ? timestamps[table.place] : 0
    }

    /// An empty comment, which shows the client and the proxies that the connection is alive.
    package static let heartbeat = Array(":\n\n".utf8)

    /// The last bytes of a stream that the server ends; the client reconnects after a moment.
    package static let farewell = Array("retry: \(retryMilliseconds)\n\n".utf8)

    /// The milliseconds after which a client that lost its stream reconnects.
    private static let retryMilliseconds = 2000
}

/// The events for one state of the tables, which are built once for all listeners that receive the same ones.
package struct EventTexts: Sendable {
    private struct Text: Sendable {
        var tables: [EventListener.Table]
        var epoch: UInt64
        /// The pending flags before the events were built, and those that remained.
        var before: UInt64
        var after: UInt64
        var bytes: [UInt8]
    }

    /// The maximum number of kinds of listeners whose events are cached at a time.
    private static let textsMax = 16

    private var texts: [Text] = []
    private var oldest = 0

    package init() {}

    /// Removes the cached events, because tables have changed.
    package mutating func begin() {
        texts.removeAll(keepingCapacity: true)
        oldest = 0
    }

    /// Returns the events that are due for a listener, as ``EventListener/next(_:bytesMax:)`` builds them.
    package mutating func next(
        for listener: inout EventListener,
        _ timestamps: [Int64]
    ) -> [UInt8] {
        for text in texts
        where text.before == listener.pending && text.epoch == listener.epoch
            && text.tables == listener.tables
        {
            listener.pending = text.after
            return text.bytes
        }
        let before = listener.pending
        let bytes = listener.next(timestamps)
        let text = Text(
            tables: listener.tables,
            epoch: listener.epoch,
            before: before,
            after: listener.pending,
            bytes: bytes
        )
        if texts.count < Self.textsMax {
            texts.append(text)
        } else {
            texts[oldest] = text
            oldest = (oldest + 1) % Self.textsMax
        }
        return bytes
    }
}

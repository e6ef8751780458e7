// EventBoard: notifies event loops of changes.
//
// The store notifies it after each commit. It notifies each loop once, however many listeners the loop has and
// however many commits follow until the loop reads them. The loop does the rest on its own thread.

import Synchronization
import TidelineCore

/// A table that a commit changed.
package struct TableTimestamp: Sendable, Equatable {
    package var table: String
    /// The last commit timestamp of the table.
    package var timestamp: Int64

    package init(table: String, timestamp: Int64) {
        self.table = table
        self.timestamp = timestamp
    }
}

/// The changed tables and their commit timestamps, for the listeners of all event loops.
package final class EventBoard: Sendable {
    private struct State {
        /// The indexes of the tables, by their names in lower case.
        var places: [String: Int] = [:]
        var timestamps: [Int64] = []
        var feeds: [EventFeed.Box] = []

        mutating func place(of table: String) -> Int {
            let name = table.lowercased()
            if let place = places[name] { return place }
            places[name] = timestamps.count
            timestamps.append(0)
            return timestamps.count - 1
        }
    }

    private let state = Mutex(State())

    package init() {}

    /// Records a commit.
    package func changed(_ changes: [TableTimestamp]) {
        guard !changes.isEmpty else { return }
        let feeds = state.withLock { state in
            for change in changes {
                let place = state.place(of: change.table)
                state.timestamps[place] = change.timestamp
                for feed in state.feeds { feed.add(place, change.timestamp) }
            }
            return state.feeds
        }
        for feed in feeds { feed.wakeOnce() }
    }

    /// Returns the last commit timestamp of a table; 0 for an unknown table.
    func timestamp(of table: String) -> Int64 {
        state.withLock { state in
            state.places[table.lowercased()].map { state.timestamps[$0] } ?? 0
        }
    }

    /// Returns the table as listeners watch it.
    func table(named name: String) -> EventListener.Table {
        EventListener.Table(place: state.withLock { $0.place(of: name) }, name: name)
    }

    /// Returns the feed of one event loop.
    ///
    /// `wake` is called when there are changes, on any thread.
    package func attach(wake: @escaping @Sendable () -> Void) -> EventFeed {
        state.withLock { state in
            let box = EventFeed.Box(wake: wake)
            state.feeds.append(box)
            return EventFeed(box, timestamps: state.timestamps)
        }
    }

    package func detach(_ feed: EventFeed) {
        state.withLock { state in state.feeds.removeAll { $0 === feed.box } }
    }
}

/// The changed tables for one event loop, confined to its thread.
package struct EventFeed: Sendable {
    /// The pending changes for one loop.
    final class Box: Sendable {
        private struct State {
            var news: [Int: Int64] = [:]
            var isWoken = false
        }

        private let state = Mutex(State())
        private let wake: @Sendable () -> Void

        init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

        func add(_ place: Int, _ timestamp: Int64) { state.withLock { $0.news[place] = timestamp } }

        func wakeOnce() {
            let isFirst = state.withLock { state in
                defer { state.isWoken = true }
                return !state.isWoken
            }
            if isFirst { wake() }
        }

        func take() -> [Int: Int64] {
            state.withLock { state in
                defer {
                    state.news = [:]
                    state.isWoken = false
                }
                return state.news
            }
        }
    }

    let box: Box
    /// The last commit timestamps by table index, as of the last refresh of this loop.
    package private(set) var timestamps: [Int64]

    fileprivate init(_ box: Box, timestamps: [Int64]) {
        self.box = box
        self.timestamps = timestamps
    }

    /// Reads the pending changes; returns flags by table index.
    package mutating func refresh() -> [Bool] {
        let news = box.take()
        guard let last = news.keys.max() else { return [] }
        if timestamps.count <= last {
            timestamps += Array(repeating: 0, count: last + 1 - timestamps.count)
        }
        var changed = Array(repeating: false, count: timestamps.count)
        for (place, timestamp) in news {
            timestamps[place] = timestamp
            changed[place] = true
        }
        return changed
    }
}

/// A stream of events that an event loop has yet to begin.
package final class EventStream: Sendable {
    private let tables: [EventListener.Table]
    private let epoch: UInt64
    private let lastID: String?
    /// How long the caller may listen, in microseconds; nil for no limit.
    package let lasts: Int64?
    /// The caller that the stream is counted for: a user or, without a token, an address.
    package let caller: String

    init(
        tables: [EventListener.Table],
        epoch: UInt64,
        lastID: String?,
        lasts: Int64?,
        caller: String
    ) {
        self.caller = caller
        self.tables = tables
        self.epoch = epoch
        self.lastID = lastID
        self.lasts = lasts
    }

    /// Creates a listener that begins at the loop's current state.
    package func listener(_ feed: EventFeed) -> EventListener {
        EventListener(tables, epoch: epoch, lastID: lastID, timestamps: feed.timestamps)
    }
}

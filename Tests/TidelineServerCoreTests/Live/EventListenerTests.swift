// The events that listeners receive, as scripts of commits and reconnections; event ids in every format.

import Testing
import TidelineCore
import TidelineServerCore

@Suite struct EventListenerTests {
    private static let tables = [
        EventListener.Table(place: 0, name: "a"), EventListener.Table(place: 2, name: "b"),
        EventListener.Table(place: 1, name: "c"),
    ]

    private static func listener(_ lastID: String? = nil, _ timestamps: [Int64]) -> EventListener {
        EventListener(tables, epoch: 7, lastID: lastID, timestamps: timestamps)
    }

    /// The tables and ids of events as a caller parses them.
    private static func events(_ bytes: [UInt8]) -> [(table: String, id: String)] {
        String(decoding: bytes, as: UTF8.self).split(separator: "\n\n").map { block in
            var event = (table: "", id: "")
            for line in block.split(separator: "\n") {
                if line.hasPrefix("id: ") { event.id = String(line.dropFirst(4)) }
                if line.hasPrefix("data: {\"table\":\"") {
                    event.table = String(line.dropFirst(16).dropLast(2))
                }
            }
            return event
        }
    }

    @Test("Several changes of one table are one event") func changesOfOneTableAreOneEvent() {
        var listener = Self.listener(nil, [1, 1, 1])
        #expect(!listener.isPending)
        #expect(listener.next([1, 1, 1]) == [])
        listener.note([true, false, false])
        listener.note([true, false, false])
        let bytes = listener.next([3, 1, 1])
        let id = EventID(
            epoch: 7,
            entries: [(0, 3), (1, 1), (2, 1)].map {
                EventID.Entry(table: Self.tables[$0.0].number, timestamp: $0.1)
            }
        )
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == "id: \(id.text)\nevent: change\ndata: {\"table\":\"a\"}\n\n"
        )
        #expect(!listener.isPending && listener.next([3, 1, 1]) == [])
    }

    @Test("Changes of other tables cause no event") func changesOfOtherTablesCauseNoEvent() {
        var listener = EventListener(
            [EventListener.Table(place: 4, name: "d")],
            epoch: 7,
            lastID: nil,
            timestamps: []
        )
        listener.note([true, true])
        listener.note([true, true, true, true, false, true])
        #expect(!listener.isPending)
    }

    @Test("A listener that disconnects between two events of one send gets the second later")
    func eachEventOfASendHasASeparateID() {
        var listener = Self.listener(nil, [1, 1, 1])
        listener.note([true, false, true])
        let timestamps: [Int64] = [5, 1, 6]
        let events = Self.events(listener.next(timestamps))
        #expect(events.map(\.table) == ["a", "b"])
        var between = Self.listener(events[0].id, timestamps)
        #expect(Self.events(between.next(timestamps)).map(\.table) == ["b"])
        #expect(!Self.listener(events[1].id, timestamps).isPending)
    }

    @Test("A reopened stream reports the changes that were not sent before")
    func reconnectedListenersGetWhatTheyMissed() {
        let opening = Self.events(Self.listener(nil, [1, 1, 1]).opening([1, 1, 1]))
        let id = opening.first?.id ?? ""
        #expect(!Self.listener(id, [1, 1, 1]).isPending)
        var later = Self.listener(id, [1, 9, 1])
        // The id in the opening event does not include changes that are still to be sent.
        let again = Self.events(later.opening([1, 9, 1])).first?.id
        var third = Self.listener(again, [1, 9, 1])
        #expect(Self.events(later.next([1, 9, 1])).map(\.table) == ["c"])
        #expect(Self.events(third.next([1, 9, 1])).map(\.table) == ["c"])
    }

    @Test(
        "An unknown event ID makes the listener report all tables",
        arguments: [
            "", "x", "0", "12", String(repeating: "f", count: 16),
            String(repeating: "0", count: 48),
            String(repeating: "g", count: 48), String(repeating: "é", count: 24),
            String(repeating: "0", count: 16 * 400),
        ]
    )
    func unknownIDsMeanThatAllMayHaveChanged(_ id: String) {
        var listener = Self.listener(id, [1, 1, 1])
        #expect(Self.events(listener.next([1, 1, 1])).map(\.table) == ["a", "b", "c"])
    }

    @Test("An event ID of another epoch makes the listener report changes")
    func anotherEpochMeansThatAllMayHaveChanged() {
        let id = EventID(
            epoch: 8,
            entries: Self.tables.map { EventID.Entry(table: $0.number, timestamp: 1) }
        )
        #expect(EventID(id.text) == id)
        #expect(Self.listener(id.text, [1, 1, 1]).isPending)
    }

    @Test("A listener receives the same bytes whether events are shared or not")
    func sharedEventsEqualUnsharedEvents() {
        let timestamps: [Int64] = [5, 7, 6]
        let others = [EventListener.Table(place: 0, name: "a")]
        var texts = EventTexts()
        for changed in [[true, false, false], [true, true, true], [true, false, true]] {
            for tables in [Self.tables, others, Self.tables, others] {
                for epoch in [7, 8] as [UInt64] {
                    var own = EventListener(
                        tables,
                        epoch: epoch,
                        lastID: nil,
                        timestamps: timestamps
                    )
                    var shared = own
                    own.note(changed)
                    shared.note(changed)
                    #expect(texts.next(for: &shared, timestamps) == own.next(timestamps))
                    #expect(!shared.isPending)
                }
            }
        }
        var listener = Self.listener(nil, timestamps)
        listener.note([true, false, false])
        texts.begin()
        let later: [Int64] = [9, 7, 6]
        var own = listener
        #expect(texts.next(for: &listener, later) == own.next(later))
    }

    @Test("Events that do not fit into one send stay pending") func theSizeOfEventsIsBounded() {
        var listener = Self.listener(nil, [])
        listener.note([true, true, true])
        #expect(Self.events(listener.next([1, 1, 1], bytesMax: 1)).map(\.table) == ["a"])
        #expect(Self.events(listener.next([1, 1, 1], bytesMax: 1)).map(\.table) == ["b"])
        #expect(Self.events(listener.next([1, 1, 1], bytesMax: 1)).map(\.table) == ["c"])
        #expect(!listener.isPending)
    }
}

@Suite struct EventBoardTests {
    @Test("An event loop is woken once for several commits") func aLoopIsWokenOnceForManyCommits() {
        let board = EventBoard()
        board.changed([TableTimestamp(table: "A", timestamp: 1)])
        let wakes = ServerTraffic.Counter()
        var feed = board.attach { wakes.add() }
        #expect(feed.timestamps == [1])
        board.changed([TableTimestamp(table: "a", timestamp: 2)])
        board.changed([
            TableTimestamp(table: "b", timestamp: 9), TableTimestamp(table: "a", timestamp: 3),
        ])
        #expect(wakes.current == 1)
        // Not before the loop reads the board: an id never includes changes that were not sent.
        #expect(feed.timestamps == [1])
        #expect(feed.refresh() == [true, true])
        #expect(feed.timestamps == [3, 9])
        #expect(feed.refresh() == [])
        board.changed([TableTimestamp(table: "b", timestamp: 10)])
        #expect(wakes.current == 2)
        #expect(feed.refresh() == [false, true])
        board.detach(feed)
        board.changed([TableTimestamp(table: "b", timestamp: 11)])
        #expect(wakes.current == 2)
    }
}

// A property that has another type in a later version of a model: the stored value is converted exactly, or the row
// does not decode; no value changes its meaning silently.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ChangedTypeTests {
    private struct Flag: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = false
    }

    private struct Whole: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = 0
    }

    private struct Number: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = 0.0
    }

    private struct Exact: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = Decimal(0)
    }

    private struct Moment: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = Date(timeIntervalSince1970: 0)
    }

    private struct Text: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = ""
    }

    private struct Bytes: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value = Data()
    }

    private struct Tags: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var value: [String] = []
    }

    /// Stores a record with one model, and reads it with a later one; returns nil if it does not decode.
    private func moved<Former: SyncRecord, Later: SyncRecord>(
        _ former: Former,
        to type: Later.Type
    ) async throws -> Later? {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let first = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Former.self]
            )
            let stored = try await first.client.syncTable(Former.self).insert(former)
            try await first.store.close()
            let store = try SQLiteStore(path: path)
            let device = try await Device(transport, store: store, tables: [type])
            #expect(try await store.check().problems == [])
            let later: Later?
            do {
                later = try await device.client.syncTable(type).read(id: stored.id)
                #expect(later != nil)
            } catch let error as SyncError {
                #expect(error.code == .rowDoesNotFit)
                #expect(error.message.contains("'value'"))
                later = nil
            }
            try await store.close()
            // An app that returns to the former model has the original value.
            let again = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Former.self]
            )
            let back = try await again.client.syncTable(Former.self).read(id: stored.id)
            #expect("\(try #require(back))" == "\(stored)")
            try await again.store.close()
            return later
        }
    }

    private let moment = Date(timeIntervalSince1970: 1_700_000_000.123)

    @Test("Values convert to text in their JSON format")
    func valuesBecomeTextsInTheirJSONFormat() async throws {
        #expect(
            try await moved(Moment(value: moment), to: Text.self)?.value == Timestamp(moment).text
        )
        #expect(try await moved(Flag(value: true), to: Text.self)?.value == "true")
        #expect(try await moved(Whole(value: .max), to: Text.self)?.value == "\(Int.max)")
        #expect(try await moved(Number(value: 7.5), to: Text.self)?.value == "7.5")
        #expect(try await moved(Exact(value: 12.5), to: Text.self)?.value == "12.5")
        #expect(try await moved(Bytes(value: Data([1, 2])), to: Text.self)?.value == "AQI=")
        #expect(try await moved(Tags(value: ["a"]), to: Text.self) == nil)
    }

    @Test("A number converts to another number type only if nothing is lost")
    func numbersAreConvertedIfNothingIsLost() async throws {
        #expect(try await moved(Whole(value: 7), to: Number.self)?.value == 7)
        #expect(try await moved(Whole(value: 1 << 60), to: Number.self)?.value == 0x1p60)
        #expect(try await moved(Whole(value: .max), to: Number.self) == nil)
        #expect(try await moved(Whole(value: (1 << 53) + 1), to: Number.self) == nil)
        #expect(try await moved(Number(value: 7), to: Whole.self)?.value == 7)
        #expect(try await moved(Number(value: 7.5), to: Whole.self) == nil)
        #expect(try await moved(Exact(value: 7), to: Whole.self)?.value == 7)
        #expect(
            try await moved(Number(value: 0.1), to: Exact.self)?.value == Decimal(string: "0.1")
        )
        #expect(try await moved(Exact(value: 12.5), to: Number.self)?.value == 12.5)
    }

    @Test("Text converts to another type only if it is in that type's canonical format")
    func textsAreConvertedIfTheyAreInTheirCanonicalFormat() async throws {
        #expect(try await moved(Text(value: "7"), to: Whole.self)?.value == 7)
        #expect(try await moved(Text(value: "007"), to: Whole.self) == nil)
        #expect(try await moved(Text(value: "12.5"), to: Exact.self)?.value == 12.5)
        #expect(try await moved(Text(value: "012.5"), to: Exact.self) == nil)
        #expect(try await moved(Text(value: "7.5"), to: Number.self)?.value == 7.5)
        #expect(try await moved(Text(value: "\(Int.max)"), to: Number.self) == nil)
        let text = Timestamp(moment).text
        #expect(try await moved(Text(value: text), to: Moment.self)?.value == moment)
        #expect(try await moved(Text(value: "1000"), to: Moment.self) == nil)
        #expect(try await moved(Text(value: "true"), to: Flag.self)?.value == true)
        #expect(try await moved(Text(value: "1"), to: Flag.self) == nil)
        #expect(try await moved(Text(value: "[]"), to: Tags.self) == nil)
    }

    /// SQLite stores these types in the same way.
    @Test("Booleans, integers and dates are not converted to one another")
    func flagsNumbersAndDatesAreNotConverted() async throws {
        #expect(try await moved(Flag(value: true), to: Whole.self) == nil)
        #expect(try await moved(Whole(value: 1), to: Flag.self) == nil)
        #expect(try await moved(Moment(value: moment), to: Whole.self) == nil)
        #expect(try await moved(Whole(value: 1000), to: Moment.self) == nil)
        #expect(try await moved(Flag(value: true), to: Moment.self) == nil)
    }

    @Test("Filters find converted values, and queued operations are sent unchanged")
    func filtersAndRequestsUseTheConvertedValues() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let first = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Whole.self]
            )
            try await first.client.syncTable(Whole.self)
                .insert([Whole(id: "b", value: .max), Whole(id: "a", value: 7)])
            try await first.store.close()
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Number.self]
            )
            let numbers = try device.client.syncTable(Number.self)
            #expect(try await numbers.read(where: { $0.value == 7 }).map(\.id) == ["a"])
            #expect(try await numbers.read(onDecodingFailure: .skip).map(\.id) == ["a"])
            transport.add(.json(500, ""))
            _ = try await device.push()
            let bodies = transport.sent.compactMap(\.body)
            #expect(bodies.contains { $0.contains("\"value\":\(Int.max)") }, "\(bodies)")
        }
    }

    @Test("A row whose value does not convert is sorted with the rows without a value")
    func anOrderMatchesTheRecordsAfterADecodingFailure() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let first = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Text.self]
            )
            try await first.seed([["id": "b", "version": "v1"]])
            _ = try await first.client.syncTable(Text.self).insert(Text(id: "a", value: "abc"))
            try await first.store.close()
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Whole.self]
            )
            let table = try device.client.syncTable(Whole.self)
            _ = try await table.insert(Whole(id: "c", value: -5))
            let all = try await table.read(
                sortedBy: [.ascending(\.value)],
                onDecodingFailure: .skip
            )
            #expect(all.map(\.id) == ["c", "b"])
            let some = try await table.read(
                sortedBy: [.ascending(\.value)],
                limit: 2,
                onDecodingFailure: .skip
            )
            #expect(some.first?.id == "c")
        }
    }

    @Test("Text that was converted by other models becomes the original text again")
    func aTextThatWasConvertedRepeatedlyIsATextAgain() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            func open<Record: SyncRecord>(
                _ type: Record.Type,
                _ use: (SyncTable<Record>) async throws -> Void
            ) async throws {
                let store = try SQLiteStore(path: path)
                let device = try await Device(transport, store: store, tables: [type])
                try await use(try device.client.syncTable(type))
                try await store.close()
            }
            try await open(Text.self) { table in
                _ = try await table.insert([Text(id: "a", value: "42"), Text(id: "b", value: "x")])
            }
            try await open(Whole.self) { table in
                let row = try await table.read(id: "a")
                #expect(row?.value == 42)
            }
            try await open(Tags.self) { table in
                let rows = try await table.read(onDecodingFailure: .skip)
                #expect(rows.isEmpty)
            }
            try await open(Text.self) { table in
                let (rows, found) = (
                    try await table.read(), try await table.read(where: { $0.value == "42" })
                )
                #expect(rows.map(\.value) == ["42", "x"])
                #expect(found.map(\.id) == ["a"])
            }
        }
    }

    @Test("Text that looks like a number stays text in a column that stored numbers")
    func aTextThatLooksLikeANumberStaysAText() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let first = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Whole.self]
            )
            try await first.client.syncTable(Whole.self)
                .insert([Whole(id: "a", value: 7), Whole(id: "b", value: 8)])
            try await first.store.close()
            func open() async throws -> (Device, SyncTable<Text>) {
                let device = try await Device(
                    transport,
                    store: SQLiteStore(path: path),
                    tables: [Text.self]
                )
                return (device, try device.client.syncTable(Text.self))
            }
            let (second, texts) = try await open()
            try await texts.update(id: "a") { $0.value = "007" }
            try await texts.insert(Text(id: "c", value: "1e3"))
            #expect(try await texts.read(where: { $0.value == "007" }).map(\.id) == ["a"])
            #expect(try await texts.count(where: { $0.value == "7" }) == 0)
            try await second.store.close()
            let (device, again) = try await open()
            let values = try await again.read(sortedBy: [.ascending(\.id)]).map(\.value)
            #expect(values == ["007", "8", "1e3"])
            for id in ["a", "b", "c"] {
                transport.add(.json(201, #"{"id":"\#(id)","value":"x","version":"v1"}"#))
            }
            #expect(try await device.push() == nil)
            let sent = transport.sent.compactMap(\.body)
            #expect(
                sent == [
                    #"{"id":"a","value":"007"}"#, #"{"id":"b","value":"8"}"#,
                    #"{"id":"c","value":"1e3"}"#,
                ]
            )
        }
    }

    /// Two stores on one file must agree, also about types that SQLite stores in the same way.
    @Test("A store with the former type of a column throws an error that names the column")
    func anotherTypeIsAClearErrorForAStoreWithTheFormerOne() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let app = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Flag.self]
            )
            let flags = try app.client.syncTable(Flag.self)
            try await flags.insert(Flag(id: "a", value: true))
            _ = try await Device(transport, store: SQLiteStore(path: path), tables: [Whole.self])
            for body: () async throws -> Void in [
                { _ = try await flags.read() }, { try await flags.insert(Flag(id: "b")) },
            ] {
                let error = await #expect(throws: SyncError.self) { try await body() }
                #expect(error?.code == .storeFailure)
                #expect(error?.message.contains("'value' of 'Todo'") == true)
            }
        }
    }
}

// What is remembered of rows that were handed out: only what was committed, and what is forgotten is
// at worst a conflict.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct CopyMemoryTests {
    private let transport = ScriptedTransport()

    /// A device with the row `a` in version 1, whose records tell nothing of their state.
    private func plain(
        _ store: TroubledStore = TroubledStore(),
        rows: Int = 20_000,
        versions: Int = 250_000
    ) async throws -> (Device, SyncTable<Plain>) {
        var limits = SyncLimits()
        limits.handedOutRowsMax = rows
        limits.handedOutVersionsMax = versions
        let device = try await Device(
            transport,
            store: store,
            limits: limits,
            tables: [Plain.self]
        )
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        return (device, try device.client.syncTable(Plain.self))
    }

    /// Hands out as many other rows.
    private func crowd(_ device: Device, _ table: SyncTable<Plain>, _ count: Int) async throws {
        try await device.seed((0..<count).map { localRow("row \($0)", 1) })
        for number in 0..<count { _ = try await table.read(id: "row \(number)") }
    }

    /// What somebody else did to the row `a`.
    private func pull(_ table: SyncTable<Plain>, _ version: Int, _ text: String) async throws {
        transport.add(page([serverRow("a", version, text: text, rank: 1)]))
        try await table.pull(queryID: nil)
    }

    private func conflict(_ device: Device, _ version: Int, _ text: String) async throws {
        transport.add(.json(412, serverRow("a", version, text: text, rank: 1)))
        #expect(try await device.push()?.status == .operationErrors)
    }

    // MARK: - Only what was committed

    @Test func anUpdateThatIsRolledBackCanBeRepeated() async throws {
        let store = TroubledStore()
        let (device, table) = try await plain(store)
        var copy = try #require(try await table.read(id: "a"))
        copy.text = "mine"
        store.add(.rollBack)
        #expect(await code { try await table.update(copy) } == .storeFailure)
        #expect(try await table.update(copy).text == "mine")
        #expect(try await device.queue() == ["update a"])
    }

    @Test func anUpdateWhoseTransactionRunsTwiceIsStored() async throws {
        let store = TroubledStore()
        let (device, table) = try await plain(store)
        var copy = try #require(try await table.read(id: "a"))
        copy.text = "mine"
        store.add(.runTwice)
        #expect(try await table.update(copy).text == "mine")
        #expect(try await device.queue() == ["update a"])
    }

    /// A settlement that runs twice is one state of this device, not two.
    @Test func aCopyDoesNotMeetASettlementThatRanTwice() async throws {
        let store = TroubledStore()
        let device = try await Device(transport, store: store)
        try await device.seed([localRow("a", 1, text: "draft", rank: 1)])
        var copy = try #require(try await device.todos().read(id: "a"))
        copy.text = "one"
        try await device.todos().update(copy)
        transport.add(
            .run { _ in
                store.add(.runTwice)
                return .json(200, serverRow("a", 2, text: "one", rank: 1))
            }
        )
        #expect(try await device.push() == nil)
        copy.text = "two"
        try await device.todos().update(copy)
        transport.add(.json(200, serverRow("a", 3, text: "two", rank: 1)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"text":"two"}"#)
    }

    // MARK: - What is forgotten

    @Test func aRowThatIsHandedOutAnewHidesNoOlderCopy() async throws {
        let (device, table) = try await plain(rows: 10)
        var screen = try #require(try await table.read(id: "a"))
        try await crowd(device, table, 100)
        try await pull(table, 2, "new")
        #expect(try await table.read(id: "a")?.text == "new")
        screen.rank = 5
        try await table.update(screen)
        try await conflict(device, 2, "new")
        #expect(transport.sent.last?.ifMatch != "\"v2\"")
    }

    /// What nobody else changed is no conflict, however much was handed out since.
    @Test(arguments: [false, true])
    func aForgottenRowThatNobodyChangedIsUpdated(isReadAgain: Bool) async throws {
        let (device, table) = try await plain(rows: 10)
        var screen = try #require(try await table.read(id: "a"))
        try await crowd(device, table, 100)
        if isReadAgain { _ = try await table.read(id: "a") }
        screen.rank = 5
        try await table.update(screen)
        transport.add(.json(200, serverRow("a", 2, text: "old", rank: 5)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v1" {"rank":5}"#)
        // Nor is a later edit of the same copy.
        try await crowd(device, table, 100)
        screen.rank = 6
        try await table.update(screen)
        transport.add(.json(200, serverRow("a", 3, text: "old", rank: 6)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v2" {"rank":6}"#)
    }

    /// Of more rows than are kept nothing is known: at worst a conflict, and once for a column.
    @Test func beyondAllMemoryAnEditIsAConflictOnce() async throws {
        let (device, table) = try await plain(rows: 10, versions: 10)
        var screen = try #require(try await table.read(id: "a"))
        try await crowd(device, table, 100)
        try await pull(table, 2, "new")
        #expect(try await table.read(id: "a")?.text == "new")
        screen.rank = 5
        try await table.update(screen)
        try await conflict(device, 2, "new")
        #expect(transport.sent.last?.ifMatch == "\"\"")
        let error = try #require(try await device.context.operationErrors().first)
        var mine = try #require(try await table.read(id: "a"))
        mine.text = "both"
        try await error.updateOperationAndRetry(with: mine)
        transport.add(.json(200, serverRow("a", 3, text: "both", rank: 5)))
        #expect(try await device.push() == nil)
        for turn in 6...8 {
            var copy = try #require(try await table.read(id: "a"))
            copy.rank = turn
            try await table.update(copy)
            transport.add(.json(200, serverRow("a", turn, text: "both", rank: turn)))
            #expect(try await device.push() == nil)
        }
    }

    @Test func aCopyFromBeforeAPurgeOverwritesNothing() async throws {
        let (device, table) = try await plain()
        var screen = try #require(try await table.read(id: "a"))
        try await table.purge()
        try await pull(table, 2, "new")
        screen.rank = 5
        try await table.update(screen)
        try await conflict(device, 2, "new")
        #expect(transport.sent.last?.ifMatch != "\"v2\"")
    }

    /// The same row comes back after a purge: a copy of it is as good as before.
    @Test func aPurgeAloneIsNoConflict() async throws {
        let (device, table) = try await plain()
        var screen = try #require(try await table.read(id: "a"))
        try await table.purge()
        try await pull(table, 1, "old")
        screen.rank = 5
        try await table.update(screen)
        transport.add(.json(200, serverRow("a", 2, text: "old", rank: 5)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.description == #"PATCH /tables/Todo/a "v1" {"rank":5}"#)
    }

    // MARK: - Several copies

    /// Somebody changed a column and took it back: the copy from in between is as old as the first.
    @Test func aCopyFromBetweenTwoChangesOverwritesNothing() async throws {
        let (device, table) = try await plain()
        _ = try await table.read(id: "a")
        try await pull(table, 2, "new")
        var screen = try #require(try await table.read(id: "a"))
        try await pull(table, 3, "old")
        screen.rank = 5
        try await table.update(screen)
        try await conflict(device, 3, "old")
        #expect(transport.sent.last?.ifMatch != "\"v3\"")
    }

    /// A discarded edit is no edit of somebody else, and what the server has instead is.
    @Test func aCopyOfADiscardedEditOverwritesNothing() async throws {
        let (device, table) = try await plain()
        var screen = try #require(try await table.read(id: "a"))
        screen.text = "mine"
        screen = try await table.update(screen)
        try await conflict(device, 2, "new")
        let error = try #require(try await device.context.operationErrors().first)
        try await error.cancelOperationAndDiscardItem()
        screen.rank = 5
        try await table.update(screen)
        try await conflict(device, 2, "new")
        #expect(transport.sent.last?.ifMatch != "\"v2\"")
    }
}

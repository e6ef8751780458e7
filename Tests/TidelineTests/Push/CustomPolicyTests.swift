// The conflict policy `custom` through the whole client: the conflict that an app's handler receives, when the handler
// runs, and the effect of its answers.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct CustomPolicyTests {
    private let transport = ScriptedTransport()
    private let log = Log()

    /// The conflicts that a handler received.
    private final class Log: Sendable {
        private let state = Mutex<[Conflict]>([])

        var all: [Conflict] { state.withLock { $0 } }

        func add(_ conflict: Conflict) { state.withLock { $0.append(conflict) } }
    }

    private struct Odd: Error, CustomStringConvertible {
        var description: String { "secret" }
    }

    private func device(
        _ decide: @escaping @Sendable (Conflict) async throws -> Resolution
    ) async throws -> Device {
        let log = log
        let policy = ConflictPolicy.custom { conflict in
            log.add(conflict)
            return try await decide(conflict)
        }
        let device = try await Device(transport, conflicts: policy)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        return device
    }

    private func edited(
        _ decide: @escaping @Sendable (Conflict) async throws -> Resolution
    ) async throws -> Device {
        let device = try await device(decide)
        try await device.todos().update(id: "a") { $0.text = "mine" }
        return device
    }

    private let theirs = serverRow("a", 2, text: "theirs", rank: 9)

    @Test(
        "A handler's row with an invalid value does not replace the user's edit",
        arguments: [
            ["rank": "abc"], ["text": 5], ["rank": .number(.nan)], ["complete": "yes"],
            ["text": "\u{0}"],
        ] as [Row]
    )
    func anInvalidRowIsNotWritten(row: Row) async throws {
        let device = try await edited { _ in .write(row) }
        transport.add(.json(412, theirs))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.message.contains("'\(row.names[0])'"))
        #expect(error.item?["text"] == "mine")
        #expect(try await device.todos().read(id: "a")?.text == "mine")
        #expect(transport.sent.count == 1)
    }

    @Test("A handler can write a server row whose column type differs from the model")
    func aServerRowIsStoredAsItIs() async throws {
        let device = try await edited { conflict in
            var row = conflict.server ?? [:]
            row["text"] = "both"
            return .write(row)
        }
        transport.add(
            .json(412, theirs.replacing("9", with: #""ten""#)),
            .json(200, serverRow("a", 3, text: "both").replacing("null", with: #""ten""#))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].body == #"{"text":"both"}"#)
    }

    @Test("The handler receives the base row, the local row and the server's row")
    func theHandlerReceivesAllThreeStates() async throws {
        let device = try await edited { _ in .fail }
        transport.add(.json(412, theirs))
        let error = try #require(try await device.push()?.errors.first)
        let conflict = try #require(log.all.first)
        #expect(log.all.count == 1)
        #expect(conflict.table == "Todo" && conflict.itemID == "a" && conflict.kind == .update)
        #expect(conflict.base == localRow("a", 1, text: "old", rank: 1))
        #expect(conflict.local?["text"] == "mine")
        #expect(conflict.server == localRow("a", 2, text: "theirs", rank: 9))
        #expect(conflict.columns == ["text"])
        #expect(conflict.merged() == nil)
        #expect(conflict.merged(["text": .local])?["text"] == "mine")
        #expect(conflict.merged(["text": .local])?["rank"] == 9)
        #expect(error.serverItem?["text"] == "theirs")
        // A parked operation is not passed to the handler again.
        #expect(try await device.push()?.errors.count == 1)
        #expect(log.all.count == 1)
    }

    @Test("The resolution local sends the columns that differ from the server's row")
    func localSendsTheLocalRow() async throws {
        let device = try await edited { _ in .local }
        transport.add(.json(412, theirs), .json(200, serverRow("a", 3, text: "mine", rank: 1)))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].ifMatch == "\"v2\"")
        #expect(transport.sent[1].body == #"{"text":"mine","rank":1}"#)
        #expect(try await device.rows() == [localRow("a", 3, text: "mine", rank: 1)])
    }

    @Test("The resolution server stores the server's row")
    func serverStoresTheServersRow() async throws {
        let device = try await edited { _ in .server }
        transport.add(.json(412, theirs))
        #expect(try await device.context.push().completed == 1)
        #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 9)])
    }

    @Test("The resolution server drops all edits that the handler received")
    func serverDropsTheEditsThatTheHandlerReceived() async throws {
        let device = try await edited { _ in .server }
        let todos = try device.todos()
        let theirs = theirs
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { $0.rank = 5 }
                return .json(412, theirs)
            }
        )
        #expect(try await device.push() == nil)
        #expect(log.all.map { $0.local?["rank"] } == [5])
        #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 9)])
        #expect(try await device.queue() == [])
    }

    @Test("The resolution write sends the differences from the server's row")
    func writeSendsTheDifferencesFromTheServersRow() async throws {
        let device = try await edited { conflict in
            guard let row = conflict.merged(["text": .append, "rank": .max]) ?? conflict.server
            else { return .fail }
            var both = row
            both["text"] = "both"
            return .write(both)
        }
        transport.add(.json(412, theirs), .json(200, serverRow("a", 3, text: "both", rank: 9)))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == #"PATCH /tables/Todo/a "v2" {"text":"both"}"#)
        #expect(try await device.rows() == [localRow("a", 3, text: "both", rank: 9)])
    }

    @Test("Columns that the handler's row omits take the server's values")
    func writeAcceptsPartOfARow() async throws {
        let device = try await edited { _ in .write(["rank": 4]) }
        transport.add(.json(412, theirs), .json(200, serverRow("a", 3, text: "theirs", rank: 4)))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].body == #"{"rank":4}"#)
    }

    @Test("The resolution delete deletes the row on the server and on the device")
    func deleteDeletesOnBothSides() async throws {
        let device = try await edited { _ in .delete }
        transport.add(.json(412, theirs), .status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == #"DELETE /tables/Todo/a "v2" -"#)
        #expect(try await device.rows() == [])
        #expect(try await device.queue() == [])
    }

    @Test(
        "The handler resolves the conflict of a row that was deleted on the server",
        arguments: [Resolution.local, .server, .delete, .write(["text": "anew"])]
    )
    func aRowDeletedOnTheServerIsResolved(resolution: Resolution) async throws {
        let device = try await edited { _ in resolution }
        transport.add(.json(410, serverRow("a", 2, deleted: true)))
        let text = resolution == .local ? "mine" : "anew"
        transport.add(.json(200, serverRow("a", 3, text: text)))
        #expect(try await device.push() == nil)
        #expect(log.all.map(\.server) == [nil])
        switch resolution {
        case .local, .write:
            #expect(transport.sent[1].method == "PUT")
            #expect(transport.sent[1].ifMatch == "\"v2\"")
            #expect(try await device.rows() == [localRow("a", 3, text: text)])
        default:
            #expect(transport.unused == 1)
            #expect(try await device.rows() == [])
        }
        #expect(try await device.queue() == [])
    }

    @Test(
        "The handler resolves the conflict of a row that was deleted on the device",
        arguments: [Resolution.local, .server, .delete, .write(["rank": 4])]
    )
    func aRowDeletedOnTheDeviceIsResolved(resolution: Resolution) async throws {
        let device = try await device { _ in resolution }
        try await device.todos().delete(id: "a")
        transport.add(.json(412, theirs))
        transport.add(
            resolution == .write(["rank": 4])
                ? .json(200, serverRow("a", 3, text: "theirs", rank: 4)) : .status(204)
        )
        #expect(try await device.push() == nil)
        #expect(log.all.map(\.local) == [nil])
        switch resolution {
        case .server:
            #expect(transport.unused == 1)
            #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 9)])
        case .write:
            #expect(transport.sent[1].description == #"PATCH /tables/Todo/a "v2" {"rank":4}"#)
            #expect(try await device.rows() == [localRow("a", 3, text: "theirs", rank: 4)])
        default:
            #expect(transport.sent[1].description == #"DELETE /tables/Todo/a "v2" -"#)
            #expect(try await device.rows() == [])
        }
        #expect(try await device.queue() == [])
    }

    /// A decision about an older state of the row does not apply.
    @Test("The handler runs again if the row was edited in the meantime")
    func theHandlerRunsAgainIfTheRowWasEdited() async throws {
        let log = log
        let todos = Mutex<SyncTable<Todo>?>(nil)
        let device = try await edited { _ in
            if log.all.count == 1 {
                // Runs outside of any transaction, so that it can change the row itself.
                try await todos.withLock { $0 }?.update(id: "a") { $0.rank = 5 }
            }
            return .server
        }
        let table = try device.todos()
        todos.withLock { $0 = table }
        transport.add(.json(412, theirs))
        #expect(try await device.push() == nil)
        #expect(log.all.map { $0.local?["rank"] } == [1, 5])
        #expect(transport.sent.count == 1)
    }

    @Test("The handler runs a limited number of times for a row that is always edited")
    func aRowThatIsAlwaysEditedIsParked() async throws {
        let todos = Mutex<SyncTable<Todo>?>(nil)
        let log = log
        let device = try await edited { _ in
            let rank = log.all.count + 100
            try await todos.withLock { $0 }?.update(id: "a") { $0.rank = rank }
            return .server
        }
        let table = try device.todos()
        todos.withLock { $0 = table }
        transport.add(.json(412, theirs))
        // The edits release the operation, which meets the conflict again, once in a push.
        transport.add(.json(412, theirs))
        _ = try await device.push()
        #expect(log.all.count <= 2 * SyncLimits().conflictsMax)
        #expect(try await device.rows().first?["text"] == "mine")
    }

    @Test("A conflict is resolved after a restart if the app ended during the handler")
    func theHandlerRunsAgainAfterAKill() async throws {
        let device = try await edited { _ in
            try await Task.sleep(for: .seconds(3600))
            return .server
        }
        transport.add(.json(412, theirs))
        let push = Task { try await device.push() }
        try await until { !log.all.isEmpty }
        push.cancel()
        #expect(try await push.value?.status == .cancelled)
        #expect(try await device.queue() == ["update a attempted"])
        let again = try await Device(
            transport,
            store: device.store,
            conflicts: .custom { _ in .local }
        )
        transport.add(.json(412, theirs), .json(200, serverRow("a", 3, text: "mine", rank: 1)))
        #expect(try await again.push() == nil)
        #expect(transport.sent[0] == transport.sent[1])
    }

    @Test("An error thrown by the handler parks only the operation in conflict")
    func anErrorOfTheHandlerParksTheOperation() async throws {
        let device = try await edited { _ in throw Odd() }
        try await device.todos().insert(Todo(id: "b", text: "mine"))
        transport.add(.json(412, theirs), .json(201, serverRow("b", 1, text: "mine")))
        let errors = try #require(try await device.push()).errors
        #expect(errors.count == 1)
        #expect(errors.first?.message.contains("Odd") == true)
        #expect(errors.first?.message.contains("secret") == false)
        #expect(try await device.queue() == ["update a attempted parked"])
    }

    @Test("A handler's row that no table can store parks the operation")
    func aRowThatNoTableCanStoreIsParked() async throws {
        let device = try await edited { _ in .write(["text": "\0"]) }
        transport.add(.json(412, theirs))
        #expect(try await device.push()?.errors.first?.message.contains("U+0000") == true)
    }

    /// A push in a handler would wait for itself.
    @Test("A push, pull or purge inside a handler throws an error")
    func aPushInAHandlerFails() async throws {
        let inner = Mutex<Device?>(nil)
        let codes = Mutex<[SyncError.Code?]>([])
        let device = try await edited { _ in
            let device = inner.withLock { $0 }
            let first = await code { try await device?.context.push() }
            let second = await code { try await device?.todos().pull(queryID: nil) }
            let third = await code { try await device?.todos().purge(force: true) }
            codes.withLock { $0 = [first, second, third] }
            return .server
        }
        inner.withLock { $0 = device }
        transport.add(.json(412, theirs))
        #expect(try await device.push() == nil)
        #expect(codes.withLock { $0 } == [.conflict, .conflict, .conflict])
        // Afterwards a push is possible.
        transport.add(page([theirs]))
        try await device.todos().pull(queryID: nil)
    }

    @Test("An operation is parked after nine conflicts that the handler resolved")
    func itStopsAfterSeveralConflicts() async throws {
        let device = try await edited { _ in .local }
        for version in 2..<20 { transport.add(.json(412, serverRow("a", version))) }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.count == 9)
    }
}

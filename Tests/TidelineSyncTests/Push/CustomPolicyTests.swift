// The conflict policy `custom` through the whole client: what an app's handler is shown, when it is
// asked, and what its answers do.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite struct CustomPolicyTests {
    private let transport = ScriptedTransport()
    private let asked = Log()

    /// The conflicts that a handler was shown.
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
        let asked = asked
        let policy = ConflictPolicy.custom { conflict in
            asked.add(conflict)
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

    /// What no column holds does not replace the user's edit.
    @Test(
        arguments: [
            ["rank": "abc"], ["text": 5], ["rank": .number(.nan)], ["complete": "yes"],
            ["text": "\u{0}"],
        ] as [Row]
    )
    func aRowThatDoesNotFitIsNotWritten(row: Row) async throws {
        let device = try await edited { _ in .write(row) }
        transport.add(.json(412, theirs))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.message.contains("'\(row.names[0])'"))
        #expect(error.item?["text"] == "mine")
        #expect(try await device.todos().read(id: "a")?.text == "mine")
        #expect(transport.sent.count == 1)
    }

    /// What the server has is taken as it is, whatever the model says of its column.
    @Test func aRowOfTheServerFits() async throws {
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

    @Test func itIsShownAllThreeStates() async throws {
        let device = try await edited { _ in .fail }
        transport.add(.json(412, theirs))
        let error = try #require(try await device.push()?.errors.first)
        let conflict = try #require(asked.all.first)
        #expect(asked.all.count == 1)
        #expect(conflict.table == "Todo" && conflict.itemID == "a" && conflict.kind == .update)
        #expect(conflict.base == localRow("a", 1, text: "old", rank: 1))
        #expect(conflict.local?["text"] == "mine")
        #expect(conflict.server == localRow("a", 2, text: "theirs", rank: 9))
        #expect(conflict.columns == ["text"])
        #expect(conflict.merged() == nil)
        #expect(conflict.merged(["text": .local])?["text"] == "mine")
        #expect(conflict.merged(["text": .local])?["rank"] == 9)
        #expect(error.serverItem?["text"] == "theirs")
        // A parked operation is nobody's to decide again.
        #expect(try await device.push()?.errors.count == 1)
        #expect(asked.all.count == 1)
    }

    @Test func localSendsTheLocalRow() async throws {
        let device = try await edited { _ in .local }
        transport.add(.json(412, theirs), .json(200, serverRow("a", 3, text: "mine", rank: 1)))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].ifMatch == "\"v2\"")
        #expect(transport.sent[1].body == #"{"text":"mine","complete":false,"rank":1}"#)
        #expect(try await device.rows() == [localRow("a", 3, text: "mine", rank: 1)])
    }

    @Test func serverTakesTheServersRow() async throws {
        let device = try await edited { _ in .server }
        transport.add(.json(412, theirs))
        #expect(try await device.context.push().completed == 1)
        #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 9)])
    }

    /// What the handler saw was the row with the edits of that moment: they are decided about, too.
    @Test func serverDropsWhatTheHandlerSaw() async throws {
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
        #expect(asked.all.map { $0.local?["rank"] } == [5])
        #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 9)])
        #expect(try await device.queue() == [])
    }

    @Test func writeSendsWhatDiffersFromTheServer() async throws {
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

    /// Members that the row does not have stay as the server has them.
    @Test func writeTakesPartOfARow() async throws {
        let device = try await edited { _ in .write(["rank": 4]) }
        transport.add(.json(412, theirs), .json(200, serverRow("a", 3, text: "theirs", rank: 4)))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].body == #"{"rank":4}"#)
    }

    @Test func deleteDeletesOnBothSides() async throws {
        let device = try await edited { _ in .delete }
        transport.add(.json(412, theirs), .status(204))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == #"DELETE /tables/Todo/a "v2" -"#)
        #expect(try await device.rows() == [])
        #expect(try await device.queue() == [])
    }

    /// Deleted there, edited here.
    @Test(arguments: [Resolution.local, .server, .delete, .write(["text": "anew"])])
    func aRowThatIsDeletedThere(resolution: Resolution) async throws {
        let device = try await edited { _ in resolution }
        transport.add(.json(410, serverRow("a", 2, deleted: true)))
        let text = resolution == .local ? "mine" : "anew"
        transport.add(.json(200, serverRow("a", 3, text: text)))
        #expect(try await device.push() == nil)
        #expect(asked.all.map(\.server) == [nil])
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

    /// Deleted here, changed there.
    @Test(arguments: [Resolution.local, .server, .delete, .write(["rank": 4])])
    func aRowThatIsDeletedHere(resolution: Resolution) async throws {
        let device = try await device { _ in resolution }
        try await device.todos().delete(id: "a")
        transport.add(.json(412, theirs))
        transport.add(
            resolution == .write(["rank": 4])
                ? .json(200, serverRow("a", 3, text: "theirs", rank: 4)) : .status(204)
        )
        #expect(try await device.push() == nil)
        #expect(asked.all.map(\.local) == [nil])
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

    /// Guarantee 7: a decision about an older state of the row is none.
    @Test func askedAgainWhenTheRowMoved() async throws {
        let asked = asked
        let todos = Mutex<SyncTable<Todo>?>(nil)
        let device = try await edited { _ in
            if asked.all.count == 1 {
                // Outside any transaction, so that it can change the row itself.
                try await todos.withLock { $0 }?.update(id: "a") { $0.rank = 5 }
            }
            return .server
        }
        let table = try device.todos()
        todos.withLock { $0 = table }
        transport.add(.json(412, theirs))
        #expect(try await device.push() == nil)
        #expect(asked.all.map { $0.local?["rank"] } == [1, 5])
        #expect(transport.sent.count == 1)
    }

    @Test func aRowThatNeverRestsIsParked() async throws {
        let todos = Mutex<SyncTable<Todo>?>(nil)
        let asked = asked
        let device = try await edited { _ in
            let rank = asked.all.count + 100
            try await todos.withLock { $0 }?.update(id: "a") { $0.rank = rank }
            return .server
        }
        let table = try device.todos()
        todos.withLock { $0 = table }
        transport.add(.json(412, theirs))
        // The edits release the operation, which meets the conflict again, once in a push.
        transport.add(.json(412, theirs))
        _ = try await device.push()
        #expect(asked.all.count <= 2 * SyncLimits().conflictsMax)
        #expect(try await device.rows().first?["text"] == "mine")
    }

    /// Base, mine and theirs outlive the app; the same bytes meet the conflict again.
    @Test func aKillAsksAgain() async throws {
        let device = try await edited { _ in
            try await Task.sleep(for: .seconds(600))
            return .server
        }
        transport.add(.json(412, theirs))
        let push = Task { try await device.push() }
        while asked.all.isEmpty { await Task.yield() }
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

    /// The other operations of the batch are done, whatever the handler does.
    @Test func anErrorParks() async throws {
        let device = try await edited { _ in throw Odd() }
        try await device.todos().insert(Todo(id: "b", text: "mine"))
        transport.add(.json(412, theirs), .json(201, serverRow("b", 1, text: "mine")))
        let errors = try #require(try await device.push()).errors
        #expect(errors.count == 1)
        #expect(errors.first?.message.contains("Odd") == true)
        #expect(errors.first?.message.contains("secret") == false)
        #expect(try await device.queue() == ["update a attempted parked"])
    }

    @Test func aRowThatNoTableHoldsParks() async throws {
        let device = try await edited { _ in .write(["text": "\0"]) }
        transport.add(.json(412, theirs))
        #expect(try await device.push()?.errors.first?.message.contains("U+0000") == true)
    }

    /// It would wait for itself.
    @Test func pushInsideIsRefused() async throws {
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
        // Afterwards nothing is refused.
        transport.add(page([theirs]))
        try await device.todos().pull(queryID: nil)
    }

    @Test func itGivesUpInTheEnd() async throws {
        let device = try await edited { _ in .local }
        for version in 2..<20 { transport.add(.json(412, serverRow("a", version))) }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.count == 9)
    }
}

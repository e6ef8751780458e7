// The conflict policy `merge` through the whole client: the origin of each column of a row that two devices changed.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct MergePolicyTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy = .merge) async throws -> Device {
        let device = try await Device(transport, conflicts: policy)
        try await device.seed([localRow("a", 1, text: "old", rank: 1)])
        return device
    }

    @Test("Columns that only one device changed are combined")
    func columnsChangedOnOneSideAreCombined() async throws {
        let device = try await device()
        try await device.todos().update(id: "a") { $0.rank = 7 }
        transport.add(
            .json(412, serverRow("a", 2, text: "theirs", rank: 1)),
            .json(200, serverRow("a", 3, text: "theirs", rank: 7))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == "PATCH /tables/Todo/a \"v2\" {\"rank\":7}")
        #expect(try await device.rows() == [localRow("a", 3, text: "theirs", rank: 7)])
        #expect(try await device.queue() == [])
    }

    @Test("A column that both devices changed to the same value is not sent")
    func aColumnThatBothChangedEquallyIsNotSent() async throws {
        let device = try await device()
        try await device.todos().update(id: "a") { ($0.rank, $0.text) = (7, "both") }
        transport.add(
            .json(412, serverRow("a", 2, text: "both", rank: 1)),
            .json(200, serverRow("a", 3, text: "both", rank: 7))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == "PATCH /tables/Todo/a \"v2\" {\"rank\":7}")
    }

    private static let sum = MergeRule.custom { base, mine, theirs in
        guard case .integer(let base)? = base, case .integer(let mine) = mine,
            case .integer(let theirs) = theirs
        else { return nil }
        return .integer(theirs + mine - base)
    }

    @Test("A custom rule adds up equal increments of two devices", arguments: [false, true])
    func equalIncrementsAddUp(changesText: Bool) async throws {
        let device = try await device(.merge(["rank": Self.sum]))
        try await device.todos().update(id: "a") {
            $0.rank = 2
            if changesText { $0.text = "mine" }
        }
        let text = changesText ? "mine" : "old"
        transport.add(
            .json(412, serverRow("a", 2, text: "old", rank: 2), Self.isKnown),
            .json(200, serverRow("a", 3, text: text, rank: 3))
        )
        #expect(try await device.push() == nil)
        let sent = changesText ? #"{"text":"mine","rank":3}"# : #"{"rank":3}"#
        #expect(transport.sent[1].description == "PATCH /tables/Todo/a \"v2\" " + sent)
        #expect(try await device.rows() == [localRow("a", 3, text: text, rank: 3)])
    }

    /// The server knows repeated requests: no attempt took effect.
    private static let isKnown: HTTPFields = ["Repeatability-Result": "accepted"]

    /// A lower layer may have sent the request twice: on other servers equal changes may be the same change.
    @Test("Equal increments count once on a server without an idempotency ledger")
    func equalIncrementsCountOnceWithoutAnIdempotencyLedger() async throws {
        let device = try await device(.merge(["rank": Self.sum]))
        try await device.todos().update(id: "a") { $0.rank = 2 }
        transport.add(.json(412, serverRow("a", 2, text: "old", rank: 2)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 1)
        #expect(try await device.rows() == [localRow("a", 2, text: "old", rank: 2)])
    }

    @Test("An increment with a lost response counts once if another device changed the text")
    func anIncrementWithALostAnswerIsNotAddedNextToAnotherDevicesChange() async throws {
        let device = try await device(.merge(["rank": Self.sum, "text": .server]))
        try await device.todos().update(id: "a") { ($0.rank, $0.text) = (2, "mine") }
        transport.add(.lost, .json(412, serverRow("a", 3, text: "theirs", rank: 2)))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 2)
        #expect(try await device.rows() == [localRow("a", 3, text: "theirs", rank: 2)])
    }

    /// The handler runs after a lost response, too.
    @Test("The merge of a conflict handler counts equal increments once")
    func aHandlersMergeCountsEqualIncrementsOnce() {
        let conflict = Conflict(
            table: "Todo",
            itemID: "a",
            kind: .update,
            base: localRow("a", 1, text: "old", rank: 1),
            local: localRow("a", 1, text: "mine", rank: 2),
            server: localRow("a", 3, text: "theirs", rank: 2)
        )
        let merged = conflict.merged(["rank": Self.sum, "text": .local])
        #expect(merged?["rank"] == .integer(2))
    }

    /// Both devices inserted the same row; the server's row has one more column.
    @Test("An insert of a row that already exists succeeds under a merge rule")
    func anInsertThatAlreadyExistsSucceedsUnderARule() async throws {
        let device = try await Device(transport, conflicts: .merge(["rank": Self.sum]))
        _ = try await device.todos().insert(Todo(id: "b", text: "seed", rank: 0))
        let row = serverRow("b", 2, text: "seed", rank: 0, #","owner":"anna""#)
        transport.add(.json(409, row, Self.isKnown))
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 1)
        #expect(try await device.queue() == [])
    }

    /// A rule that returns nil leaves the value.
    @Test(
        "A rule that returns an invalid value for equal changes parks the operation",
        arguments: [Value?.some(.string("3")), nil]
    )
    func aRuleThatFailsOnEqualIncrementsParksTheOperation(value: Value?) async throws {
        let device = try await device(.merge(["rank": .custom { _, _, _ in value }]))
        try await device.todos().update(id: "a") { $0.rank = 2 }
        transport.add(.json(412, serverRow("a", 2, text: "old", rank: 2), Self.isKnown))
        let result = try await device.push()
        #expect(result?.errors.first?.message.contains("rank") == (value == nil ? nil : true))
        #expect(try await device.queue() == (value == nil ? [] : ["update a attempted parked"]))
    }

    @Test("An increment with a lost response counts once")
    func anIncrementWithALostAnswerCountsOnce() async throws {
        let device = try await device(.merge(["rank": Self.sum]))
        try await device.todos().update(id: "a") { $0.rank = 2 }
        transport.add(.lost, .json(412, serverRow("a", 2, text: "old", rank: 2)))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(try await device.push() == nil)
        #expect(transport.sent.count == 2)
        #expect(try await device.rows() == [localRow("a", 2, text: "old", rank: 2)])
    }

    @Test("The error names the columns that both devices changed")
    func contestedColumnsAreNamed() async throws {
        let device = try await device()
        try await device.todos().update(id: "a") { ($0.rank, $0.text) = (7, "mine") }
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 1)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.message.contains("to the same columns: text."))
        #expect(!error.message.contains("mine") && !error.message.contains("theirs"))
        #expect(error.base == localRow("a", 1, text: "old", rank: 1))
        #expect(error.differingColumns == ["text", "rank"])
        #expect(try await device.queue() == ["update a attempted parked"])
        try await error.updateOperationAndRetry(with: Todo(id: "a", text: "settled", rank: 7))
        transport.add(.json(200, serverRow("a", 3, text: "settled", rank: 7)))
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].ifMatch == "\"v2\"")
    }

    @Test("An error of an earlier run has the base row and the differing columns")
    func anErrorOfAnEarlierRunShowsTheBase() async throws {
        let device = try await device(.fail)
        try await device.todos().update(id: "a") { $0.rank = 7 }
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 1)))
        _ = try await device.push()
        let again = try await Device(transport, store: device.store)
        let error = try #require(try await again.context.operationErrors().first)
        #expect(error.base == localRow("a", 1, text: "old", rank: 1))
        #expect(error.item?["rank"] == 7)
        #expect(error.differingColumns == ["text", "rank"])
    }

    @Test("Merge rules decide the columns that both devices changed")
    func rulesDecideConflictingColumns() async throws {
        let device = try await device(.merge(["rank": .max, "text": .append]))
        try await device.todos().update(id: "a") { ($0.rank, $0.text) = (3, "old, mine") }
        transport.add(
            .json(412, serverRow("a", 2, text: "old, theirs", rank: 9)),
            .json(200, serverRow("a", 3, text: "old, theirs, mine", rank: 9))
        )
        #expect(try await device.push() == nil)
        let sent = #"PATCH /tables/Todo/a "v2" {"text":"old, theirs, mine"}"#
        #expect(transport.sent[1].description == sent)
        let row = localRow("a", 3, text: "old, theirs, mine", rank: 9)
        #expect(try await device.rows() == [row])
    }

    @Test(
        "A merge rule that returns an invalid value for a number causes a conflict",
        arguments: [
            .number(.nan), .number(.infinity), "seven", .bool(true), .number(1.5),
            .json(JSON(checked: "[1]")),
        ] as [Value]
    )
    func anInvalidNumberOfARuleIsAConflict(value: Value) async throws {
        let device = try await device(.merge(["rank": .custom { _, _, _ in value }]))
        try await device.todos().update(id: "a") { $0.rank = 7 }
        transport.add(.json(412, serverRow("a", 2, text: "old", rank: 9)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.message.contains("row 'a' in table 'Todo' conflicts with another change"))
        #expect(error.message.contains("to the same columns: rank."))
        #expect(error.message.contains("A merge rule failed: the value for column 'rank' "))
        #expect(error.item?["rank"] == 7)
        #expect(try await device.todos().read(id: "a")?.rank == 7)
        #expect(transport.sent.count == 1)
    }

    @Test(
        "A merge rule that returns an invalid value for a text causes a conflict",
        arguments: ["a\u{0}b" as Value, 5, .number(.nan)]
    )
    func anInvalidTextOfARuleIsAConflict(value: Value) async throws {
        let device = try await device(.merge(["text": .custom { _, _, _ in value }]))
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 1)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.message.contains("A merge rule failed: the value for column 'text' "))
        #expect(try await device.todos().read(id: "a")?.text == "mine")
    }

    @Test("A merge that equals the server's row succeeds without another request")
    func aMergeThatEqualsTheServersRowSucceeds() async throws {
        let device = try await device(.merge(["rank": .max]))
        try await device.todos().update(id: "a") { $0.rank = 3 }
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 9)))
        #expect(try await device.context.push().completed == 1)
        #expect(try await device.rows() == [localRow("a", 2, text: "theirs", rank: 9)])
    }

    @Test("A merge rule that returns a value that no table can store causes a conflict")
    func aValueThatNoTableCanStoreIsAConflict() async throws {
        let device = try await device(.merge(["text": .custom { _, _, _ in "\0" }]))
        try await device.todos().update(id: "a") { $0.text = "mine" }
        transport.add(.json(412, serverRow("a", 2, text: "theirs", rank: 1)))
        #expect(try await device.push()?.errors.count == 1)
    }

    @Test("Edits made while an operation is sent are part of the merged row")
    func editsDuringTheMergeStay() async throws {
        let device = try await device()
        let todos = try device.todos()
        try await todos.update(id: "a") { $0.rank = 7 }
        transport.add(
            .run { _ in
                try await todos.update(id: "a") { ($0.rank, $0.complete) = (8, true) }
                return .json(412, serverRow("a", 2, text: "theirs", rank: 1))
            },
            .json(200, serverRow("a", 3, text: "theirs", rank: 8))
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].ifMatch == "\"v2\"")
        #expect(transport.sent[1].body == #"{"complete":true,"rank":8}"#)
        #expect(try await device.queue() == [])
    }

    @Test("A delete made while an operation is sent is sent instead of the merged row")
    func aDeleteDuringTheMergeIsSent() async throws {
        let device = try await device()
        let todos = try device.todos()
        try await todos.update(id: "a") { $0.rank = 7 }
        transport.add(
            .run { _ in
                try await todos.delete(id: "a")
                return .json(412, serverRow("a", 2, text: "theirs", rank: 1))
            },
            .status(204)
        )
        #expect(try await device.push() == nil)
        #expect(transport.sent[1].description == "DELETE /tables/Todo/a \"v2\" -")
        #expect(try await device.rows() == [])
    }

    @Test("A delete and an edit of one row conflict, regardless of the device that deletes")
    func aDeleteAndAnEditParkInBothOrders() async throws {
        let device = try await device()
        try await device.seed([localRow("b", 1)])
        try await device.todos().update(id: "a") { $0.rank = 7 }
        try await device.todos().delete(id: "b")
        transport.add(
            .json(410, serverRow("a", 2, deleted: true)),
            .json(412, serverRow("b", 2, text: "theirs"))
        )
        let errors = try #require(try await device.push()).errors
        #expect(errors.map(\.itemID) == ["a", "b"])
        #expect(errors[0].serverCopy == .deleted)
        #expect(errors[1].serverItem?["text"] == "theirs")
    }

    @Test("Two inserts of the same ID are merged by a rule")
    func twoInsertsAreMerged() async throws {
        let device = try await device(.merge(["text": .union]))
        try await device.todos().insert(Todo(id: "b", text: "mine", rank: 4))
        transport.add(
            .json(409, serverRow("b", 1, text: "theirs", rank: 4)),
            .json(200, serverRow("b", 2, text: "theirs\\nmine", rank: 4))
        )
        #expect(try await device.push() == nil)
        let sent = #"PATCH /tables/Todo/b "v1" {"text":"theirs\nmine"}"#
        #expect(transport.sent[1].description == sent)
    }

    @Test("Two inserts of the same ID conflict without a merge rule")
    func insertsWithoutARuleAreAConflict() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "b", text: "mine"))
        transport.add(.json(409, serverRow("b", 1, text: "theirs")))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.base == nil)
        #expect(error.differingColumns == ["text"])
    }

    /// The base state of the edit is not stored: a merge with another base would invent edits.
    @Test("The edit of an older record is a conflict without a base row")
    func anOlderCopyIsNotABase() async throws {
        let device = try await device()
        var screen = try #require(try await device.todos().read(id: "a"))
        transport.add(page([serverRow("a", 2, text: "new", rank: 2)]))
        try await device.todos().pull(queryID: nil)
        screen.complete = true
        try await device.todos().update(screen)
        transport.add(.json(412, serverRow("a", 2, text: "new", rank: 2)))
        let error = try #require(try await device.push()?.errors.first)
        #expect(error.base == nil)
        #expect(error.serverItem?["text"] == "new")
    }

    /// The first attempt may have arrived, and another device may have reverted it since.
    @Test("An operation with an unknown outcome is not merged")
    func anUnknownOutcomeIsNotMerged() async throws {
        let device = try await device()
        try await device.todos().update(id: "a") { $0.rank = 7 }
        transport.add(.lost)
        #expect(try await device.push()?.status == .networkFailure)
        transport.add(.json(412, serverRow("a", 3, text: "theirs", rank: 1)))
        #expect(try await device.push()?.errors.count == 1)
    }

    /// A server with an idempotency ledger would have replayed the answer.
    @Test("A retried operation is merged if the server has an idempotency ledger")
    func aServerWithAnIdempotencyLedgerReportsTheOutcome() async throws {
        let device = try await device()
        try await device.todos().update(id: "a") { $0.rank = 7 }
        transport.add(.lost)
        #expect(try await device.push()?.status == .networkFailure)
        let answer = serverRow("a", 3, text: "theirs", rank: 1)
        transport.add(
            .json(412, answer, ["Repeatability-Result": "accepted"]),
            .json(200, serverRow("a", 4, text: "theirs", rank: 7))
        )
        #expect(try await device.push() == nil)
    }

    @Test("An operation is parked after nine merges that end in conflicts")
    func itStopsAfterSeveralConflicts() async throws {
        let device = try await device()
        try await device.todos().update(id: "a") { $0.rank = 7 }
        for version in 2..<20 {
            transport.add(.json(412, serverRow("a", version, text: "\(version)", rank: 1)))
        }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(transport.sent.count == 9)
    }

    @Test("Initialization rejects a merge rule for an unknown column")
    func aRuleForAnUnknownColumnIsRejected() async throws {
        let client = SyncClient(endpoint: Device.endpoint, transport: transport)
        let error = await #expect(throws: SyncError.self) {
            try await client.syncContext.initialize(
                store: MemoryStore(),
                tables: [Todo.self],
                tableConflicts: ["todo": .merge(["rang": .max, "rank": .max])]
            )
        }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.contains("rang.") == true)
    }

    @Test(
        "The client's merge and the server's merge produce the same row and conflicts",
        arguments: UInt64(0)..<60
    )
    func theMergeAgreesWithTheServersMerge(seed: UInt64) async throws {
        var results: [[String]] = []
        for rule in [ConflictRule.merge, .reject] {
            var draw = SeededGenerator(seed: seed)
            let server = try await InProcessServer(
                tables: [
                    TableDefinition(
                        "Todo",
                        columns: [
                            ColumnDefinition("text", .string),
                            ColumnDefinition("complete", .boolean),
                            ColumnDefinition("rank", .integer),
                        ],
                        conflict: rule
                    )
                ]
            )
            var devices: [Device] = []
            for _ in 0..<2 {
                devices.append(
                    try await Device(server.transport, conflicts: .merge, tables: [Todo.self])
                )
            }
            try await devices[0].todos().insert(Todo(id: "a", text: "x", rank: 1))
            try await devices[0].context.push()
            try await devices[1].todos().pull(queryID: "all")
            for device in devices {
                let (text, rank) = (draw.chance(50), draw.chance(50))
                let (complete, same) = (draw.chance(50), draw.chance(30))
                let name = same ? "both" : "\(draw.next())"
                try await device.todos().update(id: "a") { todo in
                    if text { todo.text = name }
                    if rank { todo.rank = same ? nil : Int(name.prefix(3)) }
                    if complete { todo.complete = true }
                }
            }
            _ = try await devices[0].push()
            let isContested = try await devices[1].push() != nil
            let truth = try await devices[0].client.table(Todo.self).read(id: "a")
            let row = try #require(truth)
            results.append(
                ["\(isContested)", row.text, "\(row.complete)", "\(row.rank ?? -1)"]
            )
        }
        #expect(results[0] == results[1])
    }
}

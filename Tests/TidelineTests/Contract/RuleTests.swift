// RuleTests: rules of a model are checked before an operation is queued, with the code and words of the server.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct RuleTests {
    /// Runs a call that a rule rejects; returns the error.
    private func broken(_ body: () async throws -> Void) async throws -> SyncError {
        do {
            try await body()
        } catch let error as SyncError {
            return error
        }
        throw SyncError(.badRequest, "nothing was thrown")
    }

    @Test(
        "Device and server reject an insert with the same code and words",
        arguments: RuleCase.all
    )
    func insert(_ rule: RuleCase) async throws {
        var visit = Inspection.valid()
        rule.change(&visit)
        let record = visit
        let server = try await RuleScene.server()
        let device = try await RuleScene.device(server.transport)
        let visits = try device.client.syncTable(Inspection.self)
        let error = try await broken { try await visits.insert(record) }
        #expect(error.code == .ruleBroken)
        #expect(error.message == rule.message)
        let expected = BrokenRule(table: "Inspection", columns: rule.columns, code: rule.code)
        #expect(error.brokenRule == expected)
        #expect(try await device.queue() == [])
        #expect(try await device.rows("Inspection") == [])

        let careless = try await RuleScene.careless(server.transport)
        try await careless.client.syncTable(named: "Inspection").insert(try Row(record))
        #expect(try await careless.push()?.status == .operationErrors)
        let rejection = try #require(try await careless.context.operationErrors().first)
        #expect(rejection.brokenRule == expected)
        #expect(rejection.message.hasSuffix(": " + rule.message))
        #expect(rejection.item?["id"] == "a")
    }

    @Test(
        "Device and server reject an update with the same code and words",
        arguments: RuleCase.all
    )
    func update(_ rule: RuleCase) async throws {
        let server = try await RuleScene.server()
        let device = try await RuleScene.device(server.transport)
        let visits = try device.client.syncTable(Inspection.self)
        try await visits.insert(Inspection.valid())
        #expect(try await device.push() == nil)
        let before = try await device.rows("Inspection")
        let error = try await broken { try await visits.update(id: "a") { rule.change(&$0) } }
        #expect(error.message == rule.message && error.code == .ruleBroken)
        #expect(try await device.rows("Inspection") == before)
        #expect(try await device.queue() == [])

        let careless = try await RuleScene.careless(server.transport)
        let rows = try careless.client.syncTable(named: "Inspection")
        try await rows.pull(queryID: nil)
        let stored = try #require(try await rows.read(id: "a"))
        var visit = try stored.decode(Inspection.self)
        rule.change(&visit)
        var changed = stored
        for (name, value) in try Row(visit) where name != "updatedAt" { changed[name] = value }
        try await rows.update(changed)
        #expect(try await careless.push()?.status == .operationErrors)
        let rejection = try #require(try await careless.context.operationErrors().first)
        #expect(rejection.brokenRule == error.brokenRule)
        #expect(rejection.message.hasSuffix(": " + rule.message))
    }

    @Test("Values at the bounds are accepted on both sides", arguments: RuleCase.kept.indices)
    func bounds(_ index: Int) async throws {
        let server = try await RuleScene.server()
        let device = try await RuleScene.device(server.transport)
        let visits = try device.client.syncTable(Inspection.self)
        var visit = Inspection.valid()
        RuleCase.kept[index](&visit)
        try await visits.insert(visit)
        try await visits.insert(Inspection.valid("b"))
        #expect(try await device.push() == nil)
        try await visits.update(id: "b") { RuleCase.kept[index](&$0) }
        #expect(try await device.push() == nil)
    }

    @Test("A transaction stores nothing if one of its records breaks a rule")
    func transactions() async throws {
        let device = try await RuleScene.device(try await RuleScene.server().transport)
        let error = try await broken {
            try await device.context.transaction { transaction in
                let visits = try transaction.table(Inspection.self)
                try visits.insert(Inspection.valid("a"))
                try visits.insert([
                    Inspection.valid("b"), Inspection(id: "c", minutes: -1, place: "Kiel"),
                ])
            }
        }
        #expect(error.brokenRule?.code == .min)
        #expect(try await device.queue() == [])
        #expect(try await device.rows("Inspection") == [])
    }

    @Test("A list of records is inserted as a whole or not at all, even if the error is caught")
    func lists() async throws {
        let device = try await RuleScene.device(try await RuleScene.server().transport)
        let counts = try await device.context.transaction { transaction -> Int in
            let visits = try transaction.table(Inspection.self)
            let wrong = Inspection(minutes: -1, place: "Kiel")
            do {
                try visits.insert([Inspection.valid(""), wrong])
            } catch let error as SyncError where error.code == .ruleBroken {
                return try visits.count()
            }
            return -1
        }
        #expect(counts == 0)
        #expect(try await device.queue() == [])
    }

    @Test("Upserts and bulk updates are checked")
    func bulk() async throws {
        let device = try await RuleScene.device(try await RuleScene.server().transport)
        let visits = try device.client.syncTable(Inspection.self)
        try await visits.insert([Inspection.valid("a"), Inspection.valid("b")])
        let queued = try await device.queue()
        let first = try await broken {
            try await device.context.transaction { transaction in
                _ = try transaction.table(Inspection.self).update(Query()) { $0.minutes += 1435 }
            }
        }
        let second = try await broken {
            try await device.context.transaction { transaction in
                _ = try transaction.table(Inspection.self).upsert(
                    Inspection(id: "a", title: "", place: "Kiel")
                )
            }
        }
        #expect(first.brokenRule?.code == .max && second.brokenRule?.code == .required)
        #expect(try await device.queue() == queued)
        #expect(try await visits.read().map(\.minutes) == [10, 10])
    }

    @Test("A stored value that breaks a later rule does not prevent other changes")
    func stricter() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "Inspection",
                columns: try RecordSchema.of(Inspection.self).table.columns.map {
                    var column = $0
                    column.rules = ColumnRules()
                    return column
                }
            )
        ])
        let careless = try await RuleScene.careless(server.transport)
        let row = try Row(Inspection(id: "a", title: "much too long", place: "Kiel"))
        try await careless.client.syncTable(named: "Inspection").insert(row)
        #expect(try await careless.push() == nil)
        let device = try await RuleScene.device(server.transport)
        let visits = try device.client.syncTable(Inspection.self)
        try await visits.pull(queryID: nil)
        try await visits.update(id: "a") { $0.minutes = 20 }
        #expect(try await device.push() == nil)
        let error = try await broken { try await visits.update(id: "a") { $0.title += "!" } }
        #expect(error.brokenRule?.code == .maxLength)
    }

    @Test("A device that wins a conflict does not send stored values that break a later rule")
    func stricterAfterAConflict() async throws {
        try await withTemporaryFile { path in
            func deploy(_ table: TableDefinition) async throws -> InProcessServer {
                var options = SQLiteTableStore.Options()
                options.inline = true
                return try await InProcessServer(
                    tables: [table],
                    environment: .live,
                    store: try SQLiteTableStore(path: path, options: options)
                )
            }
            var lax = try RuleScene.table()
            for place in lax.schema.columns.indices {
                lax.schema.columns[place].rules = ColumnRules()
            }
            do {
                let careless = try await RuleScene.careless(try await deploy(lax).transport)
                let row = try Row(Inspection(id: "a", title: "much too long", place: "Kiel"))
                try await careless.client.syncTable(named: "Inspection").insert(row)
                #expect(try await careless.push() == nil)
            }
            let server = try await deploy(try RuleScene.table())
            let one = try await RuleScene.device(server.transport)
            let two = try await Device(
                server.transport,
                conflicts: .clientWins,
                tables: [Inspection.self]
            )
            let (ones, twos) = (
                try one.client.syncTable(Inspection.self), try two.client.syncTable(Inspection.self)
            )
            try await ones.pull(queryID: nil)
            try await twos.pull(queryID: nil)
            try await ones.update(id: "a") { $0.rank = 3 }
            #expect(try await one.push() == nil)
            try await twos.update(id: "a") { $0.minutes = 20 }
            #expect(try await two.push() == nil)
            try await ones.pull(queryID: nil)
            let stored = try #require(try await ones.read(id: "a"))
            #expect(stored.minutes == 20 && stored.rank == nil && stored.title == "much too long")
        }
    }

    @Test(
        "The server checks unique values, and the error has its code, columns and values"
    )
    func unique() async throws {
        let server = try await RuleScene.server()
        let device = try await RuleScene.device(server.transport)
        let visits = try device.client.syncTable(Inspection.self)
        var second = Inspection.valid("b")
        second.number = "a"
        try await visits.insert([Inspection.valid("a"), second])
        #expect(try await device.push()?.status == .operationErrors)
        let error = try #require(try await device.context.operationErrors().first)
        #expect(error.statusCode == 409 && error.code == .conflict)
        #expect(
            error.brokenRule
                == BrokenRule(table: "Inspection", columns: ["number"], code: .notUnique)
        )
        #expect(error.message.hasSuffix(": Member 'number': another row has the same value."))
        #expect(try await visits.read(id: "b")?.number == "a")
        let item = try #require(error.item)
        var record = try item.decode(Inspection.self)
        record.number = "b"
        record.minutes = -1
        let rejected = record
        let again = try await broken { try await error.updateOperationAndRetry(with: rejected) }
        #expect(again.brokenRule?.code == .min)
        #expect(try await device.context.operationErrors().count == 1)
        (record.minutes, record.place) = (1, nil)
        let incomplete = record
        let third = try await broken { try await error.updateOperationAndRetry(with: incomplete) }
        #expect(third.brokenRule?.code == .required && third.brokenRule?.columns == ["place"])
        #expect(try await device.context.operationErrors().count == 1)
        record.place = "Kiel"
        try await error.updateOperationAndRetry(with: record)
        #expect(try await device.push() == nil)
    }

    @Test("An error of a remote table names the server's rule that the row breaks")
    func remote() async throws {
        let server = try await RuleScene.server()
        let device = try await RuleScene.device(server.transport)
        let remote = device.client.table(Inspection.self)
        try await remote.insert(Inspection.valid("a"))
        let repeated = Inspection(id: "b", number: "a", place: "Kiel")
        let notUnique = await #expect(throws: SyncError.self) { try await remote.insert(repeated) }
        #expect(notUnique?.code == .ruleBroken && notUnique?.statusCode == 409)
        #expect(
            notUnique?.brokenRule
                == BrokenRule(table: "Inspection", columns: ["number"], code: .notUnique)
        )
        #expect(notUnique?.message == "Member 'number': another row has the same value.")
        let negative = Inspection(id: "b", number: "b", minutes: -1, place: "Kiel")
        let tooSmall = await #expect(throws: SyncError.self) { try await remote.insert(negative) }
        #expect(tooSmall?.code == .ruleBroken && tooSmall?.statusCode == 400)
        #expect(
            tooSmall?.brokenRule
                == BrokenRule(table: "Inspection", columns: ["minutes"], code: .min)
        )
    }

    @Test("A merge that breaks a comparison is a conflict and is not sent")
    func merges() async throws {
        let server = try await RuleScene.server()
        let one = try await RuleScene.device(server.transport)
        let two = try await Device(server.transport, conflicts: .merge, tables: [Inspection.self])
        let (ones, twos) = (
            try one.client.syncTable(Inspection.self), try two.client.syncTable(Inspection.self)
        )
        var visit = Inspection.valid()
        visit.start = Date(timeIntervalSince1970: 1000)
        visit.end = Date(timeIntervalSince1970: 2000)
        try await ones.insert(visit)
        #expect(try await one.push() == nil)
        try await twos.pull(queryID: nil)
        try await ones.update(id: "a") { $0.start = Date(timeIntervalSince1970: 1900) }
        #expect(try await one.push() == nil)
        try await twos.update(id: "a") { $0.end = Date(timeIntervalSince1970: 1500) }
        #expect(try await two.push()?.status == .operationErrors)
        let error = try #require(try await two.context.operationErrors().first)
        #expect(error.statusCode == 412 && error.brokenRule == nil)
        #expect(error.message.contains("to the same columns: start, end"))
        #expect(error.serverItem != nil)
    }

    @Test("A later change that breaks a comparison with the server's row is not sent")
    func laterChanges() async throws {
        let server = try await RuleScene.server()
        let one = try await RuleScene.device(server.transport)
        let two = try await Device(
            server.transport,
            conflicts: .serverWins,
            tables: [Inspection.self]
        )
        let (ones, twos) = (
            try one.client.syncTable(Inspection.self), try two.client.syncTable(Inspection.self)
        )
        @Sendable func instant(_ seconds: Double) -> Date { Date(timeIntervalSince1970: seconds) }
        var visit = Inspection.valid()
        (visit.start, visit.end) = (instant(1000), instant(2000))
        try await ones.insert(visit)
        #expect(try await one.push() == nil)
        try await twos.pull(queryID: nil)
        try await ones.update(id: "a") { $0.start = instant(1900) }
        #expect(try await one.push() == nil)

        for change in [
            { $0.start = instant(1100) }, { $0.end = instant(1500) },
        ] as [@Sendable (inout Inspection) -> Void] {
            try await two.context.transaction { transaction in
                try transaction.table(Inspection.self).update(id: "a", change)
            }
        }
        // The second operation waits for the first.
        let outcomes = try await two.context.dryRun().operations.map(\.outcome)
        #expect(outcomes.count == 2 && outcomes.last == .waiting)
        #expect(try await two.push()?.status == .operationErrors)
        let error = try #require(try await two.context.operationErrors().first)
        #expect(error.statusCode == nil && error.brokenRule == nil)
        #expect(error.differingColumns == ["end"])
        #expect(
            error.message.hasSuffix(
                """
                was not sent, because the row breaks a rule together with the server's values. Member 'start': the \
                value must not be greater than that of 'end'. Resolve the conflict with both rows.
                """
            )
        )
        #expect(try await two.push()?.status == .operationErrors)
        try await ones.pull(queryID: nil)
        #expect(try await ones.read(id: "a")?.end == instant(2000))

        try await twos.update(id: "a") { $0.end = instant(1950) }
        #expect(try await two.push() == nil)
        try await ones.pull(queryID: nil)
        let merged = try #require(try await ones.read(id: "a"))
        #expect(merged.start == instant(1900) && merged.end == instant(1950))
    }

    @Test("A conflict handler's row that breaks a rule is not sent")
    func handlers() async throws {
        let server = try await RuleScene.server()
        let one = try await RuleScene.device(server.transport)
        let policy = ConflictPolicy.custom { conflict in
            var row = conflict.local ?? Row()
            row["minutes"] = -5
            return .write(row)
        }
        let two = try await Device(server.transport, conflicts: policy, tables: [Inspection.self])
        let (ones, twos) = (
            try one.client.syncTable(Inspection.self), try two.client.syncTable(Inspection.self)
        )
        try await ones.insert(Inspection.valid())
        #expect(try await one.push() == nil)
        try await twos.pull(queryID: nil)
        try await ones.update(id: "a") { $0.minutes = 20 }
        #expect(try await one.push() == nil)
        try await twos.update(id: "a") { $0.minutes = 30 }
        #expect(try await two.push()?.status == .operationErrors)
        let error = try #require(try await two.context.operationErrors().first)
        #expect(error.message.contains("Member 'minutes': at least 0 is expected."))
        #expect(try await twos.read(id: "a")?.minutes == 30)
    }

    @Test("A conflict handler's row in place of a deleted one is checked as an insert")
    func handlersOfDeletedRows() async throws {
        let server = try await RuleScene.server()
        let one = try await RuleScene.device(server.transport)
        let policy = ConflictPolicy.custom { conflict in
            var row = conflict.local ?? Row()
            row["place"] = .null
            return .write(row)
        }
        let two = try await Device(server.transport, conflicts: policy, tables: [Inspection.self])
        let (ones, twos) = (
            try one.client.syncTable(Inspection.self), try two.client.syncTable(Inspection.self)
        )
        try await ones.insert(Inspection.valid())
        #expect(try await one.push() == nil)
        try await twos.pull(queryID: nil)
        try await ones.delete(id: "a")
        #expect(try await one.push() == nil)
        try await twos.update(id: "a") { $0.minutes = 30 }
        #expect(try await two.push()?.status == .operationErrors)
        let error = try #require(try await two.context.operationErrors().first)
        #expect(error.message.contains("Member 'place': a value is expected."))
        #expect(try await twos.read(id: "a")?.place == "Kiel")
        #expect(try await one.client.table(Inspection.self).read(id: "a") == nil)
    }
}

extension RuleTests {
    private struct BadLength: SyncRecord {
        var id = ""
        var count = 0
        static let rules: [Rule<BadLength>] = [.maxLength(\.count, 3)]
    }
    private struct BadPattern: SyncRecord {
        var id = ""
        var text = ""
        static let rules: [Rule<BadPattern>] = [.pattern(\.text, "(")]
    }
    private struct BadRange: SyncRecord {
        var id = ""
        var count = 0
        static let rules: [Rule<BadRange>] = [.min(\.count, 3), .max(\.count, 2)]
    }
    private struct BadComparison: SyncRecord {
        var id = ""
        var count = 0
        var text = ""
        static let rules: [Rule<BadComparison>] = [.compare(\.count, .less, \.text)]
    }
    private struct BadUnique: SyncRecord {
        var id = ""
        var tags: [String] = []
        static let rules: [Rule<BadUnique>] = [.unique(\.tags)]
    }

    @Test(
        "A rule that no server accepts makes the model invalid",
        arguments: [
            (BadLength.self as any SyncRecord.Type, "the rule '.maxLength' names 'count'"),
            (BadPattern.self, "the rule '.pattern' has an invalid pattern"),
            (BadRange.self, "the rule '.max' for 'count' is less than the minimum"),
            (BadComparison.self, "the rule '.compare' names 'count' and 'text'"),
            (BadUnique.self, "the rule '.unique' for 'tags'"),
        ]
    )
    func invalid(_ type: any SyncRecord.Type, _ message: String) throws {
        let error = #expect(throws: SyncError.self) { try RecordSchema.of(type) }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }
}

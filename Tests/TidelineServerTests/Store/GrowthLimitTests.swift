// The growth of a dynamic schema is limited, and does not starve other writes.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineTestKit

@Suite struct GrowthLimitTests {
    @Test(
        "A dynamic schema creates at most limits.tables tables",
        arguments: AuditedServer.backends
    )
    func theNumberOfTablesIsLimited(_ onPostgres: Bool) async throws {
        var limits = ServerLimits()
        limits.tables = 4
        let server = try await TestServer(onPostgres: onPostgres, dynamic: true, limits: limits)
        var statuses: [Int] = []
        for number in 0..<6 {
            let answer = await server.send("POST", "/tables/t\(number)", #"{"a":1}"#)
            statuses.append(answer.status)
            if answer.status == 403 { #expect(answer.code == "tooManyTables") }
        }
        #expect(statuses == [201, 201, 201, 403, 403, 403])
        // Existing tables continue to accept writes.
        #expect(await server.send("POST", "/tables/t0", #"{"a":2,"b":"x"}"#).status == 201)
        #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
        await server.store.stop()
    }

    @Test("A table gets at most limits.columns columns", arguments: AuditedServer.backends)
    func theNumberOfColumnsIsLimited(_ onPostgres: Bool) async throws {
        var limits = ServerLimits()
        limits.columns = 5
        let server = try await TestServer(onPostgres: onPostgres, dynamic: true, limits: limits)
        #expect(await server.send("POST", "/tables/t", #"{"a":1,"b":1,"c":1}"#).status == 201)
        #expect(await server.send("POST", "/tables/t", #"{"d":1,"e":1}"#).status == 201)
        let more = await server.send("POST", "/tables/t", #"{"f":1}"#)
        #expect(more.status == 403 && more.code == "tooManyColumns")
        let wide = await server.send("POST", "/tables/u", #"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}"#)
        #expect(wide.status == 403 && wide.code == "tooManyColumns")
        #expect(await server.send("POST", "/tables/t", #"{"a":1,"e":1}"#).status == 201)
        await server.store.stop()
    }

    @Test(
        "A table gets as many columns as limits.columns allows, even above the default",
        arguments: AuditedServer.backends
    )
    func manyColumns(_ onPostgres: Bool) async throws {
        func body(_ columns: Range<Int>) -> String {
            "{\(columns.map { "\"c\($0)\":1" }.joined(separator: ","))}"
        }
        var limits = ServerLimits()
        for columns in [500, 550] {
            limits.columns = columns
            let server = try await TestServer(onPostgres: onPostgres, dynamic: true, limits: limits)
            // One request adds at most 200 columns.
            for first in stride(from: 0, to: columns, by: 200) {
                let new = body(first..<min(first + 200, columns))
                #expect(await server.send("POST", "/tables/t", new).status == 201)
            }
            let more = await server.send("POST", "/tables/t", #"{"more":1}"#)
            #expect(more.status == 403 && more.code == "tooManyColumns")
            await server.store.stop()
        }
    }

    /// SQLite reads the whole schema again after each column that is added to a table.
    @Test(
        "A table with 40 columns is created with as many statements as a table with one column"
    )
    func oneStatementForAllColumns() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path, dynamic: true)
            let file = try Database(path: path, mode: .readOnly)
            func changes(_ body: String, _ table: String) async throws -> Int64 {
                let before = try #require(try file.integer("PRAGMA schema_version"))
                #expect(await server.send("POST", "/tables/\(table)", body).status == 201)
                return try #require(try file.integer("PRAGMA schema_version")) - before
            }
            let columns = (0..<40).map { "\"c\($0)\":\($0)" }.joined(separator: ",")
            let narrow = try await changes(#"{"a":1}"#, "narrow")
            #expect(try await changes("{\(columns)}", "wide") == narrow)
            await server.store.stop()
        }
    }

    @Test("Creating tables does not delay other writes", arguments: AuditedServer.backends)
    func otherWritesHaveTheirTurn(_ onPostgres: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let url = try onPostgres ? PostgresCluster.shared().database() : nil
            let server = try await TestServer(
                path: onPostgres ? nil : directory + "/a.db",
                onPostgres: onPostgres,
                database: url,
                dynamic: true
            )
            let stop = Flag()
            let created = Count()
            let creators = (0..<8).map { creator in
                Task {
                    var number = 0
                    while !stop.isSet {
                        _ = await server.send("POST", "/tables/c\(creator)x\(number)", #"{"a":1}"#)
                        created.add()
                        number += 1
                    }
                }
            }
            try await until { created.value >= 8 }
            // How many tables are created while a write waits: the time depends on the machine.
            var waits: [Int] = []
            for _ in 0..<21 {
                let before = created.value
                #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
                waits.append(created.value - before)
            }
            stop.set()
            for creator in creators { await creator.value }
            waits.sort()
            // At most one table for each creator that was in the queue before it.
            #expect(waits[10] <= 10, "\(waits)")
            await server.store.stop()
        }
    }
}

/// A counter that several tasks increment.
private final class Count: Sendable {
    private let number = Atomic(0)

    var value: Int { number.load(ordering: .relaxed) }

    func add() { number.wrappingAdd(1, ordering: .relaxed) }
}

// RuleRejectionTests: a row that breaks a rule of the server waits with the server's words, and its values.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RuleRejectionTests {
    @Test("A value that another row has parks the operation with status and message")
    func notUnique() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "Todo",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                    ColumnDefinition("rank", .integer),
                ],
                rules: TableRules(unique: [["text"]])
            )
        ])
        let device = try await Device(server.transport)
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a", text: "milk"))
        try await todos.insert(Todo(id: "b", text: "milk"))
        try await todos.insert(Todo(id: "c", text: "tea"))
        #expect(try await device.push()?.status == .operationErrors)
        let errors = try await device.context.operationErrors()
        let failure = try #require(errors.first)
        #expect(errors.count == 1)
        #expect(failure.itemID == "b" && failure.statusCode == 409)
        #expect(failure.message.contains("another row has the same value"))
        #expect(try await device.queue() == ["insert b attempted parked"])
        #expect(try await todos.read(id: "b")?.text == "milk")
    }
}

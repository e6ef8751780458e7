// Reads and observations during writes, pulls and pushes: no state is ever mixed.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// Local transactions keep the sum of a todo and a note, and another device keeps two todos equal.
///
/// Each local transaction moves a number from a todo to a note or back, so that their sum stays 100. Another device
/// changes two todos in one transaction, so that their texts are equal. Every state that this device has committed
/// keeps both rules, and every mix of two states is likely to break one.
@Suite(.timeLimit(.minutes(30))) struct MixedStateTests {
    private static let rounds = TestScope.coversAll ? 10_000 : 400
    private static let pairs = 4
    private static let sum = 100

    private struct State: Equatable, Sendable {
        var ranks: [Int]
        var bodies: [Int]
        var shared: Set<String>
        var moves: Int

        init(_ reader: SyncReader) throws {
            let (todos, notes) = (try reader.table(Todo.self), try reader.table(Note.self))
            ranks = try (0..<pairs).map { try todos.read(id: "t\($0)")?.rank ?? -1 }
            shared = [try todos.read(id: "s0")?.text ?? ""]
            bodies = try (0..<pairs).map { Int(try notes.read(id: "n\($0)")?.body ?? "") ?? -1 }
            shared.insert(try todos.read(id: "s1")?.text ?? "")
            // A todo and a note have the number of moves.
            moves = try todos.read(id: "count")?.rank ?? -1
            let noted = try notes.read(id: "count")?.body ?? ""
            if noted != "\(moves)" { throw Mixed(what: "\(moves) moves and \(noted)") }
        }

        /// The rule that the state breaks; nil if it is a committed state.
        var fault: String? {
            guard ranks.count == bodies.count else { return "\(ranks) and \(bodies)" }
            for (rank, body) in zip(ranks, bodies) where rank + body != sum {
                return "\(rank) + \(body)"
            }
            return shared.count == 1 ? nil : "\(shared.sorted())"
        }
    }

    private struct Mixed: Error { var what: String }

    private static func check(_ state: State) throws {
        if let fault = state.fault { throw Mixed(what: fault) }
    }

    @Test("No read and no observation shows a mix of two states")
    func neverMixed() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let here = try await device(server, try SQLiteStore(path: path))
            let there = try await device(server, try SQLiteStore(path: path + "-other"))
            try await prepare(here, there)
            let context = here.context
            try await withThrowingTaskGroup { syncing in
                syncing.addTask { try await Self.change(there) }
                syncing.addTask { try await Self.sync(here) }
                try await Self.moveAndRead(context)
                // The last push may have thousands of operations.
                syncing.cancelAll()
                try await syncing.waitForAll()
            }
            let last = try await context.read(State.init)
            #expect(last.fault == nil)
            #expect(last.moves == Self.rounds)
        }
    }

    /// Moves numbers, and checks each state that reads and observations show meanwhile.
    private static func moveAndRead(_ context: SyncContext) async throws {
        try await withThrowingTaskGroup { group in
            for writer in 0..<2 {
                group.addTask { try await move(context, seed: UInt64(writer)) }
            }
            for _ in 0..<2 {
                group.addTask {
                    for try await state in context.observe(State.init) {
                        try check(state)
                        if state.moves == rounds { break }
                    }
                }
            }
            group.addTask {
                for _ in 0..<rounds { try check(try await context.read(State.init)) }
            }
            try await group.waitForAll()
        }
    }

    private func device(_ server: InProcessServer, _ store: any LocalStore) async throws -> Device {
        try await Device(server.transport, store: store, environment: .live)
    }

    private func prepare(_ here: Device, _ there: Device) async throws {
        try await here.context.transaction { transaction in
            let (todos, notes) = (
                try transaction.table(Todo.self), try transaction.table(Note.self)
            )
            for pair in 0..<Self.pairs {
                try todos.insert(Todo(id: "t\(pair)", rank: Self.sum))
                try notes.insert(Note(id: "n\(pair)", body: "0"))
            }
            try todos.insert([Todo(id: "s0"), Todo(id: "s1"), Todo(id: "count", rank: 0)])
            try notes.insert(Note(id: "count", body: "0"))
        }
        try await here.context.push()
        try await there.client.syncTable(Todo.self).pull(queryID: "all")
        try await here.client.syncTable(Todo.self).pull(queryID: "all")
    }

    /// Moves numbers between todos and notes; two writers together make `rounds` moves.
    private static func move(_ context: SyncContext, seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<rounds / 2 {
            let (pair, amount) = (
                Int.random(in: 0..<pairs, using: &random), Int.random(in: 0...sum, using: &random)
            )
            try await context.transaction { transaction in
                let (todos, notes) = (
                    try transaction.table(Todo.self), try transaction.table(Note.self)
                )
                try todos.update(id: "t\(pair)") { $0.rank = amount }
                let move = (try todos.read(id: "count")?.rank ?? 0) + 1
                try todos.update(id: "count") { $0.rank = move }
                try notes.update(id: "count") { $0.body = "\(move)" }
                try notes.update(id: "n\(pair)") { $0.body = "\(sum - amount)" }
            }
        }
    }

    /// Changes two rows in one transaction on another device, and pushes it, until it is cancelled.
    private static func change(_ device: Device) async throws {
        var number = 0
        while !Task.isCancelled {
            number += 1
            let text = "\(number)"
            do {
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    for id in ["s0", "s1"] { try todos.update(id: id) { $0.text = text } }
                }
                try await device.context.push()
            } catch {
                if !Task.isCancelled { throw error }
            }
        }
    }

    /// Pushes and pulls until it is cancelled.
    private static func sync(_ device: Device) async throws {
        let todos = try device.todos()
        while !Task.isCancelled {
            do {
                try await device.context.push()
                try await todos.pull(queryID: "all")
            } catch {
                if !Task.isCancelled { throw error }
            }
        }
    }
}

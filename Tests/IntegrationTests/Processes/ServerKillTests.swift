// ServerKillTests: the server is killed with SIGKILL while sixteen writers use it. Every acknowledged write is stored
// afterwards, and no row is older than acknowledged.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ServerKillTests {
        private static let rounds = 4
        private static let writers = 16

        @Test(
            "Acknowledged writes are stored after the server is killed repeatedly",
            arguments: RandomSeeds.all
        )
        func acknowledgedWritesSurvive(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                var server = try await ServerProcess.start(in: workspace)
                var ledger = Ledger()
                for round in 0..<Self.rounds {
                    try await Self.insertMark(round, at: server)
                    let written = try await load(server, round, &random)
                    #expect(written.rows.count > 5, "round \(round) was killed before any load")
                    let log = server.process.error.suffix(2000)
                    #expect(written.strange.isEmpty, "the log: \(log)")
                    ledger.add(written)
                    server = try await server.restart()
                    let stored = try await server.wire.allRows("TodoItem")
                    try ledger.check(stored)
                }
                try await Self.insertMark(Self.rounds, at: server)
                let end = try await server.stop()
                #expect(end == .exit(0))
                try checkFile(workspace.path("server.db"))
            }
        }

        private static func insertMark(_ round: Int, at server: ServerProcess) async throws {
            let answer = try await server.wire.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"mark-\#(round)"}"#
            )
            #expect(
                answer.status == 201,
                "\(String(decoding: answer.body, as: UTF8.self)); the log: \(server.process.error.suffix(2000))"
            )
        }

        /// Writes until the server is killed, after some responses.
        private func load(
            _ server: ServerProcess,
            _ round: Int,
            _ random: inout SeededGenerator
        ) async throws -> Ledger {
            let enough = Int.random(in: 50...400, using: &random)
            let seeds = (0..<Self.writers).map { _ in random.next() }
            let transport = CurlTransport()
            let answers = Answers()
            return try await withThrowingTaskGroup(of: Ledger.self) { group in
                for (number, seed) in seeds.enumerated() {
                    group.addTask {
                        var writer = Writer(
                            name: "r\(round)-w\(number)",
                            wire: Wire(endpoint: server.url, transport: transport),
                            answers: answers,
                            seed: seed
                        )
                        await writer.run()
                        return writer.ledger
                    }
                }
                _ = try await eventually("\(enough) answers") {
                    answers.areStrange || answers.count >= enough ? () : nil
                }
                try await server.process.destroy()
                return try await group.reduce(into: Ledger()) { $0.add($1) }
            }
        }

        /// The timestamps of a round lie between the markers around it, and each occurs once.
        private func checkFile(_ path: String) throws {
            let file = try DatabaseFile(path)
            try file.expectIntact()
            let count = try file.integer(#"SELECT count(*) FROM "TodoItem""#)
            let timestamps = try file.integer(
                #"SELECT count(DISTINCT "updatedAt") FROM "TodoItem""#
            )
            let versions = try file.integer(#"SELECT count(DISTINCT "version") FROM "TodoItem""#)
            #expect(count == timestamps)
            #expect(count == versions)
            for round in 0..<Self.rounds {
                let outside = try file.integer(
                    """
                    SELECT count(*) FROM "TodoItem"
                    WHERE "id" LIKE 'r\(round)-%' AND "updatedAt" NOT BETWEEN
                        (SELECT "updatedAt" FROM "TodoItem" WHERE "id" = 'mark-\(round)') AND
                        (SELECT "updatedAt" FROM "TodoItem" WHERE "id" = 'mark-\(round + 1)')
                    """
                )
                #expect(outside == 0, "round \(round)")
            }
        }
    }
}

extension ServerProcess {
    var wire: Wire { Wire(endpoint: url, transport: CurlTransport()) }
}

/// The acknowledged writes of the server, and those that it may have executed beyond them.
private struct Ledger: Sendable {
    struct Known: Sendable {
        var number: Int
        /// nil for a deleted row, because the response has no version.
        var version: String?
    }

    enum Doubt: Sendable {
        case write(number: Int)
        case delete
    }

    var rows: [String: Known] = [:]
    /// The operation under way at the end, by row.
    var doubts: [String: Doubt] = [:]
    /// Responses that no writer may get.
    var strange: [String] = []

    mutating func add(_ other: Ledger) {
        rows.merge(other.rows) { $1 }
        doubts.merge(other.doubts) { $1 }
        strange += other.strange
    }

    /// Both columns of a row are derived from its number, so a half-written row is detected.
    static func text(_ id: String, _ number: Int) -> String {
        "\(id)#\(number)#" + String(repeating: "\(number % 10)", count: number * 37 % 1500)
    }

    func check(_ stored: [[String: Any]]) throws {
        var left = rows
        for row in stored {
            let id = try #require(row["id"] as? String)
            guard !id.hasPrefix("mark-") else { continue }
            let text = try #require(row["text"] as? String)
            let number = try #require(
                text.split(separator: "#").dropFirst().first.flatMap { Int($0) }
            )
            #expect(text == Self.text(id, number), "row \(id) is half written")
            #expect(row["complete"] as? Bool == (number % 2 == 1), "row \(id) is half written")
            let isDeleted = row["deleted"] as? Bool == true
            let known = left.removeValue(forKey: id)
            let isKnown =
                known.map {
                    $0.number == number && ($0.version == nil) == isDeleted
                        && ($0.version == nil || $0.version == row["version"] as? String)
                } ?? false
            guard !isKnown else { continue }
            switch doubts[id] {
            case .write(let written)?: #expect(number == written && !isDeleted, "row \(id)")
            case .delete?: #expect(number == known?.number && isDeleted, "row \(id)")
            case nil:
                Issue.record(
                    "row \(id) is \(row["version"] ?? ""), not \(String(describing: known))"
                )
            }
        }
        #expect(left.isEmpty, "acknowledged rows are missing")
    }
}

/// The responses that all writers got.
private final class Answers: Sendable {
    private let state = Mutex((count: 0, areStrange: false))

    var count: Int { state.withLock { $0.count } }
    /// Whether one of them is a response that a writer must not get.
    var areStrange: Bool { state.withLock { $0.areStrange } }

    func add(isStrange: Bool) {
        state.withLock { state in
            state.count += 1
            if isStrange { state.areStrange = true }
        }
    }
}

private struct Writer {
    let name: String
    let wire: Wire
    let answers: Answers
    var ledger = Ledger()
    private var live: [String] = []
    private var random: SeededGenerator

    init(name: String, wire: Wire, answers: Answers, seed: UInt64) {
        self.name = name
        self.wire = wire
        self.answers = answers
        random = SeededGenerator(seed: seed)
    }

    /// Writes until the server stops responding.
    mutating func run() async {
        do {
            while ledger.strange.isEmpty {
                switch random.below(10) {
                case 0..<4 where !live.isEmpty: try await change()
                case 4 where !live.isEmpty: try await delete()
                default: try await insert()
                }
            }
        } catch {}
    }

    private func body(_ id: String, _ number: Int) -> String {
        #"{"id":"\#(id)","text":"\#(Ledger.text(id, number))","complete":\#(number % 2 == 1)}"#
    }

    private mutating func insert() async throws {
        let id = "\(name)-\(ledger.rows.count)"
        ledger.doubts[id] = .write(number: 0)
        let answer = try await wire.send("POST", "/tables/TodoItem", body(id, 0))
        guard note(answer, 201) else { return }
        ledger.doubts[id] = nil
        ledger.rows[id] = Ledger.Known(number: 0, version: answer.object["version"] as? String)
        live.append(id)
    }

    private mutating func change() async throws {
        guard let id = live.randomElement(using: &random), let known = ledger.rows[id] else {
            return
        }
        let number = known.number + 1
        ledger.doubts[id] = .write(number: number)
        let answer = try await wire.send(
            "PATCH",
            "/tables/TodoItem/\(id)",
            body(id, number),
            headers: ["If-Match": "\"\(known.version ?? "")\""]
        )
        guard note(answer, 200) else { return }
        ledger.doubts[id] = nil
        ledger.rows[id] = Ledger.Known(number: number, version: answer.object["version"] as? String)
    }

    private mutating func delete() async throws {
        let id = live.remove(at: random.below(live.count))
        ledger.doubts[id] = .delete
        let version = ledger.rows[id]?.version ?? ""
        let answer = try await wire.send(
            "DELETE",
            "/tables/TodoItem/\(id)",
            headers: ["If-Match": "\"\(version)\""]
        )
        guard note(answer, 204) else { return }
        ledger.doubts[id] = nil
        ledger.rows[id]?.version = nil
    }

    private mutating func note(_ answer: TransportResponse, _ expected: Int) -> Bool {
        answers.add(isStrange: answer.status != expected)
        if answer.status != expected {
            let body = String(decoding: answer.body, as: UTF8.self)
            ledger.strange.append("\(name): \(answer.status) \(body)")
        }
        return answer.status == expected
    }
}

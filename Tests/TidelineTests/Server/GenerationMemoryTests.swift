// The generation of a server as learned from its answers: a table of answers.

import Testing
import Tideline
import TidelineCore

struct GenerationMemoryTests {
    struct Case: CustomTestStringConvertible, Sendable {
        var name: String
        var status = 200
        var headers: HTTPFields = [:]
        var body = ""
        var asked = ServerDialect.datasync
        /// Nil if the answer does not show the generation.
        var dialect: ServerDialect?
        var isToRepeat = false

        var testDescription: String { name }

        var signs: AnswerSigns {
            AnswerSigns(
                TransportResponse(status: status, headers: headers, body: Array(body.utf8))
            )
        }
    }

    static let rejection = #"{"error":"needs to specify a ZUMO-API-VERSION of 2.0.0."}"#

    static let cases = [
        Case(
            name: "Node rejects 3.0.0",
            status: 400,
            body: rejection,
            dialect: .classic,
            isToRepeat: true
        ),
        Case(
            name: ".NET rejects 3.0.0",
            status: 400,
            headers: ["x-zumo-server-version": "net-1.1.157.1"],
            body: #"{"message":"'ZUMO-API-VERSION'"}"#,
            dialect: .classic,
            isToRepeat: true
        ),
        Case(
            name: "a server rejects 2.0.0",
            status: 400,
            body: rejection,
            asked: .classic,
            dialect: .datasync,
            isToRepeat: true
        ),
        Case(
            name: "Node without its version check",
            headers: ["X-Zumo-Server-Version": "node-4.0.3"],
            body: "[]",
            dialect: .classic
        ),
        Case(
            name: "a classic page",
            headers: ["Link": "http://h/?$skip=50; rel=next"],
            body: #" [{"id":"a"}]"#,
            dialect: .classic
        ),
        Case(name: "an envelope", body: #"{"items":[]}"#, asked: .classic, dialect: .datasync),
        Case(name: "an envelope, spaced", body: #"{ "items" : [] }"#, dialect: .datasync),
        Case(
            name: "Tideline, requested as classic",
            headers: ["Tideline-Epoch": "e1"],
            body: "[]",
            asked: .classic,
            dialect: .datasync
        ),
        Case(name: "a bare array", body: "[]"),
        Case(name: "a row", status: 201, body: #"{"id":"a","items":[]}"#),
        Case(name: "another rejection", status: 400, body: #"{"error":"'text' is no number"}"#),
        Case(name: "a portal", body: "<html>"),
        Case(name: "a gateway", status: 502, body: rejection),
        Case(name: "another server's version", headers: ["x-zumo-server-version": "7"], body: "[]"),
    ]

    @Test("The client learns the server's generation from its responses", arguments: cases)
    func itLearnsTheGeneration(from one: Case) {
        let meaning = GenerationMemory.meaning(one.signs, asked: one.asked)
        #expect(meaning?.0 == one.dialect)
        var memory = GenerationMemory(.automatic)
        #expect(memory.dialect == .datasync)
        #expect(memory.note(one.signs, asked: one.asked) == one.isToRepeat)
        #expect(memory.dialect == one.dialect ?? .datasync)
        #expect(memory.learned == one.dialect)
    }

    @Test("The client learns nothing if the app sets the generation", arguments: cases)
    func itLearnsNothingIfTheAppSetsTheGeneration(from one: Case) {
        for (setting, dialect) in [
            (ServerGeneration.classic, ServerDialect.classic), (.datasync, .datasync),
        ] {
            var memory = GenerationMemory(setting)
            memory.remember(dialect.other)
            let repeats = memory.note(one.signs, asked: dialect)
            #expect(!repeats)
            #expect(memory.dialect == dialect)
            #expect(memory.learned == nil)
        }
    }

    @Test("A certain sign replaces a known generation, and a likely sign does not")
    func certainSignsReplaceLikelyOnes() {
        let page = Self.cases.first { $0.name == "a classic page" }!.signs
        let envelope = Self.cases.first { $0.name == "an envelope" }!.signs
        let rejection = Self.cases.first { $0.name == "Node rejects 3.0.0" }!.signs
        var memory = GenerationMemory(.automatic)
        _ = memory.note(envelope, asked: .datasync)
        _ = memory.note(page, asked: .datasync)
        #expect(memory.dialect == .datasync)
        let repeats = memory.note(rejection, asked: .datasync)
        #expect(repeats && memory.dialect == .classic)
        _ = memory.note(envelope, asked: .classic)
        #expect(memory.dialect == .datasync)
    }

    @Test("A stored generation is discarded once when the server rejects it")
    func aStoredGenerationIsDroppedOnce() {
        var memory = GenerationMemory(.automatic)
        memory.remember(.classic)
        #expect(memory.dialect == .classic && memory.learned == nil)
        let bad = AnswerSigns(TransportResponse(status: 400, body: Array("{}".utf8)))
        let first = memory.note(bad, asked: .classic)
        #expect(first && memory.dialect == .datasync)
        let second = memory.note(bad, asked: .datasync)
        #expect(!second)
        // A generation that was learned in this run is not dropped.
        var learned = GenerationMemory(.automatic)
        _ = learned.note(Self.cases[0].signs, asked: .datasync)
        let third = learned.note(bad, asked: .classic)
        #expect(!third && learned.dialect == .classic)
    }
}

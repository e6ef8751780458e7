// Answers that no sync server gives: the messages describe the answer, and what to check.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct UnexpectedAnswerTests {
    private static let html: HTTPFields = ["Content-Type": "text/html; charset=utf-8"]

    /// Status, header fields, body, and the words that the messages must contain.
    static let cases: [(Int, HTTPFields, String, [String])] = [
        (200, html, "<html>", ["status 200 (text/html)", "login page"]),
        (200, [:], "", ["status 200,", "Check that the endpoint"]),
        (500, html, "<html>", ["status 500 (text/html)", "The server failed"]),
        (
            503, ["Content-Type": "application/problem+json"], #"{"error":"Draining."}"#,
            ["status 503 (application/problem+json): Draining. The server failed"]
        ),
        (429, [:], "", ["status 429", "busy"]),
        (
            302, ["Content-Type": "text/html", "Location": "https://login.example/?secret=1"], "",
            ["status 302 (text/html)", "redirect to https://login.example,", "endpoint"]
        ),
        (
            404, html, "<html>",
            ["status 404 (text/html). This is not the response of a table", "endpoint"]
        ),
        (301, ["Location": "/tables/Todo/"], "", ["redirect to another path", "not followed"]),
    ]

    @Test("The error of a push describes an unexpected response", arguments: cases)
    func thePushDescribesTheAnswer(
        status: Int,
        headers: HTTPFields,
        body: String,
        words: [String]
    ) async throws {
        let transport = ScriptedTransport(otherwise: .response(status, headers, body))
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "private"))
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure)
        #expect((error.cause as? SyncError)?.statusCode == status)
        Self.expect(error.description, words, "the push")
        #expect(error.description.contains("Nothing is lost"))
    }

    @Test("The error of a pull describes an unexpected response", arguments: cases)
    func thePullDescribesTheAnswer(
        status: Int,
        headers: HTTPFields,
        body: String,
        words: [String]
    ) async throws {
        let transport = ScriptedTransport(otherwise: .response(status, headers, body))
        let device = try await Device(transport)
        let error = await #expect(throws: SyncError.self) {
            try await device.todos().pull(queryID: "all")
        }
        let codes: [Int: SyncError.Code] = [
            200: .badResponse, 404: .notFound, 429: .tooManyRequests,
        ]
        #expect(error?.code == codes[status] ?? .serverError)
        #expect(error?.statusCode == status)
        Self.expect(try #require(error?.message), words, "the pull of 'Todo'")
    }

    @Test("The error of a remote table describes an unexpected response", arguments: cases)
    func aRemoteTableDescribesTheAnswer(
        status: Int,
        headers: HTTPFields,
        body: String,
        words: [String]
    ) async throws {
        guard status != 429 else { return }
        let transport = ScriptedTransport(otherwise: .response(status, headers, body))
        let todos = SyncClient(endpoint: Device.endpoint, transport: transport).table(Todo.self)
        let error = await #expect(throws: SyncError.self) { try await todos.read() }
        Self.expect(try #require(error?.message), words, "the request to table 'Todo'")
    }

    @Test("Verify reports a server without digests as the cause", arguments: [404, 405, 501])
    func verifyNeedsAServerWithDigests(status: Int) {
        let error = Self.verifyError(TransportResponse(status: status))
        #expect(error.statusCode == status)
        for words in ["has no $digest for 'Todo' (\(status))", "verify needs a Tideline server"] {
            #expect(error.message.contains(words), "\(error.message)")
        }
        #expect(!error.message.contains("rejected"))
    }

    @Test("The error for another response to verify names the verification")
    func otherAnswersToVerifyNameIt() {
        let rejected = TransportResponse(status: 403, body: Array(#"{"error":"Not yours."}"#.utf8))
        let message = Self.verifyError(rejected).message
        #expect(message.contains("rejected the verification of 'Todo' (403): Not yours."))
        let failed = Self.verifyError(TransportResponse(status: 503)).message
        #expect(failed.contains("answered the verification of 'Todo' with status 503"))
    }

    private static func verifyError(_ response: TransportResponse) -> SyncError {
        SyncError.verifyFailed(
            .rejected(status: response.status),
            table: "Todo",
            answer: AnswerOutline(response),
            server: "http://localhost"
        )
    }

    private static func expect(_ message: String, _ words: [String], _ what: String) {
        for word in words + ["http://localhost answered \(what)"] {
            #expect(message.contains(word), "\(word) in: \(message)")
        }
        #expect(!message.contains("reached"))
        #expect(!message.contains("secret"))
        #expect(!message.contains("private"))
    }

    @Test("A redirect is neither followed nor accepted as a response")
    func redirectsAreNotFollowed() async throws {
        let transport = ScriptedTransport(
            otherwise: .status(307, ["Location": "http://evil.example/tables/Todo"])
        )
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        _ = try await device.push()
        #expect(transport.sent.allSatisfy { $0.target == "/tables/Todo" })
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("A push or a pull without a response reports a network failure")
    func aMissingAnswerIsReportedAsSuch() async throws {
        let device = try await Device(ScriptedTransport(otherwise: .lost))
        try await device.todos().insert(Todo(id: "a"))
        let error = try #require(try await device.push())
        #expect(error.description.contains("could not be reached"))
        let pull = await #expect(throws: PushError.self) {
            try await device.todos().pull(queryID: nil)
        }
        #expect(pull?.status == .networkFailure)
    }

    @Test(
        "A 409 that names a reference parks the operation with it",
        arguments: BrokenReference.Reason.allCases
    )
    func aBrokenReferenceIsStored(reason: BrokenReference.Reason) async throws {
        let errors = try await errors(
            409,
            """
            {"title":"Conflict","status":409,"code":"\(reason.rawValue)","column":"listID","table":"List"}
            """
        )
        let expected = BrokenReference(reason: reason, column: "listID", table: "List")
        #expect(errors.map(\.brokenReference) == [expected])
        #expect(errors.map(\.statusCode) == [409])
        #expect(errors.map(\.isConsequence) == [false])
        #expect(errors.allSatisfy { $0.message.contains("'listID'") })
    }

    @Test(
        "A body that does not name a complete reference gives an error without one",
        arguments: [
            (409, #"{"title":"Conflict","status":409,"code":"parentNotFound","table":"List"}"#, 1),
            (409, #"{"title":"Conflict","status":409,"code":"parentNotFound","column":"c"}"#, 1),
            (409, #"{"title":"Conflict","status":409,"code":"x","column":"c","table":"T"}"#, 1),
            (409, #"{"code":"parentNotFound","column":"c","table":"T"}"#, 0),
            (
                400,
                #"{"title":"Bad","status":400,"code":"parentNotFound","column":"c","table":"T"}"#, 1
            ),
        ]
    )
    func otherBodiesNameNoReference(status: Int, body: String, parked: Int) async throws {
        let errors = try await errors(status, body)
        #expect(errors.count == parked)
        #expect(errors.allSatisfy { $0.brokenReference == nil })
    }

    private func errors(_ status: Int, _ body: String) async throws -> [TableOperationError] {
        let headers: HTTPFields = ["Content-Type": "application/json"]
        let transport = ScriptedTransport(otherwise: .response(status, headers, body))
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a"))
        _ = try await device.push()
        return try await device.context.operationErrors()
    }
}

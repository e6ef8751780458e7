// Tokens: the header fields that carry them, the places that never contain them, and their renewal.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct TokenTests {
    private let transport = ScriptedTransport()
    private let signIn = SignIn("anna")

    private func device(
        _ generation: ServerGeneration = .automatic,
        store: any LocalStore = MemoryStore()
    ) async throws -> Device {
        try await Device(
            transport,
            store: store,
            authentication: signIn,
            generation: generation
        )
    }

    @Test(
        "The token is sent in the header field of the server's generation",
        arguments: [ServerGeneration.datasync, .classic]
    )
    func eachGenerationGetsItsHeader(generation: ServerGeneration) async throws {
        let device = try await device(generation)
        transport.add(generation == .classic ? .json(200, "[]") : page([]))
        try await device.todos().pull(queryID: nil)
        let sent = try #require(transport.sent.first)
        #expect(sent.bearer == (generation == .classic ? nil : "Bearer anna-token-1"))
        #expect(sent.zumoAuth == (generation == .classic ? "anna-token-1" : nil))
    }

    @Test("Both token header fields are sent until a response shows the server's generation")
    func anUnknownServerGetsBoth() async throws {
        let device = try await device()
        transport.add(page([]), page([]))
        try await device.todos().pull(queryID: nil)
        try await device.todos().pull(queryID: nil)
        #expect(transport.sent.map(\.bearer) == ["Bearer anna-token-1", "Bearer anna-token-1"])
        #expect(transport.sent.map(\.zumoAuth) == ["anna-token-1", nil])
    }

    @Test("A signed-out client sends no token and does not renew it")
    func aSignedOutClientSendsNoToken() async throws {
        signIn.change(to: nil)
        let device = try await device()
        transport.add(page([]))
        try await device.todos().pull(queryID: nil)
        #expect(transport.sent.map(\.bearer) == [nil])
        #expect(signIn.renewals == [])
    }

    @Test("A rejected token is renewed, and the same request is sent again")
    func aRejectedTokenIsRenewed() async throws {
        let device = try await device(.datasync)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.status(401), .json(201, serverRow("a", 1, text: "mine")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.bearer) == ["Bearer anna-token-1", "Bearer anna-token-2"])
        #expect(transport.sent[0].body == transport.sent[1].body)
        #expect(transport.sent[0].requestID == transport.sent[1].requestID)
        #expect(signIn.renewals == [false, true])
    }

    @Test("A renewed token is used for later requests without asking the app again")
    func aTokenIsRequestedOnce() async throws {
        let device = try await device(.datasync)
        transport.add(.status(401), page([]), page([]))
        try await device.todos().pull(queryID: nil)
        try await device.todos().pull(queryID: nil)
        #expect(signIn.renewals == [false, true])
        #expect(transport.sent[2].bearer == "Bearer anna-token-2")
    }

    @Test("A renewed token that is rejected, too, ends the push")
    func aRejectedNewTokenEndsThePush() async throws {
        let device = try await device(.datasync)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.status(401), .status(401))
        #expect(try await device.push()?.status == .unauthorized)
        #expect(try await device.queue() == ["insert a attempted"])
    }

    @Test("Calls that are rejected at the same time share one token renewal")
    func callsShareOneRenewal() async throws {
        let rejected = Mutex(0)
        let signIn = signIn
        let answers = ScriptedTransport(
            otherwise: .run { request in
                guard request.bearer == "Bearer anna-token-1" else { return page([]) }
                rejected.withLock { $0 += 1 }
                // No call is answered before all of them have arrived.
                try await until { rejected.withLock({ $0 }) >= 2 }
                return .status(401)
            }
        )
        let device = try await Device(
            answers,
            authentication: signIn,
            generation: .datasync
        )
        async let first = device.client.table(Todo.self).read()
        async let second = device.client.table(Note.self).read()
        _ = try await (first, second)
        #expect(signIn.renewals.count { $0 } == 1)
        #expect(answers.sent.map(\.bearer).filter { $0 == "Bearer anna-token-2" }.count == 2)
    }

    @Test("If the app cannot provide a token, its error is the cause that ends the push")
    func aMissingTokenEndsThePush() async throws {
        let device = try await device(.datasync)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        signIn.fail()
        let error = try #require(try await device.push())
        #expect(error.status == .networkFailure)
        #expect(error.description.contains("NoToken"))
        #expect(!error.description.contains("secret"))
        #expect(((error.cause as? TransportError)?.cause as? SignIn.NoToken) != nil)
        #expect(transport.sent.isEmpty)
        #expect(await code { try await device.todos().pull(queryID: nil) } == nil)
    }

    @Test("A cancelled call does not end the token renewal that another call needs")
    func aCancelledCallDoesNotEndTheRenewal() async throws {
        let device = try await device(.datasync)
        let begun = Mutex(false)
        let isOver = Mutex(false)
        signIn.onRefresh {
            begun.withLock { $0 = true }
            try? await until { isOver.withLock({ $0 }) }
        }
        transport.add(.status(401), .status(401), page([]))
        let one = Task { try await device.client.table(Todo.self).read() }
        try await until { begun.withLock({ $0 }) }
        let two = Task { try await device.client.table(Note.self).read() }
        try await until { transport.sent.count >= 2 }
        one.cancel()
        await #expect(throws: (any Error).self) { try await one.value }
        isOver.withLock { $0 = true }
        _ = try await two.value
        #expect(signIn.renewals.count { $0 } == 1)
    }

    @Test(
        "A token that is not a valid header field value is rejected and never sent",
        arguments: ["", "Bearer x", "a\r\nX-Other: b", "é"]
    )
    func aTokenThatIsNotAValidHeaderValueIsRejected(token: String) async throws {
        struct Odd: Authentication {
            var accountID: String? { "anna" }
            let text: String
            func token(refreshing: Bool) async throws -> String { text }
        }
        let device = try await Device(transport, authentication: Odd(text: token))
        let error = await #expect(throws: SyncError.self) {
            try await device.todos().pull(queryID: nil)
        }
        #expect(error?.code == .unauthorized)
        #expect(transport.sent.isEmpty)
        if token.count > 1 { #expect(error?.message.contains(token) == false) }
    }

    @Test("A next link to another origin is not followed and gets no token")
    func aTokenIsNeverSentToAnotherOrigin() async throws {
        let device = try await device(.datasync)
        transport.add(page([serverRow("a", 1)], next: "http://localhost.example/tables/Todo?p=2"))
        #expect(await code { try await device.todos().pull(queryID: nil) } == .badResponse)
        #expect(transport.sent.count == 1)
    }

    @Test("Remote tables send the token and renew it")
    func directTablesSendTheToken() async throws {
        let device = try await device(.datasync)
        transport.add(.status(401), .json(200, serverRow("a", 1)))
        let todo = try await device.client.table(Todo.self).read(id: "a")
        #expect(todo?.id == "a")
        #expect(transport.sent.map(\.bearer) == ["Bearer anna-token-1", "Bearer anna-token-2"])
    }

    @Test("The token appears in no file, error or event")
    func noTokenIsInALogErrorOrFile() async throws {
        try await withTemporaryFile { path in
            let device = try await device(.datasync, store: try SQLiteStore(path: path))
            let events = Mutex<[String]>([])
            let stream = device.context.events
            let listening = Task {
                for await event in stream { events.withLock { $0.append("\(event)") } }
            }
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            transport.add(.status(401), .json(403, #"{"error":"No."}"#))
            let error = try #require(try await device.push())
            var texts = ["\(error)", String(reflecting: error)]
            texts += error.errors.map(\.message)
            listening.cancel()
            texts += events.withLock { $0 }
            for text in texts { #expect(!text.contains("-token-")) }
            let folder = URL(filePath: path).deletingLastPathComponent()
            let files = try FileManager.default.contentsOfDirectory(
                at: folder,
                includingPropertiesForKeys: nil
            )
            #expect(!files.isEmpty)
            for file in files {
                let bytes = try Data(contentsOf: file)
                #expect(bytes.range(of: Data("-token-".utf8)) == nil)
            }
        }
    }
}

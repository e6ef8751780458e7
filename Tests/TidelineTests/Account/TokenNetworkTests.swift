// Tokens on a bad network: offline or a required sign-in, calls that never return, and new tokens.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// An authentication whose tokens come from a closure.
final class ScriptedSignIn: Authentication {
    private let account: Mutex<String?>
    private let give: @Sendable (Bool) async throws -> String

    init(_ account: String? = "anna", _ give: @escaping @Sendable (Bool) async throws -> String) {
        self.account = Mutex(account)
        self.give = give
    }

    var accountID: String? { account.withLock { $0 } }

    func signOut() { account.withLock { $0 = nil } }

    func token(refreshing: Bool) async throws -> String { try await give(refreshing) }
}

@Suite(.timeLimit(.minutes(10))) struct TokenNetworkTests {
    /// An error of the app's own.
    private struct RenewalFailed: Error {}

    static let passingErrors: [any Error] = [
        URLError(.timedOut), URLError(.notConnectedToInternet), URLError(.cannotFindHost),
        TransportError(.cannotConnect, "No network.", outcomeIsUnknown: false),
        POSIXError(.ETIMEDOUT), CocoaError(.fileReadUnknown), CancellationError(), RenewalFailed(),
        NSError(domain: "NSURLErrorDomain", code: -1009),
    ]

    @Test(
        "A network error of a token call means offline, and the change is sent later"
    )
    func aFailedTokenMeansOffline() async throws {
        for error in Self.passingErrors {
            let fails = Mutex(true)
            let signIn = ScriptedSignIn { _ in
                if fails.withLock({ $0 }) { throw error }
                return "good"
            }
            let transport = ScriptedTransport()
            let device = try await Device(
                transport,
                authentication: signIn,
                generation: .datasync
            )
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            let failure = try #require(try await device.push())
            #expect(failure.status == .networkFailure, "\(error)")
            #expect((failure.cause as? TransportError)?.code == .noToken)
            #expect(transport.sent.isEmpty)
            #expect(try await device.queue() == ["insert a attempted"])
            fails.withLock { $0 = false }
            transport.add(.json(201, serverRow("a", 1, text: "mine")))
            #expect(try await device.push() == nil)
        }
    }

    @Test("A network error of the token renewal after a 401 means offline, too")
    func aFailedRenewalMeansOffline() async throws {
        let signIn = ScriptedSignIn { refreshing in
            if refreshing { throw URLError(.networkConnectionLost) }
            return "old"
        }
        let transport = ScriptedTransport()
        let device = try await Device(transport, authentication: signIn, generation: .datasync)
        transport.add(.status(401))
        #expect(await code { try await device.todos().pull(queryID: nil) } == .offline)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.status(401))
        #expect(try await device.push()?.status == .networkFailure)
        transport.add(.status(401))
        #expect(
            await code { _ = try await device.client.table(Todo.self).read(id: "a") } == .offline
        )
    }

    @Test("A push ends as unauthorized if the app says that the user has to sign in")
    func aRequiredSignInEndsThePush() async throws {
        for error: any Error in [
            SignInRequired("Your session ended"), SyncError(.unauthorized, "Gone."),
            URLError(.userAuthenticationRequired),
        ] {
            let signIn = ScriptedSignIn { _ in throw error }
            let device = try await Device(ScriptedTransport(), authentication: signIn)
            try await device.todos().insert(Todo(id: "a", text: "mine"))
            let failure = try #require(try await device.push())
            #expect(failure.status == .unauthorized)
            if error is SignInRequired {
                #expect(failure.description.contains("Your session ended."))
            }
        }
    }

    @Test("A request is unauthorized if the app signs out while it renews the token")
    func aSignOutDuringTheRenewalNeedsASignIn() async throws {
        let holder = Mutex<ScriptedSignIn?>(nil)
        let signIn = ScriptedSignIn { _ in
            holder.withLock { $0 }?.signOut()
            throw RenewalFailed()
        }
        holder.withLock { $0 = signIn }
        let device = try await Device(ScriptedTransport(), authentication: signIn)
        #expect(await code { _ = try await device.client.table(Todo.self).read() } == .unauthorized)
    }

    /// `reacts`: whether the call ends when its task is cancelled.
    @Test(
        "A token call that does not return means offline after its time limit",
        arguments: [true, false]
    )
    func aTokenCallThatNeverReturns(reacts: Bool) async throws {
        let signIn = ScriptedSignIn { _ in
            if reacts {
                try await Task.sleep(for: .seconds(3600))
            } else {
                await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            }
            return "never"
        }
        var limits = SyncLimits()
        limits.tokenTimeMax = .milliseconds(50)
        let device = try await Device(
            ScriptedTransport(),
            limits: limits,
            authentication: signIn,
            generation: .datasync
        )
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        #expect(try await device.push()?.status == .networkFailure)
        #expect(
            await code { try await device.todos().pull(queryID: nil) } == nil,
            "a pull ends with the error of its push"
        )
        // A caller that is cancelled does not wait for the limit.
        limits.tokenTimeMax = .seconds(3600)
        limits.requestTimeMax = .seconds(3600)
        let slow = try await Device(ScriptedTransport(), limits: limits, authentication: signIn)
        let read = Task { try await slow.client.table(Todo.self).read() }
        read.cancel()
        await #expect(throws: (any Error).self) { try await read.value }
    }

    @Test("Automatic sync resumes by itself after token calls that time out")
    func automaticSyncResumes() async throws {
        let calls = Mutex(0)
        let signIn = ScriptedSignIn { _ in
            let call = calls.withLock { calls in
                calls += 1
                return calls
            }
            if call <= 3 { throw URLError(.timedOut) }
            return "good"
        }
        let server = try await makeServer()
        var environment = Waits().environment
        environment.sleep = {
            // Only the retries after a failure end.
            try await Task.sleep(for: $0 <= .seconds(60) ? .milliseconds(1) : .seconds(3600))
        }
        let device = try await Device(
            server.transport,
            authentication: signIn,
            environment: environment
        )
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        var policy = SyncPolicy()
        policy.isLive = false
        policy.interval = nil
        try device.client.startSyncing(policy)
        defer { device.client.stopSyncing() }
        var wasOffline = false
        for await status in device.client.syncStatus {
            if case .blocked(let block) = status { Issue.record("blocked by \(block)") }
            if case .offline = status {
                wasOffline = true
                #expect(device.client.lastSyncError?.code == .offline)
            }
            if status == .idle, wasOffline { break }
        }
        #expect(try await device.context.pendingOperationCount == 0)
        #expect(device.client.lastSyncError == nil)
    }

    @Test("A rejected push reports the server's reason to the app")
    func aPushReportsTheServersReason() async throws {
        let transport = ScriptedTransport(
            otherwise: .json(401, #"{"error":"The token has expired"}"#)
        )
        let device = try await Device(
            transport,
            authentication: SignIn("anna"),
            generation: .datasync,
            environment: {
                var environment = Waits().environment
                environment.sleep = { _ in try await Task.sleep(for: .seconds(3600)) }
                return environment
            }()
        )
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        let failure = try #require(try await device.push())
        #expect(failure.status == .unauthorized)
        #expect(failure.description.contains("The token has expired"))
        #expect(failure.localizedDescription.contains("The token has expired"))
        try device.client.startSyncing()
        defer { device.client.stopSyncing() }
        for await status in device.client.syncStatus where status == .blocked(by: .signIn) { break }
        let reason = try #require(device.client.lastSyncError)
        #expect(reason.code == .unauthorized && reason.statusCode == 401)
        #expect(reason.message.contains("The token has expired"))
    }

    @Test("Pulls and direct tables report the server's reason")
    func readsReportTheServersReason() async throws {
        let transport = ScriptedTransport(
            otherwise: .json(
                401,
                #"{"title":"Unauthorized","status":401,"detail":"The token has expired"}"#
            )
        )
        let device = try await Device(
            transport,
            authentication: SignIn("anna"),
            generation: .datasync
        )
        let pull = await #expect(throws: SyncError.self) {
            try await device.todos().pull(queryID: nil)
        }
        #expect(pull?.message.contains("The token has expired") == true)
        let read = await #expect(throws: SyncError.self) {
            try await device.client.table(Todo.self).read(id: "a")
        }
        #expect(read?.message.contains("The token has expired") == true)
    }

    @Test("A new token of the same account is used at once")
    func aNewTokenIsUsed() async throws {
        let role = Mutex("reader")
        let signIn = ScriptedSignIn { _ in role.withLock { $0 } }
        let transport = ScriptedTransport(otherwise: page([]))
        let device = try await Device(transport, authentication: signIn, generation: .datasync)
        try await device.todos().pull(queryID: nil)
        role.withLock { $0 = "writer" }
        try await device.todos().pull(queryID: nil)
        #expect(transport.sent.map(\.bearer) == ["Bearer reader", "Bearer reader"])
        await device.client.accountChanged()
        try await device.todos().pull(queryID: nil)
        #expect(transport.sent.last?.bearer == "Bearer writer")
    }

    @Test("A token that was fetched while the account changed is not used")
    func aTokenThatWasBeingFetchedIsNotKept() async throws {
        let client = Mutex<SyncClient?>(nil)
        let calls = Mutex(0)
        let signIn = ScriptedSignIn { _ in
            let call = calls.withLock { calls in
                calls += 1
                return calls
            }
            if call == 1 { await client.withLock { $0 }?.accountChanged() }
            return "token-\(call)"
        }
        let transport = ScriptedTransport(otherwise: page([]))
        let device = try await Device(transport, authentication: signIn, generation: .datasync)
        client.withLock { $0 = device.client }
        try await device.todos().pull(queryID: nil)
        #expect(transport.sent.map(\.bearer) == ["Bearer token-2"])
    }
}

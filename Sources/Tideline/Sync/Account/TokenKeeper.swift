// TokenKeeper: stores the current token and renews it.
//
// A renewal runs in its own task, so that the cancellation of one waiting request does not affect
// the others.

import TidelineCore

/// An account with its token; its description never shows the token.
struct Credentials: Sendable, CustomStringConvertible, CustomReflectable {
    let account: String
    let token: String

    var description: String { "credentials" }
    var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// The token of the account that is signed in, which is renewed once for all waiting requests.
actor TokenKeeper {
    private let authentication: any Authentication
    private let calls: OutsideCalls
    /// The time limit for the app's call that returns a token.
    private let timeMax: Duration
    private var kept: Credentials?
    /// The number of times that the app reported a changed token.
    private var changes = 0
    private var isRenewing = false
    private var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
    private var lastWaiter = 0

    init(_ authentication: any Authentication, _ calls: OutsideCalls, timeMax: Duration) {
        self.authentication = authentication
        self.calls = calls
        self.timeMax = timeMax
    }

    /// A string that changes with the claims of the token; nil if no token is cached.
    ///
    /// Two JSON Web Tokens (RFC 7519) with the same rights result in the same string.
    var rights: String? { kept.map { TokenRights.text(of: $0.token) } }

    /// Discards the token, so that the next request gets a new one from the app.
    func forget() {
        kept = nil
        changes += 1
    }

    /// Returns the account that is signed in.
    nonisolated func account() async -> String? {
        let account = await authentication.accountID
        return account?.isEmpty == true ? nil : account
    }

    /// Returns the account that is signed in.
    ///
    /// During a push or pull, returns the account that was signed in when it started.
    nonisolated func view() async -> AccountView {
        if let pin = Self.pin, pin.keeper === self { return pin.view }
        return await account().map(AccountView.signedIn) ?? .signedOut
    }

    /// Runs a push or pull for the account that is signed in now.
    nonisolated func pinned<Result>(_ body: () async throws -> Result) async throws -> Result {
        let pin = Pin(keeper: self, view: await view())
        return try await Self.$pin.withValue(pin) { try await body() }
    }

    private struct Pin: Sendable {
        let keeper: TokenKeeper
        let view: AccountView
    }

    @TaskLocal private static var pin: Pin?

    /// Returns the credentials for a request; nil if no account is signed in.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount` if the push or pull started for another
    ///   account.
    func credentials() async throws -> Credentials? {
        let credentials = try await current()
        if let pin = Self.pin, pin.keeper === self, pin.view.id != credentials?.account {
            throw SyncError.accountChanged()
        }
        return credentials
    }

    /// Returns the credentials of the account that is signed in; nil if there is none.
    private func current() async throws -> Credentials? {
        for _ in 0..<Self.lookupsMax {
            guard let account = await account() else {
                kept = nil
                return nil
            }
            if let kept, kept.account == account { return kept }
            let before = changes
            let token = try await token(refreshing: false)
            // The account or the token may have changed during the call.
            guard await self.account() == account, changes == before else { continue }
            let credentials = Credentials(account: account, token: token)
            kept = credentials
            return credentials
        }
        throw SyncError(
            .unauthorized,
            "The account kept changing while its token was requested. Sync again later."
        )
    }

    private static let lookupsMax = 5

    /// Returns new credentials after the server rejected `rejected`.
    func renewed(after rejected: Credentials) async throws -> Credentials? {
        if let kept, kept.account == rejected.account, kept.token == rejected.token {
            if isRenewing {
                try await renewal()
            } else {
                isRenewing = true
                if Task.hasOwnExecutor {
                    // Another task would run outside of simulated time.
                    try await renew(rejected.account).get()
                } else {
                    Task { await renew(rejected.account) }
                    try await renewal()
                }
            }
        }
        return try await credentials()
    }

    @discardableResult
    private func renew(_ account: String) async -> Result<Void, any Error> {
        var result = Result<Void, any Error>.success(())
        let before = changes
        do {
            let token = try await token(refreshing: true)
            let isSame = await self.account() == account && changes == before
            kept = isSame ? Credentials(account: account, token: token) : nil
        } catch {
            result = .failure(error)
        }
        isRenewing = false
        let waiters = waiting.sorted { $0.key < $1.key }
        waiting = [:]
        for (_, waiter) in waiters { waiter.resume(with: result) }
        return result
    }

    /// Waits for the renewal that is running.
    private func renewal() async throws {
        lastWaiter += 1
        let id = lastWaiter
        // In simulated time, the caller waits until the renewal ends, because another task would
        // run outside that time.
        let mayLeave = !Task.hasOwnExecutor
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait(id, $0) }
        } onCancel: {
            if mayLeave { Task { await self.leave(id) } }
        }
    }

    private func wait(_ id: Int, _ continuation: CheckedContinuation<Void, any Error>) {
        guard !Task.isCancelled else {
            return continuation.resume(throwing: CancellationError())
        }
        waiting[id] = continuation
    }

    private func leave(_ id: Int) {
        waiting.removeValue(forKey: id)?.resume(throwing: CancellationError())
    }

    private func token(refreshing: Bool) async throws -> String {
        let token: String
        do {
            token = try await calls.run(within: timeMax) { [authentication] in
                try await authentication.token(refreshing: refreshing)
            }
        } catch {
            throw await failure(error)
        }
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw SyncError(
                .unauthorized,
                """
                The app's authentication returned an invalid token: it is empty, or has white space or \
                non-ASCII characters. Return the token alone, without 'Bearer'.
                """
            )
        }
        return token
    }

    /// Returns the error of a push or pull that could not get a token.
    private func failure(_ error: any Error) async -> any Error {
        if Task.isCancelled { return CancellationError() }
        if let error = error as? SyncError, error.code == .suspended { return error }
        if SignInRequired.isImplied(by: error) { return SyncError.signInRequired(error) }
        // The app signed the account out during the request for the token.
        if await account() == nil { return SyncError.signInRequired(error) }
        return TransportError.noToken(error)
    }
}

extension SyncError {
    /// The error of an app's authentication that requires a sign-in.
    ///
    /// If the cause is an unknown error, the message contains only its type, because its text may
    /// contain anything.
    fileprivate static func signInRequired(_ cause: any Error) -> SyncError {
        let reason = (cause as? SignInRequired)?.reason.map { String($0.prefix(300)) }
        return SyncError(
            .unauthorized,
            reason.map { "\($0)\($0.hasSuffix(".") ? "" : ".") Sign in, and sync again." }
                ?? """
                The app's authentication returned no token (\(type(of: cause))). Sign in, and sync again.
                """,
            cause: cause
        )
    }
}

extension TransportError {
    fileprivate static func noToken(_ cause: any Error) -> TransportError {
        let reason =
            if let late = cause as? OutsideCalls.TimedOut {
                "returned no token within \(late.limit.components.seconds) s"
            } else {
                "could not get a token (\(type(of: cause)))"
            }
        return TransportError(
            .noToken,
            """
            The app's authentication \(reason), so nothing was sent. It counts as a network failure and \
            is tried again later; throw SignInRequired if the user has to sign in.
            """,
            outcomeIsUnknown: false,
            cause: cause
        )
    }
}

// TokenKeeper: the token of the account that is signed in, renewed once for all calls that wait.
//
// A renewal runs in a task of its own: a call that is cancelled takes it away from no other.

import TidelineCore

/// An account with its token; never shown.
struct Credentials: Sendable, CustomStringConvertible, CustomReflectable {
    let account: String
    let token: String

    var description: String { "credentials" }
    var customMirror: Mirror { Mirror(self, children: [:]) }
}

actor TokenKeeper {
    private let authentication: any Authentication
    private var kept: Credentials?
    private var isRenewing = false
    private var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
    private var lastWaiter = 0

    init(_ authentication: any Authentication) { self.authentication = authentication }

    /// Who is signed in.
    nonisolated func account() async -> String? {
        let account = await authentication.accountID
        return account?.isEmpty == true ? nil : account
    }

    /// Who is signed in; in a push or pull who was when it began.
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

    /// The credentials that a request is sent with; nil while nobody is signed in.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount` in a push or pull of another account.
    func credentials() async throws -> Credentials? {
        let credentials = try await current()
        if let pin = Self.pin, pin.keeper === self, pin.view.id != credentials?.account {
            throw SyncError.accountChanged()
        }
        return credentials
    }

    /// The account that is signed in with its token; nil while nobody is.
    private func current() async throws -> Credentials? {
        for _ in 0..<Self.lookupsMax {
            guard let account = await account() else {
                kept = nil
                return nil
            }
            if let kept, kept.account == account { return kept }
            let token = try await token(refreshing: false)
            // Somebody else may have signed in meanwhile.
            guard await self.account() == account else { continue }
            let credentials = Credentials(account: account, token: token)
            kept = credentials
            return credentials
        }
        throw SyncError(
            .unauthorized,
            "The account changed again and again while its token was asked for. Sync again later."
        )
    }

    private static let lookupsMax = 5

    /// What takes the place of credentials that the server has refused.
    func renewed(after refused: Credentials) async throws -> Credentials? {
        if let kept, kept.account == refused.account, kept.token == refused.token {
            if !isRenewing {
                isRenewing = true
                Task { await renew(refused.account) }
            }
            try await renewal()
        }
        return try await credentials()
    }

    private func renew(_ account: String) async {
        var result = Result<Void, any Error>.success(())
        do {
            let token = try await token(refreshing: true)
            let isSame = await self.account() == account
            kept = isSame ? Credentials(account: account, token: token) : nil
        } catch {
            result = .failure(error)
        }
        isRenewing = false
        let waiters = waiting.values
        waiting = [:]
        for waiter in waiters { waiter.resume(with: result) }
    }

    /// Waits for the renewal that runs.
    private func renewal() async throws {
        lastWaiter += 1
        let id = lastWaiter
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait(id, $0) }
        } onCancel: {
            Task { await self.leave(id) }
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
            token = try await authentication.token(refreshing: refreshing)
        } catch {
            if Task.isCancelled { throw CancellationError() }
            throw SyncError.noToken(error)
        }
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw SyncError(
                .unauthorized,
                """
                The app's authentication gave a token that no header can hold: it is empty, or has \
                white space or characters beyond ASCII. Give the token alone, without 'Bearer'.
                """
            )
        }
        return token
    }
}

extension SyncError {
    /// The app gave no token; only the type of its error is told, which may have anything in it.
    fileprivate static func noToken(_ cause: any Error) -> SyncError {
        SyncError(
            .unauthorized,
            "The app's authentication gave no token (\(type(of: cause))). Sign in, and sync again.",
            cause: cause
        )
    }
}

// TokenKeys: the current keys for tokens, some of which are fetched or reloaded.

import Foundation
import Synchronization
import TidelineCore
package import TidelineFetch
package import TidelineServerCore
import TidelineTokens

/// The schedule of key renewals: at most once a minute, or more often while no keys are known.
package struct KeyRenewal: Sendable {
    /// The time of the last renewal, in microseconds of a steady clock.
    private var last: Int64?
    private static let interval: Int64 = 60_000_000
    private static let intervalWithoutKeys: Int64 = 5_000_000

    package init() {}

    /// Whether a renewal begins now; if so, it is recorded.
    package mutating func begin(at now: Int64, hasKeys: Bool) -> Bool {
        let interval = hasKeys ? Self.interval : Self.intervalWithoutKeys
        if let last, now >= last, now - last < interval { return false }
        last = now
        return true
    }
}

/// The keys of tokens, which change while a server runs.
package final class TokenKeys: Sendable {
    private struct State {
        /// The verifier; nil while the only keys have never been fetched.
        var verifier: TokenVerifier?
        /// The last usable set.
        var fetched: [UInt8]?
        var renewal = KeyRenewal()
        var task: Task<Bool, Never>?
    }

    // The compiler does not count an error type in `throws(…)` as a use of its module.
    package typealias Failure = FetchError
    package typealias Fetch = @Sendable (_ address: String) async throws(Failure) -> [UInt8]

    private let authentication: ServerConfiguration.Authentication
    private let fetch: Fetch
    private let steady: @Sendable () -> Int64
    private let log: ServerLog
    private let state: Mutex<State>

    /// Reads the files; keys are fetched by ``renew()``.
    ///
    /// - Parameters:
    ///   - authentication: The sources of the keys.
    ///   - former: The previous keys, whose fetched set is used if it is from the same source.
    ///   - fetch: Fetches a document.
    ///   - steady: A monotonic clock, in microseconds.
    ///   - log: Receives a line when keys cannot be renewed.
    /// - Throws: ``ConfigurationError``, each error with its configuration key.
    package init(
        _ authentication: ServerConfiguration.Authentication,
        after former: TokenKeys? = nil,
        fetch: @escaping Fetch = { (address) throws(FetchError) in
            try await BoundedFetch().get(address)
        },
        steady: @escaping @Sendable () -> Int64 = ServerEnvironment.live.steady,
        log: ServerLog
    ) throws(ConfigurationError) {
        self.authentication = authentication
        self.fetch = fetch
        self.steady = steady
        self.log = log
        var state = State()
        if let former, former.authentication.keyAddress == authentication.keyAddress {
            state.fetched = former.state.withLock { $0.fetched }
        }
        state.verifier = try authentication.makeVerifier(fetched: state.fetched)
        self.state = Mutex(state)
    }

    /// Whether the keys have to be renewed while the server runs.
    private var areRenewed: Bool {
        authentication.keyAddress != nil || authentication.jwksFile != nil
    }

    /// Creates an authenticator that checks tokens with the current keys.
    package func makeAuthenticator() -> Authenticator {
        let leeway = Int64(authentication.leewaySeconds) * 1_000_000
        var renew: Authenticator.Renew?
        if areRenewed { renew = { await self.renew() } }
        return Authenticator(renew: renew) { (token, now) throws(TokenRejection) in
            guard let verifier = self.state.withLock({ $0.verifier }) else {
                throw TokenRejection(
                    "The token keys cannot be fetched now. Retry shortly.",
                    cause: .noKeys
                )
            }
            return try verifier.checked(token, now: now, leeway: leeway)
        }
    }

    /// Fetches the keys and reads the files again, unless that was done less than a minute ago.
    ///
    /// Concurrent callers wait for the same fetch. If it fails, the keys are not changed.
    ///
    /// - Returns: Whether new keys are in use.
    func renew() async -> Bool {
        let now = steady()
        let task = state.withLock { state -> Task<Bool, Never>? in
            if let task = state.task { return task }
            guard state.renewal.begin(at: now, hasKeys: state.verifier != nil) else { return nil }
            let task = Task { await self.load() }
            state.task = task
            return task
        }
        return await task?.value ?? false
    }

    private func load() async -> Bool {
        var fetched = state.withLock { $0.fetched }
        var isTaken = false
        do {
            if let address = authentication.keyAddress { fetched = try await keys(at: address) }
            let verifier = try authentication.makeVerifier(fetched: fetched)
            state.withLock { state in
                state.verifier = verifier
                state.fetched = fetched
            }
            isTaken = verifier != nil
            log.write(.info, "the token keys were renewed")
        } catch {
            log.write(
                .warning,
                "the token keys cannot be renewed; the current keys stay valid",
                [
                    "from": authentication.keyAddress?.text ?? authentication.jwksFile ?? "",
                    "cause": "\(error)",
                ]
            )
        }
        state.withLock { $0.task = nil }
        return isTaken
    }

    // MARK: - Documents

    private func keys(at address: KeyAddress) async throws -> [UInt8] {
        switch address {
        case .keys(let url):
            let document = try await fetch(url)
            // The address of a discovery document, given instead of that of the keys.
            guard let found = Self.members(document), found["keys"] == nil,
                found["jwks_uri"] != nil
            else { return document }
            return try await keys(of: found)
        case .issuer(let issuer):
            let base = issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer
            let document = try await fetch(base + "/.well-known/openid-configuration")
            guard let found = Self.members(document) else {
                throw FetchError("the issuer's openid-configuration is not a JSON object")
            }
            guard let named = found["issuer"] as? String, named.utf8.elementsEqual(issuer.utf8)
            else { throw FetchError("the openid-configuration belongs to another issuer") }
            return try await keys(of: found)
        }
    }

    private func keys(of discovery: [String: Any]) async throws -> [UInt8] {
        guard let url = discovery["jwks_uri"] as? String else {
            throw FetchError("the openid-configuration has no jwks_uri")
        }
        if let mistake = BoundedFetch.mistake(in: url) {
            throw FetchError("jwks_uri of the openid-configuration: \(mistake) is expected")
        }
        return try await fetch(url)
    }

    private static func members(_ document: [UInt8]) -> [String: Any]? {
        (try? JSONSerialization.jsonObject(with: Data(document))) as? [String: Any]
    }
}

/// The address that token keys are fetched from.
enum KeyAddress: Hashable, Sendable {
    /// A JWK Set.
    case keys(String)
    /// An issuer whose openid-configuration names the JWK Set.
    case issuer(String)

    var text: String {
        switch self {
        case .keys(let url): url
        case .issuer(let url): url
        }
    }
}

extension ServerConfiguration.Authentication {
    /// The address from `jwksURL`, or an issuer's address if no file has keys; nil if all keys are in files.
    var keyAddress: KeyAddress? {
        if let jwksURL { return .keys(jwksURL) }
        guard secretFile == nil, keyFile == nil, jwksFile == nil, let issuer,
            BoundedFetch.mistake(in: issuer) == nil
        else { return nil }
        return .issuer(issuer)
    }
}

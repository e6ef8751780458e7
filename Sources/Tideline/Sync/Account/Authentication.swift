// Authentication: the account that is signed in, and its token for the server.

import Foundation

/// The source of a client's account and token.
///
/// ```swift
/// actor SignIn: Authentication {
///     var session: Session?
///     var accountID: String? { session?.userID }
///
///     func token(refreshing: Bool) async throws -> String {
///         if refreshing { session = try await renew(session) }
///         guard let session else { throw SignInRequired() }
///         return session.token
///     }
/// }
/// let client = SyncClient(endpoint: url, authentication: SignIn())
/// ```
///
/// Tokens are sent only to the origin of the endpoint, and never written to a file, message or event.
public protocol Authentication: Sendable {
    /// The account that is signed in; nil while none is.
    ///
    /// It is always the same string for the same person, because it is stored with operations and with the
    /// cursors of pulls. It has to change together with the token.
    var accountID: String? { get async }

    /// Returns the token of the account, as the server expects it, without `Bearer`.
    ///
    /// Throw ``SignInRequired`` if the user has to sign in. Every other error, and a call that takes longer
    /// than ``SyncLimits/tokenTimeMax``, counts as a network failure, because a token is usually renewed over
    /// the network: the push or pull ends as offline, and automatic sync retries with backoff.
    ///
    /// - Parameter refreshing: Whether the server has rejected the last token, so that it must be renewed. All
    ///   waiting requests share one call and its token.
    /// - Returns: The token alone.
    /// - Throws: ``SignInRequired``, or the reason why no token is available now. It is the `cause`
    ///   of the error that the push or pull ends with.
    func token(refreshing: Bool) async throws -> String
}

/// The error of an ``Authentication`` that cannot return a token until the user signs in.
///
/// For example, the session has expired, or the account was removed.
///
/// ```swift
/// func token(refreshing: Bool) async throws -> String {
///     guard let session = try await renewedSession() else { throw SignInRequired("Your session ended.") }
///     return session.token
/// }
/// ```
public struct SignInRequired: Error, Sendable, Hashable {
    /// The reason, as text for the user; it becomes part of the error's message.
    public var reason: String?

    /// Creates the error.
    public init(_ reason: String? = nil) { self.reason = reason }

    /// Returns whether an error of an app's authentication means that the user has to sign in.
    static func isImplied(by error: any Error) -> Bool {
        switch error {
        case is SignInRequired: true
        case let error as SyncError: error.code == .unauthorized
        case let error as URLError: error.code == .userAuthenticationRequired
        default: false
        }
    }
}

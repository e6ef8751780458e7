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
/// Tokens are sent to the origin of the endpoint only, and written into no file, message or event.
public protocol Authentication: Sendable {
    /// The account that is signed in; nil while none is.
    ///
    /// Always the same text for the same person: operations and the cursors of pulls belong to it, and
    /// it is stored with them. It has to change together with the token.
    var accountID: String? { get async }

    /// Returns the token of the account, as the server expects it, without `Bearer`.
    ///
    /// Throw ``SignInRequired`` if the user has to sign in. Every other error counts as a network failure,
    /// because a token is usually renewed over the network: the push or pull ends as offline, and automatic
    /// sync retries with backoff. The same holds for a call that takes longer than ``SyncLimits/tokenTimeMax``.
    ///
    /// - Parameter refreshing: Whether the server has rejected the last token, so that it must be renewed. This
    ///   is called once for all waiting requests, which then continue with the new token.
    /// - Returns: The token alone.
    /// - Throws: ``SignInRequired``, or the reason why no token is available now. It is the `cause`
    ///   of the error that the push or pull ends with.
    func token(refreshing: Bool) async throws -> String
}

/// The error of an ``Authentication`` if the user has to sign in before it can return a token: for an expired
/// session, a revoked grant, or an account that was removed.
///
/// ```swift
/// func token(refreshing: Bool) async throws -> String {
///     guard let session = try await renewedSession() else { throw SignInRequired("Your session ended.") }
///     return session.token
/// }
/// ```
public struct SignInRequired: Error, Sendable, Hashable {
    /// The reason, in words for the user; it becomes part of the error's message.
    public var reason: String?

    /// Makes the error.
    public init(_ reason: String? = nil) { self.reason = reason }

    /// Returns whether an error of an app's authentication means that the user has to sign in.
    static func isMeant(by error: any Error) -> Bool {
        switch error {
        case is SignInRequired: true
        case let error as SyncError: error.code == .unauthorized
        case let error as URLError: error.code == .userAuthenticationRequired
        default: false
        }
    }
}

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
/// Tokens are sent only to the origin of the endpoint, and never appear in a file, message or
/// event.
public protocol Authentication: Sendable {
    /// The account that is signed in; nil if there is none.
    ///
    /// Always return the same string for the same person, because it is stored with operations and
    /// with the cursors of pulls. The account has to change together with the token.
    var accountID: String? { get async }

    /// Returns the token of the account, as the server expects it, without `Bearer`.
    ///
    /// Throw ``SignInRequired`` if the user has to sign in. The client treats any other error, and
    /// a call that takes longer than ``SyncLimits/tokenTimeMax``, as a network failure, because a
    /// token is usually renewed over the network. The push or pull then ends as offline, and
    /// automatic sync retries with backoff.
    ///
    /// - Parameter refreshing: Whether the server has rejected the last token, so that it must be
    ///   renewed. All waiting requests share one call and its token.
    /// - Returns: The token alone.
    /// - Throws: ``SignInRequired``, or the reason why no token is available now. It becomes the
    ///   `cause` of the error that the push or pull throws.
    func token(refreshing: Bool) async throws -> String
}

/// An error that an ``Authentication`` throws if it has no token until the user signs in.
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
    /// The reason, as text for the user, which becomes part of the error's message.
    public var reason: String?

    /// Creates the error.
    public init(_ reason: String? = nil) { self.reason = reason }

    /// Returns whether an error thrown by an app's authentication means that the user has to sign
    /// in.
    static func isImplied(by error: any Error) -> Bool {
        switch error {
        case is SignInRequired: true
        case let error as SyncError: error.code == .unauthorized
        case let error as URLError: error.code == .userAuthenticationRequired
        default: false
        }
    }
}

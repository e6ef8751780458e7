// Authentication: who is signed in, and the token that tells the server so.

import Foundation

/// Tells a client who is signed in.
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
/// Tokens go to the origin of the endpoint only, and into no file, message or event.
public protocol Authentication: Sendable {
    /// The account that is signed in; nil while nobody is.
    ///
    /// The same text for the same person at all times: operations and the positions of pulls belong
    /// to it, and it is stored with them. It has to change together with the token.
    var accountID: String? { get async }

    /// The token of the account, as the server wants it, without `Bearer`.
    ///
    /// Throw ``SignInRequired`` if the user has to sign in. Every other error counts as a network failure,
    /// because a token is usually renewed over the network: the push or pull ends as offline, and automatic
    /// sync tries again with backoff. So does a call that takes longer than ``SyncLimits/tokenTimeMax``.
    ///
    /// - Parameter refreshing: The server has rejected the token that was given last: renew it. It is
    ///   asked once for all calls that wait, which then go on with the new token.
    /// - Returns: The token alone.
    /// - Throws: ``SignInRequired``, or the reason why a token cannot be had at this moment. It is the `cause`
    ///   of the error that the push or pull ends with.
    func token(refreshing: Bool) async throws -> String
}

/// The user has to sign in before a token can be had: the error of an ``Authentication`` for an expired
/// session, a revoked grant, or an account that was removed.
///
/// ```swift
/// func token(refreshing: Bool) async throws -> String {
///     guard let session = try await renewedSession() else { throw SignInRequired("Your session ended.") }
///     return session.token
/// }
/// ```
public struct SignInRequired: Error, Sendable, Hashable {
    /// Why, in words for the user; it becomes part of the error's message.
    public var reason: String?

    /// Makes the error.
    public init(_ reason: String? = nil) { self.reason = reason }

    /// Whether an error of an app's authentication means that the user has to sign in.
    static func isMeant(by error: any Error) -> Bool {
        switch error {
        case is SignInRequired: true
        case let error as SyncError: error.code == .unauthorized
        case let error as URLError: error.code == .userAuthenticationRequired
        default: false
        }
    }
}

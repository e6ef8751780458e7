// Authentication: who is signed in, and the token that tells the server so.

/// Tells a client who is signed in.
///
/// ```swift
/// actor SignIn: Authentication {
///     var session: Session?
///     var accountID: String? { session?.userID }
///
///     func token(refreshing: Bool) async throws -> String {
///         if refreshing { session = try await renew(session) }
///         guard let session else { throw SignedOut() }
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
    /// - Parameter refreshing: The server has refused the token that was given last: renew it. It is
    ///   asked once for all calls that wait, which then go on with the new token.
    /// - Returns: The token alone.
    /// - Throws: What the push or pull ends with, as the `cause` of an error `unauthorized`.
    func token(refreshing: Bool) async throws -> String
}

// OperatorGate: decides who may use the dashboard, and with which powers. Pure; no other code decides this.
//
//     authentication   listens on     the dashboard's routes are for
//     none             loopback       all requests from this machine, as any caller: permissions
//                                     apply; requests through a proxy never count as local
//     none             elsewhere      no caller
//     configured       anywhere       the users of authentication.operators, past owners and
//                                     permissions

import TidelineCore

/// The access rules of the dashboard.
package struct OperatorGate: Sendable {
    /// The rights that the dashboard grants.
    package enum Mode: String, Hashable, Sendable, CaseIterable {
        case readWrite
        case readOnly
        case off
    }

    /// The rights of an allowed call.
    package enum Pass: Sendable {
        /// The caller's own rights.
        case caller
        /// The rights of an operator.
        case `operator`(User)
    }

    package var mode: Mode
    package var hasAuthentication: Bool
    /// Whether only this machine can reach the server.
    package var isLoopback: Bool
    /// The address that the server listens on.
    package var host: String
    /// The users with access; none if there is no list.
    package var operators: Operators

    package init(
        mode: Mode = .readWrite,
        hasAuthentication: Bool,
        isLoopback: Bool,
        host: String,
        operators: Operators = Operators()
    ) {
        self.mode = mode
        self.hasAuthentication = hasAuthentication
        self.isLoopback = isLoopback
        self.host = host
        self.operators = operators
    }

    /// Checks that the files of the page may be served; they contain no data of the server.
    func checkPage(_ request: ServerRequest) throws(ServerError) {
        if mode == .off { throw ServerError.noSuchPath }
        if hasAuthentication { return }
        guard isLoopback, request.isLocal else { throw ServerError.dashboardIsLocal }
        guard let name = request.headers["Host"], Self.isOfThisMachine(name, or: host) else {
            throw ServerError.otherHost
        }
    }

    /// Allows a call, or throws the reason; calls `user` only if authentication is configured.
    func pass(
        _ request: ServerRequest,
        user: () async throws -> User?
    ) async throws -> Pass {
        try checkPage(request)
        try Self.checkSite(request.headers)
        if mode == .readOnly, request.method != "GET" { throw ServerError.dashboardIsReadOnly }
        guard hasAuthentication else { return .caller }
        guard var user = try await user() else { throw ServerError.notSignedIn }
        guard operators.contains(user) else { throw ServerError.notAnOperator }
        user.isOperator = true
        return .operator(user)
    }

    /// Rejects requests from pages of other sites, even if `cors.origins` allows their origin.
    private static func checkSite(_ headers: HTTPFields) throws(ServerError) {
        if let site = headers["Sec-Fetch-Site"], site != "same-origin", site != "none" {
            throw ServerError.otherSite
        }
        guard let origin = headers["Origin"] else { return }
        guard let host = headers["Host"], let end = origin.firstRange(of: "://")?.upperBound,
            origin[end...].lowercased() == host.lowercased()
        else { throw ServerError.otherSite }
    }

    /// Whether a Host field names this machine.
    ///
    /// Without this check, a page of another site could resolve its own name to this machine (DNS rebinding).
    static func isOfThisMachine(_ field: String, or host: String? = nil) -> Bool {
        var name = field[...]
        if let colon = name.lastIndex(of: ":"), !name[colon...].contains("]") {
            name = name[..<colon]
        }
        if name.hasPrefix("["), name.hasSuffix("]") { name = name.dropFirst().dropLast() }
        let lowered = name.lowercased()
        return lowered == "localhost" || lowered == "::1" || isLoopbackNumber(lowered)
            || !lowered.isEmpty && lowered == host?.lowercased()
    }

    /// Whether a name is an address of the form `127.a.b.c`.
    private static func isLoopbackNumber(_ name: String) -> Bool {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}

extension ServerError {
    static let dashboardIsLocal = ServerError(
        403,
        "Without authentication, the dashboard is served only if the server listens on a loopback "
            + "address and the request comes from that machine."
    )

    static let otherHost = ServerError(
        403,
        "The Host field names another machine. Open the dashboard at the address that the server "
            + "listens on, or at localhost."
    )

    static let otherSite = ServerError(
        403,
        "The dashboard accepts no requests from other web pages."
    )

    static let dashboardIsReadOnly = ServerError(
        403,
        "The dashboard is read-only (dashboard.mode)."
    )
}

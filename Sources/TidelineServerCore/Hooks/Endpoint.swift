// Endpoint: a handler of an app's own server under `/api`.

import TidelineCore

/// A route of an app under `/api`.
///
/// ```swift
/// Endpoint("POST", "/api/hello") { call in
///     ServerResponse(status: 200, body: Array("Hello, \(call.user?.id ?? "stranger")".utf8))
/// }
/// ```
public struct Endpoint: Sendable {
    /// The method, in upper case.
    public let method: String
    /// The path: `/api/` followed by names, without parameters.
    public let path: String
    /// The callers who may use the endpoint.
    ///
    /// Nil means `authenticated` if authentication is configured, and every caller otherwise.
    public let access: TablePermissions.Access?
    let handler: @Sendable (EndpointCall) async throws -> ServerResponse

    /// Creates an endpoint.
    public init(
        _ method: String,
        _ path: String,
        access: TablePermissions.Access? = nil,
        handler: @escaping @Sendable (EndpointCall) async throws -> ServerResponse
    ) {
        self.method = method
        self.path = path
        self.access = access
        self.handler = handler
    }

    /// The reason why the endpoint cannot be served, as the end of a sentence; nil if it can be served.
    package var fault: String? {
        if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(method) {
            return "its method must be GET, POST, PUT, PATCH or DELETE"
        }
        guard case .endpoint(let name)? = try? Route(path: path), name == path.lowercased(),
            path.utf8.allSatisfy(Self.isPathByte)
        else { return "its path must have the form /api/name" }
        return nil
    }
}

extension Endpoint {
    private static func isPathByte(_ byte: UInt8) -> Bool {
        switch ASCII.lower(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "/"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}

/// A call of an endpoint.
public struct EndpointCall: Sendable {
    /// The request.
    public let request: ServerRequest
    /// The user who sent the request; nil for a caller without a token.
    public let user: User?
    let perform: @Sendable (ServerRequest) async -> ServerResponse

    /// Sends a request to the server as this caller, with the caller's rights and all hooks.
    ///
    /// ```swift
    /// let answer = await call.send(
    ///     ServerRequest(method: "GET", path: "/tables/TodoItem", query: "$top=1")
    /// )
    /// ```
    public func send(_ request: ServerRequest) async -> ServerResponse {
        var request = request
        request.id = self.request.id
        if !request.body.isEmpty, request.headers["Content-Type"] == nil {
            request.headers.append("Content-Type", "application/json")
        }
        return await perform(request)
    }
}

/// The routes of the endpoints that an embedding app adds.
struct EndpointRoutes {
    let service: TableService

    /// Returns the methods of a path under `/api`; empty if the path has no endpoint.
    func methods(ofEndpoint path: String) -> [String] {
        service.settings.endpoints.filter { $0.path.lowercased() == path }.map(\.method)
    }

    /// Answers a call of an endpoint.
    func answer(
        _ request: ServerRequest,
        user: User?,
        endpoint path: String,
        perform: @escaping @Sendable (ServerRequest) async -> ServerResponse
    ) async throws -> ServerResponse {
        let methods = methods(ofEndpoint: path)
        guard !methods.isEmpty else { throw ServerError.noSuchPath }
        guard
            let endpoint = service.settings.endpoints.first(where: {
                $0.path.lowercased() == path && $0.method == request.method
            }), endpoint.access != .disabled
        else { throw ServerError.methodNotAllowed(HTTPMethods.listed(methods)) }
        let usual: TablePermissions.Access =
            service.settings.authenticator == nil ? .anonymous : .authenticated
        try service.access.require(endpoint.access ?? usual, user)
        let call = EndpointCall(request: request, user: user, perform: perform)
        return try await rejecting { try await endpoint.handler(call) }
    }
}

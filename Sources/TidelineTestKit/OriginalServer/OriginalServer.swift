// OriginalServer: a server in memory that responds like the original Azure Mobile Apps servers,
// including their bugs, so that apps and this client can be tested against it.

public import Foundation
import Synchronization
public import Tideline
import TidelineCore

/// An imitation of an original Azure Mobile Apps server in this process.
///
/// ```swift
/// let server = OriginalServer(.node, tables: [
///     .init("TodoItem", columns: ["text": .string, "complete": .boolean])
/// ])
/// let client = SyncClient(endpoint: server.endpoint, transport: server)
/// ```
public final class OriginalServer: Transport {
    /// The original implementation that a server imitates.
    public enum Flavor: String, Sendable, CaseIterable {
        /// The Node server, `azure-mobile-apps` 4.0.3 on SQLite.
        case node
        /// The .NET server.
        case dotNet
    }

    /// The type of a column.
    public enum ColumnType: Sendable, Hashable {
        /// Text.
        case string
        /// A number.
        case number
        /// A Boolean.
        case boolean
        /// A date and time.
        case dateTime
    }

    /// A table of the server.
    public struct Table: Sendable {
        var name: String
        var columns: [String: ColumnType]
        /// Whether deletes leave a tombstone.
        public var softDelete = true
        /// Whether the server adds columns for unknown members, which is the Node server's default.
        public var dynamicSchema = true
        /// Whether ids are numbers that the server assigns.
        public var autoIncrement = false
        /// The operations that are disabled.
        public var disabled: Set<String> = []

        /// Creates a table with columns.
        public init(_ name: String, columns: [String: ColumnType] = [:]) {
            self.name = name
            self.columns = columns
        }
    }

    /// The endpoint to give to clients; no socket listens there.
    public let endpoint: URL
    let flavor: Flavor
    /// Whether filter functions behave as they do on SQLite, where many of their results are wrong.
    let hasSQLiteFunctions: Bool
    private let now: @Sendable () -> Date
    private let makeID: @Sendable () -> String
    private let tables: Mutex<[String: OriginalTable]>

    /// Creates the server with empty tables.
    ///
    /// - Parameters:
    ///   - flavor: The implementation that the server imitates.
    ///   - tables: The tables.
    ///   - endpoint: The endpoint to give to clients; no socket listens there.
    ///   - hasSQLiteFunctions: Whether the Node server's filter functions behave as they do on
    ///     SQLite.
    ///   - now: The server's wall clock.
    ///   - makeID: Creates an id for a row that is inserted without one.
    public init(
        _ flavor: Flavor,
        tables: [Table],
        endpoint: URL = URL(string: "http://127.0.0.1:8080") ?? URL(filePath: "/"),
        hasSQLiteFunctions: Bool = false,
        now: @escaping @Sendable () -> Date = { Date() },
        makeID: @escaping @Sendable () -> String = { UUID().uuidString.lowercased() }
    ) {
        self.flavor = flavor
        self.endpoint = endpoint
        self.hasSQLiteFunctions = hasSQLiteFunctions
        self.now = now
        self.makeID = makeID
        let pairs = tables.map {
            ($0.name.lowercased(), OriginalTable($0, flavor: flavor, hasSQLiteFunctions))
        }
        self.tables = Mutex(Dictionary(pairs) { first, _ in first })
    }

    /// Responds to a request.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        var answer = answer(OriginalRequest(request))
        answer.headers["x-zumo-server-version"] = flavor == .node ? "node-4.0.3" : "net-1.1.157.1"
        return answer
    }

    private func answer(_ request: OriginalRequest) -> TransportResponse {
        guard request.path.first == "tables", request.path.count >= 2 else {
            return .page(404, "Cannot \(request.method) /\(request.path.joined(separator: "/"))")
        }
        if request.method == "OPTIONS" {
            return TransportResponse(
                status: 200,
                headers: ["Allow": "GET,HEAD,POST,PATCH,DELETE"]
            )
        }
        guard speaks(request) else {
            return rejection(
                400,
                """
                An invalid API version was specified in the request, this request needs to specify \
                a ZUMO-API-VERSION of 2.0.0.
                """
            )
        }
        return tables.withLock { tables in
            let key = request.path[1].lowercased()
            guard var table = tables[key] else { return unknown(request) }
            defer { tables[key] = table }
            return table.answer(request, now: now(), makeID: makeID)
        }
    }

    private func unknown(_ request: OriginalRequest) -> TransportResponse {
        let path = "/" + request.path.joined(separator: "/")
        switch flavor {
        case .node: return .page(404, "Cannot \(request.method) \(path)")
        case .dotNet:
            return .error(404, "No HTTP resource was found that matches '\(path)'.", flavor)
        }
    }

    private func rejection(_ status: Int, _ text: String) -> TransportResponse {
        .error(status, text, flavor)
    }

    /// Returns whether the request has an API version that consists of `2.0.` and digits.
    ///
    /// Node reads the header first, and .NET reads the query first.
    private func speaks(_ request: OriginalRequest) -> Bool {
        let parameter = request.parameters.first { $0.name.lowercased() == "zumo-api-version" }
        let header = request.headers["ZUMO-API-VERSION"]
        let version =
            flavor == .node ? header ?? parameter?.value : parameter?.value ?? header
        return version.map(Self.isSpoken) == true
    }

    /// Returns whether a version is `2.0.` followed by digits.
    private static func isSpoken(_ version: String) -> Bool {
        let last = version.dropFirst("2.0.".count)
        return version.hasPrefix("2.0.") && !last.isEmpty && last.allSatisfy(\.isWholeNumber)
    }
}

/// A parsed request.
struct OriginalRequest {
    var method: String
    /// The decoded path segments.
    var path: [String]
    /// The decoded query parameters, in order.
    var parameters: [(name: String, value: String)] = []
    var headers: HTTPFields
    var body: [UInt8]
    /// The scheme and the host, without the port.
    var origin: String
    /// The scheme, host, port and path.
    var address: String

    init(_ request: TransportRequest) {
        let parts = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
        method = request.method
        path = (parts?.percentEncodedPath ?? "").split(separator: "/").map {
            $0.removingPercentEncoding ?? String($0)
        }
        for part in (parts?.percentEncodedQuery ?? "").split(separator: "&") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                .map { $0.replacing("+", with: " ").removingPercentEncoding ?? String($0) }
            parameters.append((pair[0], pair.count > 1 ? pair[1] : ""))
        }
        headers = request.headers
        body = request.body ?? []
        origin = "\(parts?.scheme ?? "http")://\(parts?.host ?? "")"
        let port = parts?.port.map { ":\($0)" } ?? ""
        address = origin + port + (parts?.percentEncodedPath ?? "")
    }

    subscript(name: String) -> String? { parameters.first { $0.name == name }?.value }

    /// The version in `If-Match`, without quotes and escapes.
    var ifMatch: String? {
        headers["If-Match"].map { tag in
            var text = tag[...]
            if text.hasPrefix("\""), text.hasSuffix("\""), text.count > 1 {
                text = text.dropFirst().dropLast()
            }
            return String(text).replacingOccurrences(of: "\\\"", with: "\"")
        }
    }
}

extension TransportResponse {
    /// Returns an HTML page like those of the web framework.
    static func page(_ status: Int, _ text: String) -> TransportResponse {
        TransportResponse(
            status: status,
            headers: ["Content-Type": "text/html; charset=utf-8"],
            body: Array("<!DOCTYPE html><html><body><pre>\(text)</pre></body></html>".utf8)
        )
    }

    static func error(
        _ status: Int,
        _ text: String,
        _ flavor: OriginalServer.Flavor
    ) -> TransportResponse {
        .json(status, OriginalJSON.text([flavor == .node ? "error" : "message": .string(text)]))
    }

    /// Returns a JSON response with the web framework's weak ETag, which is not the version of a
    /// row.
    static func json(_ status: Int, _ text: String) -> TransportResponse {
        TransportResponse(
            status: status,
            headers: [
                "Content-Type": "application/json; charset=utf-8",
                "ETag": "W/\"\(String(text.utf8.count, radix: 16))-weak\"",
            ],
            body: Array(text.utf8)
        )
    }
}

// ServerProcess: the built `tideline`, serving a database in a workspace on a port that it chose.

import Foundation

final class ServerProcess: Sendable {
    let process: ChildProcess
    let url: URL
    let port: Int
    /// Its arguments, for starting another server.
    private let arguments: [String]
    private let workspace: Workspace

    /// Tables for the tests; each request is logged in one line.
    static let configuration = """
        {
          "tables": {
            "TodoItem": { "columns": { "text": "string", "complete": "boolean" }, "pageSize": 40 },
            "Note": {
              "columns": {
                "text": "string", "done": { "type": "boolean", "nullable": false },
                "rank": "integer", "weight": "number", "due": "dateTime"
              },
              "pageSize": 40
            }
          },
          "limits": { "pageBytes": 33554432 },
          "log": { "requests": "info" }
        }
        """

    private init(_ process: ChildProcess, _ url: URL, _ arguments: [String], _ place: Workspace) {
        self.process = process
        self.url = url
        port = url.port ?? 0
        self.arguments = arguments
        workspace = place
    }

    static func start(
        in workspace: Workspace,
        database: String = "server.db",
        configuration: String = ServerProcess.configuration
    ) async throws -> ServerProcess {
        let file = try workspace.file("tideline.json", configuration)
        return try await start(
            [
                "--config", file, "--database",
                database.hasPrefix("postgres:") ? database : "sqlite:" + workspace.path(database),
            ],
            listen: "127.0.0.1:0",
            in: workspace
        )
    }

    static func start(
        _ arguments: [String],
        listen: String,
        in workspace: Workspace,
        errors: String? = nil
    ) async throws -> ServerProcess {
        let words = ["serve"] + arguments + ["--listen", listen]
        let process = try workspace.start(.tideline, words, errors: errors)
        let url = try await eventually("a server that listens; output: \(process.output)") {
            if let end = process.end { throw TestFailure("the server ended: \(end)") }
            return Self.url(in: process.output)
        }
        return ServerProcess(process, url, arguments, workspace)
    }

    private static func url(in output: String) -> URL? {
        let line = output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().first
        let prefix = "listening on "
        guard let line, line.hasPrefix(prefix) else { return nil }
        return URL(string: String(line.dropFirst(prefix.count)))
    }

    /// Another server on the same database, on a separate port or on the port of this server.
    func restart(samePort: Bool = false) async throws -> ServerProcess {
        try await Self.start(
            arguments,
            listen: "127.0.0.1:\(samePort ? port : 0)",
            in: workspace
        )
    }

    /// Sends SIGTERM, and waits.
    func stop(_ signal: Int32 = SIGTERM) async throws -> ChildProcess.End {
        process.send(signal)
        return try await process.wait(within: .seconds(10))
    }

    /// The requests that it logged.
    var requests: [LoggedRequest] {
        process.error.split(separator: "\n").compactMap(LoggedRequest.init)
    }
}

/// A line of the request log.
struct LoggedRequest: Hashable, Sendable {
    var method: String
    var path: String
    var status: Int

    /// nil for any other line.
    init?(_ line: Substring) {
        func value(_ name: String) -> String? {
            guard let start = line.range(of: " \(name)=")?.upperBound else { return nil }
            return String(line[start...].prefix { $0 != " " })
                .trimmingCharacters(in: CharacterSet(charactersIn: "\""))
        }
        guard line.contains(" request "), let method = value("method"), let path = value("path"),
            let status = value("status").flatMap({ Int($0) })
        else { return nil }
        self.method = method
        self.path = path
        self.status = status
    }
}

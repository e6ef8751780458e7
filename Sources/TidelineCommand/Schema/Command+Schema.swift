// Command+Schema: 'tideline schema' and 'tideline models', which keep an app and its server in step.

import Foundation
import Tideline
import TidelineCore
import TidelineServer
import TidelineServerCore

/// The source that a schema document is read from.
enum SchemaSource: Sendable {
    /// A running server, which answers with the tables that the user may read.
    case server(URL, token: String?, authority: String?)
    /// A configuration.
    case configuration(ServerConfiguration)
    /// A file with a document.
    case file(String)

    /// Reads the document.
    func document() async throws -> SchemaDocument {
        switch self {
        case .configuration(let configuration):
            let tables = configuration.tables.map { table in
                var table = table
                table.completeOwner()
                return table
            }
            let read = tables.filter { $0.permissions.read != .disabled }
            return SchemaDocument(read.map { SchemaDocument.Table($0) })
        case .file(let path):
            guard let data = FileManager.default.contents(atPath: path) else {
                throw UsageError("The file '\(path)' cannot be read.")
            }
            return try Self.parsed(Array(data), from: "'\(path)'")
        case .server(let url, let token, let authority):
            let transport = CurlTransport(certificateAuthorities: authority)
            let asker = Asker(server: url, token: token, transport: transport)
            let answer: TransportResponse
            do {
                answer = try await asker.get("/$schema", signed: true)
            } catch {
                throw Failure(task: "The server's schema is not known", cause: error)
            }
            guard answer.status == 200 else {
                let cause = UsageError(
                    "\(url) responds with \(answer.status)." + asker.said(answer)
                )
                throw Failure(task: "The server's schema is not known", cause: cause)
            }
            return try Self.parsed(Array(answer.body), from: "\(url)/$schema")
        }
    }

    private static func parsed(_ bytes: [UInt8], from place: String) throws -> SchemaDocument {
        do {
            return try SchemaDocument(bytes)
        } catch let error as JSONError {
            let cause = UsageError("\(place): \(error).")
            throw Failure(task: "No schema document was read", cause: cause)
        }
    }
}

/// A task of 'tideline schema'.
enum SchemaTask: Sendable {
    /// Prints the document.
    case show(SchemaSource)
    /// Prints the tables of an app's document as a configuration.
    case configuration(ofModels: SchemaSource)
    /// Compares an app's document with a server.
    case check(SchemaSource, with: SchemaSource, isJSON: Bool)
}

extension Command {
    static func schema(_ task: SchemaTask) async throws {
        switch task {
        case .show(let source): try printExactly(try await source.document().json)
        case .configuration(let models):
            try printExactly(try await models.document().configuration)
        case .check(let app, let server, let isJSON):
            let differences = try await app.document()
                .differences(from: try await server.document())
            if isJSON {
                let texts = differences.map(\.description)
                let report = Report(["isSame": .flag(texts.isEmpty), "differences": .texts(texts)])
                try printLine(report.json)
            } else if differences.isEmpty {
                try printLine("The app matches the server.")
            } else {
                for difference in differences { try printLine(difference.description) }
            }
            if !differences.isEmpty { exit(1) }
        }
    }

    static func models(_ source: SchemaSource) async throws {
        try printExactly(SwiftModels(try await source.document()).text)
    }

    /// Prints text that ends with a line break.
    private static func printExactly(_ text: String) throws {
        try printLine(String(text.dropLast()))
    }
}

extension Arguments {
    private static let sourceOptions = [
        "--server", "--token", "--authority", "--config", "--schema",
    ]

    static func schema(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "schema",
            words,
            options: sourceOptions + ["--from-models", "--check"],
            flags: ["--json"]
        )
        guard !words.wantsHelp else { return .help }
        if let file = words.options["--from-models"] {
            guard words.options.count == 1, words.flags.isEmpty else {
                throw UsageError("--from-models cannot be combined with other options.")
            }
            return .schema(.configuration(ofModels: .file(file)))
        }
        if let file = words.options["--check"] {
            return .schema(
                .check(.file(file), with: try source(words), isJSON: words.isJSON)
            )
        }
        return .schema(.show(try source(words)))
    }

    static func models(_ words: [String]) throws -> Arguments {
        let words = try Words(
            of: "models",
            words,
            options: sourceOptions,
            flags: ["--swift"]
        )
        guard !words.wantsHelp else { return .help }
        guard words.flags.contains("--swift") else {
            throw UsageError("--swift is missing: the language of the models.")
        }
        return .models(try source(words))
    }

    private static func source(_ words: Words) throws -> SchemaSource {
        let given = ["--server", "--config", "--schema"].filter { words.options[$0] != nil }
        guard given.count == 1 else {
            throw UsageError("One of --server, --config and --schema is expected.")
        }
        if given != ["--server"],
            let wrong = ["--token", "--authority"].first(where: { words.options[$0] != nil })
        {
            throw UsageError("\(wrong) needs --server.")
        }
        if let file = words.options["--schema"] { return .file(file) }
        if words.options["--config"] != nil { return .configuration(try configuration(words)) }
        guard let text = words.options["--server"], let url = URL(string: text),
            ["http", "https"].contains(url.scheme), url.host != nil
        else {
            throw UsageError("--server: an address such as https://todo.example is expected.")
        }
        return .server(url, token: try token(words), authority: try authority(words))
    }
}

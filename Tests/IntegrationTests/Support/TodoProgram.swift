// TodoProgram: the program `todo` as a user sees it: arguments in, lines and an exit code out.

import Foundation
import Testing

/// Runs `todo` on a store in the workspace.
struct TodoProgram: Sendable {
    let workspace: Workspace
    let store: String
    var server = "http://127.0.0.1:9"

    init(_ workspace: Workspace, _ store: String, _ server: URL? = nil) {
        self.workspace = workspace
        self.store = workspace.path(store)
        if let server { self.server = server.absoluteString }
    }

    /// Runs it, expects success, and returns its output.
    @discardableResult
    func callAsFunction(
        _ words: String...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        let finished = try await run(words)
        #expect(finished.code == 0, sourceLocation: sourceLocation)
        #expect(finished.error == "", sourceLocation: sourceLocation)
        return finished.output
    }

    /// Runs it, expects failure without output, and returns the error message.
    func fails(
        _ words: String...,
        code: Int32,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        let finished = try await run(words)
        #expect(finished.code == code, sourceLocation: sourceLocation)
        #expect(finished.output == "", sourceLocation: sourceLocation)
        #expect(finished.error.hasPrefix("todo: "), sourceLocation: sourceLocation)
        return finished.error
    }

    /// Runs it, however it ends.
    func run(
        _ words: [String],
        environment: [String: String] = [:]
    ) async throws -> Finished {
        try await workspace.run(
            .todo,
            ["--store", store, "--server", server] + words,
            environment: environment
        )
    }

    /// Adds an item and returns its id as printed.
    func add(_ text: String) async throws -> String {
        let words = try await self("add", text).split(separator: " ")
        try #require(words.count > 1)
        return String(words[1])
    }
}

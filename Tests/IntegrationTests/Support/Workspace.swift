// Workspace: a temporary directory and the processes started in it, which are removed and stopped at the end.

import Foundation
import Synchronization
import Testing
import TidelineTestKit

struct TestFailure: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}

/// The programs that tests start.
enum Program: String, Sendable {
    case tideline
    case todo
    case demoPage = "demo-page"
    case probe = "SyncProbe"

    /// The build directory, which contains the test bundle.
    private static let directory: String = {
        if let program = try? FileManager.default.destinationOfSymbolicLink(
            atPath: "/proc/self/exe"
        ) {
            let directory = URL(filePath: program).deletingLastPathComponent().path
            if FileManager.default.isExecutableFile(atPath: directory + "/tideline") {
                return directory
            }
        }
        return Bundle.main.bundleURL.deletingLastPathComponent().path
    }()

    var path: String { Self.directory + "/" + rawValue }
}

/// A program that has ended by itself.
struct Finished: Sendable {
    var code: Int32
    var output: String
    var error: String
}

final class Workspace: Sendable {
    let directory: String
    private let children = Mutex<[ChildProcess]>([])

    init() throws {
        let url = FileManager.default.temporaryDirectory
            .appending(path: "tideline-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        directory = url.path
    }

    /// The path of a file in the workspace.
    func path(_ name: String) -> String { directory + "/" + name }

    /// Writes a file and returns its path.
    func file(_ name: String, _ text: String) throws -> String {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
        return path(name)
    }

    func start(
        _ program: Program,
        _ arguments: [String],
        environment: [String: String] = [:],
        errors: String? = nil,
        handing socket: Int32? = nil
    ) throws -> ChildProcess {
        let number = children.withLock { $0.count }
        let inherited = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("TODO_") && !$0.key.lowercased().hasSuffix("_proxy")
        }
        let child = try ChildProcess(
            program.path,
            arguments,
            environment: inherited.merging(environment) { _, own in own },
            files: path("\(number)-\(UUID().uuidString.prefix(8))-\(program.rawValue)"),
            errors: errors,
            handing: socket
        )
        children.withLock { $0.append(child) }
        return child
    }

    /// Runs a program to its end.
    func run(
        _ program: Program,
        _ arguments: [String],
        environment: [String: String] = [:]
    ) async throws -> Finished {
        let child = try start(program, arguments, environment: environment)
        guard case .exit(let code) = try await child.wait(within: .seconds(60)) else {
            throw TestFailure("\(program) \(arguments) was ended by a signal: \(child.error)")
        }
        return Finished(code: code, output: child.output, error: child.error)
    }

    func close() async throws {
        for child in children.withLock({ $0 }) { try await child.destroy() }
        // A store that is being closed removes its files itself, perhaps at this moment.
        try await eventually("the removal of \(directory)") {
            try? FileManager.default.removeItem(atPath: directory)
            return FileManager.default.fileExists(atPath: directory) ? nil : ()
        }
    }
}

func withWorkspace<Result>(_ body: (Workspace) async throws -> Result) async throws -> Result {
    let workspace = try Workspace()
    let result: Result
    do {
        result = try await body(workspace)
    } catch {
        try? await workspace.close()
        throw error
    }
    try await workspace.close()
    return result
}

/// Polls until there is a result; throws if it takes too long.
func eventually<Answer>(
    _ what: @autoclosure () -> String,
    within limit: Duration = .seconds(20),
    _ ask: () async throws -> Answer?
) async throws -> Answer {
    var answer: Answer?
    let isThere = try await becomesTrue(within: limit) {
        answer = try await ask()
        return answer != nil
    }
    guard isThere, let answer else { throw TestFailure("not within \(limit): \(what())") }
    return answer
}

/// Runs blocking code on a separate thread, so that the tests' pool stays free.
func blocking<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
    }
}

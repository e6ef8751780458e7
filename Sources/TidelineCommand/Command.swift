// Command: what `tideline` does, and its exit codes: 0, 1 for what failed, 2 for bad arguments.

import Dispatch
import Foundation
import TidelineServer

enum Command {
    private static let version = "0.1.0"

    static func run(_ words: [String]) async -> Never {
        do {
            switch try Arguments(words) {
            case .help: print(Arguments.usage)
            case .version: print("tideline \(version)")
            case .serve(let configuration): try await serve(configuration)
            case .token(let configuration, let subject, let lifetime):
                try printToken(configuration, subject, lifetime)
            case .backup(let configuration, let file): try backup(configuration, file)
            case .restored(let configuration): try restored(configuration)
            case .migrate(let configuration, let isApplied):
                try migrate(configuration, isApplied: isApplied)
            }
            exit(0)
        } catch let error as UsageError {
            complain(error.message)
            exit(2)
        } catch let error as Failure {
            complain("\(error.task): \(error.cause)")
            exit(1)
        } catch {
            complain("The server did not start: \(error)")
            exit(1)
        }
    }

    private static func complain(_ message: String) {
        try? FileHandle.standardError.write(contentsOf: Data("tideline: \(message)\n".utf8))
    }

    private static func printToken(
        _ configuration: ServerConfiguration,
        _ subject: String,
        _ lifetime: Duration
    ) throws {
        do throws(ConfigurationError) {
            print(try configuration.makeToken(subject: subject, lifetime: lifetime))
        } catch {
            throw UsageError("No token can be made: \(error).")
        }
    }

    private static func serve(_ configuration: ServerConfiguration) async throws {
        // A reader of the output or the log that leaves is no reason to end the server.
        signal(SIGPIPE, SIG_IGN)
        let signals = Signals()
        let server = TidelineServer(configuration: configuration)
        let url = try await server.start()
        try? FileHandle.standardOutput.write(
            contentsOf: Data("listening on \(url.absoluteString)\n".utf8)
        )
        var iterator = signals.stream.makeAsyncIterator()
        _ = await iterator.next()
        signals.exitOnNext()
        await server.stop()
    }
}

// MARK: - The database

extension Command {
    /// What was not done, and why.
    private struct Failure: Error {
        var task: String
        var cause: any Error
    }

    private static func tell(_ line: String) { print(line) }

    private static func naming<Result>(
        _ task: String,
        _ body: () throws -> Result
    ) throws
        -> Result
    {
        do {
            return try body()
        } catch {
            throw Failure(task: task, cause: error)
        }
    }

    private static func backup(_ configuration: ServerConfiguration, _ file: String) throws {
        let bytes = try naming("No backup was made") {
            try ServerDatabase(configuration).backup(to: file)
        }
        tell("backup in \(file), \(bytes) bytes")
    }

    private static func restored(_ configuration: ServerConfiguration) throws {
        let epoch = try naming("The database has no new epoch") {
            try ServerDatabase(configuration).renewEpoch()
        }
        tell("new epoch \(epoch): clients keep their changes and pull everything anew")
    }

    private static func migrate(_ configuration: ServerConfiguration, isApplied: Bool) throws {
        let plan = try naming("The tables were not changed") {
            let database = try ServerDatabase(configuration)
            return isApplied ? try database.migrate() : try database.migrationPlan()
        }
        if !plan.steps.isEmpty { tell(plan.description) }
        if plan.isEmpty {
            tell("Nothing to do: the tables are as declared.")
        } else if isApplied {
            tell("Done.")
        } else {
            tell(
                """
                Nothing was changed yet. Make a backup (tideline backup FILE), stop the server, \
                then do it: tideline migrate --apply
                """
            )
        }
    }
}

/// SIGTERM and SIGINT as a stream; the second one ends the process.
private final class Signals {
    let stream: AsyncStream<Void>
    private let sources: [any DispatchSourceSignal]

    init() {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        self.stream = stream
        sources = [SIGTERM, SIGINT].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.yield() }
            source.activate()
            return source
        }
    }

    func exitOnNext() {
        for source in sources { source.setEventHandler { _exit(1) } }
    }
}

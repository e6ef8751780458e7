// Command: exit codes are 0, 1 for a failure, and 2 for bad arguments.

import Dispatch
import Foundation
import TidelineServer
import TidelineServerCore

/// A runner of the commands of `tideline`.
enum Command {
    static func run(_ words: [String]) async -> Never {
        Output.guardStreams()
        do {
            switch try Arguments(words) {
            case .help: try printLine(Arguments.usage)
            case .helpOf(let command): try printLine(Arguments.usage(of: command))
            case .version: try printLine("tideline \(ServerVersion.text)")
            case .serve(let configuration): try await serve(configuration, words)
            case .check(let configuration, let mistakes, let isJSON):
                try check(configuration, mistakes, isJSON)
            case .certificate(let hosts, let directory, let isJSON):
                try makeCertificate(for: hosts, in: directory, isJSON)
            case .token(let configuration, let subject, let lifetime, let isJSON):
                try printToken(configuration, subject, lifetime, isJSON)
            case .backup(let configuration, let file, let isJSON):
                try backup(configuration, file, isJSON)
            case .restore(let configuration, let file, let isJSON):
                try restore(configuration, file, isJSON)
            case .purgeTombstones(let configuration, let tables, let days, let trusts, let isJSON):
                try purgeTombstones(configuration, tables, days, trustsClock: trusts, isJSON)
            case .inspect(let file, let isJSON): try inspect(file, isJSON)
            case .inspectDatabase(let configuration, let isJSON):
                try inspect(configuration, isJSON)
            case .doctor(let doctor, let isJSON):
                let findings = await doctor.findings()
                try printLine(findings.text(isJSON: isJSON))
                if findings.hasFault { exit(1) }
            case .audit(let configuration, let query, let isJSON):
                try audit(configuration, query, isJSON)
            case .export(let configuration, let user): try export(configuration, user)
            case .forget(let configuration, let user, let isApplied, let isJSON):
                try forget(configuration, user, isApplied: isApplied, isJSON)
            case .renameOwner(let configuration, let user, let name, let isApplied, let isJSON):
                try renameOwner(configuration, user, to: name, isApplied: isApplied, isJSON)
            case .compact(let configuration, let isJSON): try compact(configuration, isJSON)
            case .bench(let bench, let isJSON): try await run(bench, isJSON)
            case .restored(let configuration, let isJSON): try restored(configuration, isJSON)
            case .resetClocks(let configuration, let tables, let isJSON):
                try resetClocks(configuration, tables, isJSON)
            case .copy(let source, let target, let isJSON):
                try copy(from: source, to: target, isJSON)
            case .schema(let task): try await schema(task)
            case .models(let source): try await models(source)
            case .migrate(let configuration, let isApplied, let showsSQL, let isJSON):
                try migrate(configuration, isApplied: isApplied, showsSQL: showsSQL, isJSON)
            }
            exit(0)
        } catch let error as UsageError {
            complain(error.message)
            exit(2)
        } catch let error as ConfigurationFileError {
            complain(error.message)
            exit(2)
        } catch let error as Failure {
            complain("\(error.task): \(error.cause)")
            exit(1)
        } catch let error as ConfigurationError {
            complain("The server did not start: \(error)")
            exit(2)
        } catch {
            complain("The server did not start: \(error)")
            exit(1)
        }
    }

    /// Prints one or more lines.
    static func printLine(_ text: String) throws(Failure) {
        do {
            try Output.print(text)
        } catch {
            throw Failure(task: "The output is lost", cause: error)
        }
    }

    static func complain(_ message: String) {
        let text = PasswordFilter.filtered("tideline: \(message)\n")
        try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
    }

    private static func printToken(
        _ configuration: ServerConfiguration,
        _ subject: String,
        _ lifetime: Duration,
        _ isJSON: Bool
    ) throws {
        let token: String
        do throws(ConfigurationError) {
            token = try configuration.makeToken(subject: subject, lifetime: lifetime)
        } catch {
            throw UsageError("Cannot create a token: \(error).")
        }
        try printLine(isJSON ? Report(["token": .text(token)]).json : token)
    }

    /// Prints each mistake on a line, and exits with code 2 if there is one.
    private static func check(
        _ configuration: ServerConfiguration,
        _ mistakes: [String],
        _ isJSON: Bool
    ) throws {
        let mistakes = mistakes.map(PasswordFilter.filtered)
        if isJSON {
            try printLine(
                Report([
                    "isRight": .flag(mistakes.isEmpty), "mistakes": .texts(mistakes),
                    "database": .text(mistakes.isEmpty ? configuration.databaseLocation : ""),
                ])
                .json
            )
        } else if mistakes.isEmpty {
            try printLine("The configuration is valid.\ndatabase \(configuration.databaseLocation)")
        } else {
            for mistake in mistakes { try printLine(mistake) }
        }
        if !mistakes.isEmpty { exit(2) }
    }

    private static func serve(
        _ configuration: ServerConfiguration,
        _ words: [String]
    ) async throws {
        // A closed output or log must not end the server.
        signal(SIGPIPE, SIG_IGN)
        // A write beyond a file size limit fails like one on a full disk.
        signal(SIGXFSZ, SIG_IGN)
        let environment = ProcessInfo.processInfo.environment
        let supervisor = Supervisor(environment: environment)
        let signals = Signals()
        let server = TidelineServer(configuration: configuration)
        let url = try await server.start(on: HandedSockets(environment: environment)).absoluteString
        // The log reports the address, too, so a failure does not end a server that runs.
        do {
            try printLine("listening on \(url)\ndatabase \(configuration.databaseLocation)")
        } catch {
            complain("\(error.task): \(error.cause)")
        }
        signals.onHangUp {
            supervisor.reloading()
            defer { supervisor.ready(at: url) }
            server.reload {
                guard case .serve(let again) = try Arguments(words) else { return nil }
                return again
            }
        }
        supervisor.ready(at: url)
        let watch = Task { await supervisor.keepNotifying { await server.pulse() } }
        var iterator = signals.stream.makeAsyncIterator()
        _ = await iterator.next()
        signals.exitOnNext()
        supervisor.stopping()
        await server.stop()
        watch.cancel()
    }
}

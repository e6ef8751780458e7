// CodeRuleTests: code that is not allowed, with the exceptions and their reasons.

import Foundation
import Testing

struct CodeRuleTests {
    /// The files and folders that may read the wall clock, create ids, draw random numbers or sleep,
    /// with the reasons.
    ///
    /// A folder ends with a slash. All other code gets an environment value, so that tests and seeds
    /// determine the result.
    static let readsTheWorld: [String: String] = [
        "Sources/Tideline/Sync/Engine/SyncEnvironment.swift":
            "Is the environment value of the client.",
        "Sources/Tideline/Model/PresentMoment.swift":
            "Recognizes defaults that are the current time, before there is an environment.",
        "Sources/Tideline/Store/ExternalChangeDetector.swift":
            "Checks at intervals whether another process has written.",
        "Sources/Tideline/Transport/": "Ends calls on real sockets at their deadlines.",
        "Sources/TidelineFetch/BoundedFetch.swift":
            "Bounds the time that a document may take over a real connection.",
        "Sources/TidelineHTTP/": "Bounds the time that a real connection may take.",
        "Sources/TidelineCommand/Bench.swift": "Measures the times of requests.",
        "Sources/TidelineCommand/Progress.swift":
            "Shows the progress of long work at intervals.",
        "Sources/TidelineCommand/Supervisor.swift":
            "Reports at intervals that the server is alive, and the time of a reload.",
        "Sources/TidelineServer/LogWriter.swift":
            "Waits for a limited time until its last lines are written.",
        "Sources/TidelineServer/TidelineServer.swift":
            "Waits between the end of the readiness and the drain.",
        "Sources/TidelineServerCore/Routing/RequestHandler.swift":
            "Measures the time of a request, for its log line and the metrics.",
        "Sources/TidelineCore/Model/RandomWords.swift":
            "Draws the random bits of new ids for ServerEnvironment and SyncEnvironment.",
        "Sources/TidelineServerCore/Traffic/Metrics/ProcessUse.swift":
            "Reads the processor time of the process, for the metrics.",
        "Sources/TidelineServerCore/Tables/ServerLimits.swift":
            "Defines ServerEnvironment, the source of the server's wall clock and ids.",
        "Sources/TidelinePostgres/StatementCache.swift":
            "Bounds the time that a plan is kept, and names the statements of one connection.",
        "Sources/TidelineSQLite/QueryDeadline.swift":
            "Bounds the time that a statement on a real database may run.",
        "Sources/TidelineServerCore/Tables/WriteProbe.swift":
            "Bounds the time that a caller waits for a probe of a locked database.",
        "Sources/TidelineServerPostgres/Threads/Uptime.swift":
            "Bounds the time of statements, and the time until the next probe of a database.",
        "Sources/TidelineTestKit/Conformance/LocalStoreConformance+Life.swift":
            "Bounds the time that a store may take to interrupt a transaction.",
        "Sources/TidelineTestKit/Postgres/ChildProgram.swift":
            "Names the files for a program's output.",
        "Sources/TidelineTestKit/Postgres/PostgresCluster.swift":
            "Names the temporary directory of a PostgreSQL cluster.",
        "Sources/TidelineTestKit/Postgres/PostgresPooler.swift":
            "Names the temporary directory of a pooler.",
        "Sources/TidelineTestKit/Postgres/DatabaseSlots.swift":
            "Lets one test continue if all wait for each other.",
        "Sources/TidelineTestKit/Waiting.swift":
            "Waits for a limited time until other tasks have made progress.",
        "Sources/TidelineTestKit/SmallDisk.swift":
            "Names the mount point of a disk.",
        "Sources/TidelineTestKit/OriginalServer/OriginalServer.swift":
            "Provides the live clock and ids for a test without its own.",
        "Sources/TidelineTestKit/World/Devices/WorldDisk.swift":
            "Names the temporary directory of a device; no simulation depends on it.",
    ]

    /// The files of tests that sleep for a fixed time, with the reasons.
    ///
    /// They are listed by their names, because tests move between targets. All other tests wait for an event or inject
    /// the waits, and no test draws random numbers without a seed.
    static let sleepsInTests: [String: String] = [
        "ClientOperations.swift": "Measures a client that waits as in an app.",
        "CurlConcurrencyTests.swift": "Polls the list of threads in a target without `until`.",
        "FaultTests.swift": "Sends requests at several moments after a connection was closed.",
        "FaultyConnection.swift": "Is a server that is silent or slow.",
        "HTTPLifeTests.swift": "Is a caller that is too slow for the deadlines of a connection.",
        "HTTPServerTests.swift": "Has a slow handler that ends early if it is cancelled.",
        "HangUpTests.swift":
            "Has a handler that is slower than the checks of half-closed connections.",
        // ReadPaceTests pass times. Here a caller must have stopped reading, which no clock of the server shows.
        "ResponseMemoryTests.swift":
            "Waits until the buffers of the system are full; the system fills them at its own pace.",
        "RowLockTests.swift": "Releases each lock shortly before the lock timeout of PostgreSQL.",
        "SQLiteFileTests.swift": "Is another program that locks a file for a moment.",
        "SanitizerTests.swift": "Has no dependencies, and lets other threads run.",
        "SlowProxy.swift": "Is a slow network.",
        "SyncOccasionTests.swift": "Is a link on which lists are slower than other requests.",
    ]

    /// The files with more than `linesMax` lines, and the reasons why they are not split.
    static let longFiles: [String: String] = [:]

    /// The maximum number of lines of a source file.
    static let linesMax = 600
    /// The recommended maximum for new files.
    static let linesWanted = 300

    /// The maximum number of source files in a folder.
    static let filesInFolderMax = 16

    @Test("Only listed source files read the clock or draw random values")
    func onlyTheEnvironmentReadsTheClock() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        let readers = files.filter { !readingTheWorld($0).isEmpty }
        let unlisted = readers.filter { !isListed($0.path, in: Self.readsTheWorld) }
        expectNone(unlisted.flatMap(readingTheWorld))
        expectNone(staleEntries(of: Self.readsTheWorld, in: readers.map(\.path)))
    }

    @Test(
        "The clock rule finds clocks, sleeps and random values in code",
        arguments: [
            ("let now = Date()", 1),
            ("let now = Date(timeIntervalSince1970: 0)", 0),
            ("let now: Date = .now", 1),
            ("let now = Date.now", 1),
            ("let nowhere = place.nowhere", 0),
            ("let id = UUID()", 1),
            ("let id = value.asUUID()", 0),
            ("let die = Int.random(in: 1...6)", 1),
            ("let die = Int.random(in: 1...6, using: &generator)", 0),
            ("let die = generator.randomElement()", 0),
            ("try await Task.sleep(for: .seconds(1))", 1),
            ("let clock = ContinuousClock()", 1),
            ("clock_gettime(CLOCK_MONOTONIC, &time)", 1),
            ("/// The default is `Date()`.", 0),
            (#"let text = "Date()""#, 0),
            ("let now = Date()\nlet id = UUID()", 2),
        ]
    )
    func clockRuleCanFail(text: String, count: Int) {
        #expect(readingTheWorld(SourceFile(path: "Sources/A.swift", text: text)).count == count)
    }

    @Test("The code contains no leftovers such as print calls and unfinished comments")
    func nothingIsLeftOver() throws {
        expectNone(try Repository.swiftFiles().flatMap(leftovers))
    }

    @Test(
        "The leftover rule finds leftovers and unsafe code without a reason",
        arguments: [
            ("Sources/Tideline/A.swift", "// FIXME: later", 1),
            ("Sources/Tideline/A.swift", "// TODO", 1),
            ("Tests/TidelineTests/A.swift", "// XXX", 1),
            ("Sources/Tideline/A.swift", #"let name = "TodoItem", key = "TODO_SERVER""#, 0),
            ("Sources/Tideline/A.swift", "print(row)", 1),
            ("Sources/Tideline/A.swift", "debugPrint(row)\ndump(row)", 2),
            ("Sources/Tideline/A.swift", "/// print(row)", 0),
            ("Sources/Tideline/A.swift", "blueprint(row)", 0),
            ("Sources/TidelineCommand/A.swift", "print(row)", 0),
            ("Examples/Todo/A.swift", "print(row)", 0),
            ("Sources/Tideline/A.swift", "let row = try! read()", 1),
            ("Tests/TidelineTests/A.swift", "let row = try! read()", 0),
            ("Sources/Tideline/A.swift", "fatalError()", 1),
            ("Sources/Tideline/A.swift", "final class A: @unchecked Sendable {", 1),
            ("Sources/Tideline/A.swift", "/// A box.\nfinal class A: @unchecked Sendable {", 1),
            (
                "Sources/Tideline/A.swift",
                "/// `@unchecked Sendable`: one thread only.\n@frozen\nfinal class A: @unchecked Sendable",
                0
            ),
            (
                "Sources/Tideline/A.swift",
                "/// Unchecked because only its thread has it.\nfinal class A: @unchecked Sendable",
                0
            ),
            ("Sources/Tideline/A.swift", "nonisolated(unsafe) var a = 1", 1),
            (
                "Sources/Tideline/A.swift",
                "// Written once, before any.\nnonisolated(unsafe) var a = 1", 0
            ),
        ]
    )
    func leftoverRuleCanFail(path: String, text: String, count: Int) {
        #expect(leftovers(SourceFile(path: path, text: text)).count == count)
    }

    @Test("Tests wait only with a limit") func testsWaitWithALimit() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Tests") }
        expectNone(files.flatMap(endlessWaits))
    }

    @Test(
        "The wait rule finds loops that wait without a limit",
        arguments: [
            ("while !gate.isSet { usleep(1000) }", 1),
            ("while list.isLoading {\n    try await Task.sleep(for: .milliseconds(1))\n}", 1),
            ("while turns < 50, list.isLoading { usleep(10) }", 0),
            ("while rests.count < 1 { try await Task.sleep(for: .milliseconds(1)) }", 1),
            ("while !Task.isCancelled { try await Task.sleep(for: .seconds(1)) }", 0),
            ("try await until { !list.isLoading }", 0),
            ("for _ in 0..<20 where isLoading { usleep(10) }", 0),
            ("while !rest.isEmpty {\n    rest.removeFirst()\n}", 0),
        ]
    )
    func waitRuleCanFail(text: String, count: Int) {
        #expect(endlessWaits(SourceFile(path: "Tests/A.swift", text: text)).count == count)
    }

    @Test("Tests use no unseeded random values and no unlisted fixed sleeps")
    func testsDoNotDependOnLuck() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Tests") }
        expectNone(files.flatMap(unseededDraws))
        let sleeps = files.flatMap(fixedSleeps)
        expectNone(sleeps.filter { Self.sleepsInTests[fileName($0.path)] == nil })
        expectNone(staleEntries(of: Self.sleepsInTests, in: sleeps.map { fileName($0.path) }))
    }

    @Test(
        "The luck rule finds fixed sleeps and unseeded random values",
        arguments: [
            ("try await Task.sleep(for: .milliseconds(300))", 1),
            ("Thread.sleep(forTimeInterval: 0.2)\nusleep(50_000)", 2),
            ("sleep(20)", 1),
            ("    sleep(20)", 1),
            ("queue.asyncAfter(deadline: .now() + 5) { resume() }", 1),
            ("try await Task.sleep(for: .seconds(3600))", 0),
            ("try await Task.sleep(for: isShort ? .milliseconds(1) : .seconds(3600))", 0),
            ("try await environment.sleep(.seconds(1))", 0),
            (#"try connection.run("SELECT pg_sleep(1)")"#, 0),
            ("// usleep(10)", 0),
            ("let bytes = Int.random(in: 1...6)", 1),
            ("let bytes = Int.random(in: 1...6, using: &random)", 0),
            ("let bytes = Int.random(\n    in: 1...6,\n    using: &random\n)", 0),
            ("let bytes = Int.random(\n    in: 1...6\n)", 1),
            ("let isUp = Bool.random()", 1),
            ("let one = list.randomElement() ?? list.shuffled()[0]", 2),
            ("let one = list.randomElement(using: &random)", 0),
            ("list.shuffle()", 1),
            ("var random = SystemRandomNumberGenerator()", 1),
        ]
    )
    func luckRuleCanFail(text: String, count: Int) {
        let file = SourceFile(path: "Tests/A.swift", text: text)
        #expect(fixedSleeps(file).count + unseededDraws(file).count == count)
    }

    @Test("Every Swift file begins with a comment about its role")
    func everyFileBeginsWithItsRole() throws {
        expectNone(try Repository.swiftFiles().flatMap(missingRole))
    }

    @Test(
        "The role rule finds files without a comment about their role",
        arguments: [
            ("// A: what it is.\n", 0),
            ("import Foundation\n", 1),
            ("//\n// A.swift\n", 1),
            ("", 1),
        ]
    )
    func roleRuleCanFail(text: String, count: Int) {
        #expect(missingRole(SourceFile(path: "Sources/A.swift", text: text)).count == count)
    }

    @Test("Source files do not exceed the maximum number of lines") func filesAreShort() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        let long = files.filter { $0.lineCount > Self.linesMax }.map(\.path)
        expectNone(tooLong(files, allowed: Self.longFiles))
        expectNone(staleEntries(of: Self.longFiles, in: long))
    }

    @Test("Source folders do not exceed the maximum number of files")
    func foldersAreNoDrawers() throws {
        let files = try Repository.swiftFiles().filter { $0.isIn("Sources") }
        expectNone(drawers(files.map(\.path)))
    }

    @Test("The folder rule finds folders with too many files") func folderRuleCanFail() {
        let full = (0...Self.filesInFolderMax).map { "Sources/A/\($0).swift" }
        #expect(drawers(full).map(\.path) == ["Sources/A"])
        #expect(drawers(full.dropLast() + ["Sources/A/B/C.swift"]).isEmpty)
    }

    private func drawers(_ paths: [String]) -> [Finding] {
        let folders = Dictionary(grouping: paths) { $0.split(separator: "/").dropLast() }
        return folders.filter { $1.count > Self.filesInFolderMax }.map { folder, files in
            Finding(
                path: folder.joined(separator: "/"),
                message: "\(files.count) files; the limit is \(Self.filesInFolderMax)."
            )
        }
    }

    @Test("The length rule finds files that are too long and not listed") func lengthRuleCanFail() {
        let files = [150, 301, 600, 601, 700].map { count in
            SourceFile(path: "\(count)", text: String(repeating: "//\n", count: count))
        }
        #expect(tooLong(files, allowed: ["700": "a"]).map(\.path) == ["601", "301", "600"])
        #expect(tooLong(files, allowed: ["601": "a", "700": "b"]).isEmpty)
    }

    @Test("An exception for a missing file or folder is reported as stale")
    func exceptionsCanGoStale() {
        let table = ["A/": "a folder", "B/C.swift": "a file", "D/": "gone", "E.swift": "gone"]
        let stale = staleEntries(of: table, in: ["A/E.swift", "B/C.swift"])
        #expect(stale.map(\.path) == ["D/", "E.swift"])
        #expect(isListed("A/E.swift", in: table))
        #expect(!isListed("B/C.swift", in: ["B": "no slash", "B/C": "no type"]))
    }
}

/// Code whose result differs from run to run.
private let worldReads = [
    "Date()", "Date.now", ": Date = .now", "UUID()", ".random(", "SystemRandomNumberGenerator",
    "Task.sleep", "Thread.sleep", "usleep(", "ContinuousClock", "SuspendingClock",
    "DispatchTime.now", "DispatchWallTime.now", "deadline: .now()", "timeout: .now()",
    "systemUptime", "clock_gettime", "gettimeofday",
]

private func readingTheWorld(_ file: SourceFile) -> [Finding] {
    // A generator that is passed in comes from a seed.
    let lines = file.lines.map { $0.contains(".random(") && $0.contains("using:") ? "" : $0 }
    let unseeded = SourceFile(path: file.path, text: lines.joined(separator: "\n"))
    return occurrences(of: worldReads, in: unseeded) { found in
        "\(found) outside the environment. Use the environment value, or add the file, "
            + "with the reason, to CodeRuleTests.readsTheWorld."
    }
}

private func leftovers(_ file: SourceFile) -> [Finding] {
    var findings = unexplained("@unchecked Sendable", naming: ["sendable", "unchecked"], in: file)
    findings += unexplained("nonisolated(unsafe)", naming: [""], in: file)
    for (index, line) in file.lines.enumerated() {
        for mark in ["FIXME", "TODO", "XXX"] where contains(line, mark) {
            let message = "\(mark) in a comment. Do it, or file an issue."
            findings.append(Finding(path: file.path, line: index + 1, message: message))
        }
    }
    guard !file.isIn("Tests", "Benchmarks") else { return findings }
    findings += occurrences(of: ["try!", "fatalError("], in: file) { found in
        "\(found) Throw an error for bad input; use precondition, with a message, for bugs."
    }
    guard !file.isIn("Sources/TidelineCommand", "Examples") else { return findings }
    findings += occurrences(of: ["print(", "debugPrint(", "dump("], in: file) { found in
        "\(found)…) in a library. Log the value, or return it."
    }
    return findings
}

/// Loops that only sleep until a condition holds, and would hang the run of tests if it never does.
///
/// A loop that counts its turns, checks for cancellation, or does other work is allowed.
private func endlessWaits(_ file: SourceFile) -> [Finding] {
    let sleeps = ["Task.sleep", "Thread.sleep", "usleep("]
    let ends = ["turns < ", "waits < ", "isCancelled"]
    let lines = file.lines
    return lines.indices.compactMap { index -> Finding? in
        let line = lines[index].drop(while: \.isWhitespace)
        guard line.hasPrefix("while "), !ends.contains(where: line.contains) else { return nil }
        let body = line.hasSuffix("{") && index + 1 < lines.count ? lines[index + 1] : line
        guard sleeps.contains(where: body.contains) else { return nil }
        let message = "A wait without a limit. Use `until` or `blockingUntil` of TidelineTestKit."
        return Finding(path: file.path, line: index + 1, message: message)
    }
}

/// Sleeps for a fixed time, after which a test hopes that something has happened.
///
/// A sleep of an hour stands for a wait that does not end by itself, and is allowed.
private func fixedSleeps(_ file: SourceFile) -> [Finding] {
    let brief: [Substring] = file.lines.map { $0.contains(".seconds(3600)") ? "" : " " + $0 }
    let text = SourceFile(path: file.path, text: brief.joined(separator: "\n"))
    let sleeps = ["Task.sleep", "Thread.sleep", "usleep(", " sleep(", "asyncAfter("]
    return occurrences(of: sleeps, in: text) { found in
        "\(found) in a test. Wait for an event with `until` or `blockingUntil` of TidelineTestKit, "
            + "or add the file, with the reason, to CodeRuleTests.sleepsInTests."
    }
}

/// Random choices without a seed, which cannot be repeated.
private func unseededDraws(_ file: SourceFile) -> [Finding] {
    let lines = file.lines
    let unseeded: [Substring] = lines.indices.map { index in
        // The arguments of the call may be in the next lines.
        let call = lines[index...].prefix(lines[index].hasSuffix("(") ? 5 : 1)
        return call.contains { $0.contains("using:") } ? "" : lines[index]
    }
    let text = SourceFile(path: file.path, text: unseeded.joined(separator: "\n"))
    let draws = [
        ".random(", "randomElement(", "shuffled(", "shuffle(", "SystemRandomNumberGenerator",
    ]
    return occurrences(of: draws, in: text) { found in
        "\(found) without a seed in a test. Pass a SeededGenerator whose seed is an argument of the test."
    }
}

private func fileName(_ path: String) -> String {
    String(path.split(separator: "/").last ?? "")
}

/// Returns the occurrences of `code` without a comment directly above that has one of `words`.
private func unexplained(_ code: String, naming words: [String], in file: SourceFile) -> [Finding] {
    let lines = file.lines
    return occurrences(of: [code], in: file) { "\($0) without a comment that gives the reason." }
        .filter { finding in
            let above = lines[..<(finding.line - 1)].reversed()
                .map { $0.drop(while: \.isWhitespace) }
                .drop { $0.hasPrefix("@") }
            let comment = above.prefix { $0.hasPrefix("//") }
            let text = comment.joined().lowercased()
            return comment.isEmpty || !words.contains { $0.isEmpty || text.contains($0) }
        }
}

private func missingRole(_ file: SourceFile) -> [Finding] {
    let first = file.lines.first ?? ""
    let hasRole = first.hasPrefix("// ") && first.contains(where: \.isLetter)
    guard !hasRole else { return [] }
    let message = "The first line is not a comment that describes the file."
    return [Finding(path: file.path, message: message)]
}

/// Returns the files over the limit; if there are any, also those over the recommended maximum.
private func tooLong(_ files: [SourceFile], allowed: [String: String]) -> [Finding] {
    let long = files.filter { $0.lineCount > CodeRuleTests.linesWanted }
        .filter { !isListed($0.path, in: allowed) }
    let over = long.filter { $0.lineCount > CodeRuleTests.linesMax }
    guard !over.isEmpty else { return [] }
    let near = long.filter { $0.lineCount <= CodeRuleTests.linesMax }
    return over.map { file in
        let message = "\(file.lineCount) lines; the limit is \(CodeRuleTests.linesMax). Split it."
        return Finding(path: file.path, line: file.lineCount, message: message)
    }
        + near.map { file in
            let message = "\(file.lineCount) lines; recommended: \(CodeRuleTests.linesWanted)."
            return Finding(path: file.path, line: file.lineCount, message: message)
        }
}

/// Whether `path` or one of its folders is in a table of exceptions.
private func isListed(_ path: String, in table: [String: String]) -> Bool {
    table.keys.contains { $0 == path || $0.hasSuffix("/") && path.hasPrefix($0) }
}

/// Returns the exceptions that are no longer needed.
private func staleEntries(of table: [String: String], in needed: [String]) -> [Finding] {
    table.filter { entry in
        !needed.contains { isListed($0, in: [entry.key: entry.value]) }
    }
    .keys.sorted().map { path in
        Finding(path: path, message: "This exception is not needed. Remove it from the table.")
    }
}

/// Finds `patterns` in the code of a file, not in its comments and strings.
private func occurrences(
    of patterns: [String],
    in file: SourceFile,
    message: (String) -> String
) -> [Finding] {
    var findings: [Finding] = []
    for (index, line) in file.code.enumerated() where !line.allSatisfy(\.isWhitespace) {
        for pattern in patterns where contains(line, pattern) {
            findings.append(
                Finding(path: file.path, line: index + 1, message: message(pattern))
            )
        }
    }
    return findings
}

/// Whether `line` contains `pattern` as a whole word: an identifier that only begins or ends with
/// it does not count.
private func contains(_ line: Substring, _ pattern: String) -> Bool {
    func isPart(_ character: Character?) -> Bool {
        character.map { $0.isLetter || $0.isNumber || $0 == "_" } ?? false
    }
    guard line.utf8.count >= pattern.utf8.count else { return false }
    return line.ranges(of: pattern).contains { range in
        let before = line[..<range.lowerBound].last
        let after = line[range.upperBound...].first
        return !(isPart(pattern.first) && isPart(before))
            && !(isPart(pattern.last) && isPart(after))
    }
}

extension SourceFile {
    fileprivate var lineCount: Int { lines.count - (lines.last == "" ? 1 : 0) }
}

// PostgresCluster: a private PostgreSQL server in a temporary directory, for the tests of one
// process.
//
// The server ends with the process that started it, even if the process crashes: a shell waits for
// the end of its input and then stops the server. The data does not have to survive a crash of the
// machine, so the server never flushes to the disk. The shell also restarts the server after a
// crash. Tests control the shell with files and signals.

import Foundation
import Synchronization

/// A running PostgreSQL server that creates databases on request.
package final class PostgresCluster: Sendable {
    /// The reason that PostgreSQL is not available.
    package struct Missing: Error, CustomStringConvertible {
        package var description: String

        package init(description: String) { self.description = description }
    }

    /// The directory of the PostgreSQL programs; `TIDELINE_POSTGRES_BIN` selects another version.
    package static let programs: String? = {
        let named = ProcessInfo.processInfo.environment["TIDELINE_POSTGRES_BIN"]
        let versions = [18, 17, 16, 15, 14].map { "/usr/lib/postgresql/\($0)/bin" }
        return ([named].compactMap { $0 } + versions).first {
            FileManager.default.isExecutableFile(atPath: $0 + "/postgres")
        }
    }()

    /// The reason that PostgreSQL tests are skipped; nil if they are not skipped.
    package static let reasonToSkip: String? =
        if ProcessInfo.processInfo.environment["TIDELINE_POSTGRES"] == "none" {
            "TIDELINE_POSTGRES=none leaves it out."
        } else if programs == nil {
            "PostgreSQL is not installed: apt-get install postgresql, or set TIDELINE_POSTGRES_BIN."
        } else {
            nil
        }

    private static let state = Mutex<Result<PostgresCluster, any Error>?>(nil)

    /// Returns the shared cluster of this process; the first call starts it.
    package static func shared() throws -> PostgresCluster {
        try state.withLock { state in
            if let state { return try state.get() }
            let started = Result { try PostgresCluster() }
            state = started
            return try started.get()
        }
    }

    private static let pair = Mutex<
        Result<(primary: PostgresCluster, standby: PostgresCluster), any Error>?
    >(nil)

    /// Returns a second cluster of this process with its standby; the first call starts both.
    package static func sharedPair() throws -> (primary: PostgresCluster, standby: PostgresCluster)
    {
        try pair.withLock { pair in
            if let pair { return try pair.get() }
            let started = Result {
                let primary = try PostgresCluster()
                return (primary: primary, standby: try PostgresCluster(standbyOf: primary))
            }
            pair = started
            return try started.get()
        }
    }

    private let directory: String
    private let programs: String
    private let numbers = Mutex(0)
    /// The addresses of databases that have been emptied for reuse.
    private let emptied = Mutex<[String]>([])
    /// The script that stops the server when this reference is released.
    private let lifeline = Mutex<ChildProgram.Guarded?>(nil)

    /// Starts a cluster.
    ///
    /// - Parameters:
    ///   - keepsCommits: Whether commits survive a crash of PostgreSQL.
    ///   - settings: Additional settings for the server's configuration.
    /// - Throws: ``Missing`` if the cluster cannot be started.
    package init(keepsCommits: Bool = false, settings: [String: String] = [:]) throws {
        guard let programs = Self.programs else {
            throw Missing(description: Self.reasonToSkip ?? "")
        }
        self.programs = programs
        directory = try Self.makeDirectory()
        let data = directory + "/data"
        try ChildProgram.run(
            asServer([
                programs + "/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8",
                "--locale=C.UTF-8", "--no-sync",
            ])
        )
        try configure(keepsCommits, settings)
        try start()
    }

    /// Starts a standby of another cluster.
    ///
    /// - Throws: ``Missing`` if the standby cannot be started.
    package init(standbyOf primary: PostgresCluster) throws {
        programs = primary.programs
        directory = try Self.makeDirectory()
        try ChildProgram.run(
            asServer([
                programs + "/pg_basebackup", "-h", primary.directory, "-U", "postgres", "-D",
                directory + "/data", "-R", "-X", "stream", "-c", "fast", "--no-sync",
            ])
        )
        try configure(false, [:])
        try start()
    }

    private static func makeDirectory() throws -> String {
        let directory = "/tmp/tideline-pg-\(UUID().uuidString.prefix(8).lowercased())"
        try FileManager.default.createDirectory(
            atPath: directory,
            withIntermediateDirectories: true
        )
        try ChildProgram.run(["chmod", "755", directory])
        if getuid() == 0 { try ChildProgram.run(["chown", "postgres:postgres", directory]) }
        return directory
    }

    private func configure(_ keepsCommits: Bool, _ settings: [String: String]) throws {
        var options = [
            "listen_addresses": "", "unix_socket_directories": directory, "max_connections": "1000",
            "shared_buffers": "64MB", "deadlock_timeout": "200ms", "fsync": "off",
            "wal_level": "logical", "max_replication_slots": "100",
            "full_page_writes": "off", "synchronous_commit": keepsCommits ? "on" : "off",
        ]
        options.merge(settings) { $1 }
        let lines = options.sorted { $0.key < $1.key }.map { "\($0) = '\($1)'\n" }.joined()
        let file = directory + "/tideline.conf"
        try Data(lines.utf8).write(to: URL(fileURLWithPath: file))
    }

    private func start() throws {
        let data = directory + "/data"
        let server = asServer([
            programs + "/postgres", "-D", data, "-c", "config_file=\(directory)/tideline.conf",
            "-c", "hba_file=\(data)/pg_hba.conf",
        ])
        try guarded(server)
        try waitUntilReady()
    }

    /// Starts a server that stops when the lifeline is released.
    private func guarded(_ server: [String]) throws {
        let script = """
            begin() { "$@" >>"$directory/server.log" 2>&1 </dev/null & server=$!; }
            directory=$1; shift; begin "$@"
            while read -r -t 0.2 _ || (($? > 128)); do
                kill -0 "$server" 2>/dev/null || [[ -e $directory/down ]] || begin "$@"
            done
            kill -QUIT "$server" 2>/dev/null; wait "$server"; rm -rf "$directory"
            """
        let guardian = try ChildProgram.Guarded(script: script, [directory] + server)
        lifeline.withLock { $0 = guardian }
    }

    // MARK: - Crashes

    private var down: String { directory + "/down" }

    /// Kills PostgreSQL without restarting it.
    package func crash() throws {
        try Data().write(to: URL(fileURLWithPath: down))
        let file = try String(contentsOfFile: directory + "/data/postmaster.pid", encoding: .utf8)
        guard let process = file.split(separator: "\n").first.flatMap({ pid_t($0) }) else {
            throw Missing(description: "PostgreSQL does not run")
        }
        kill(process, SIGQUIT)
        try Self.wait(or: "PostgreSQL does not stop") { kill(process, 0) != 0 }
    }

    /// Blocks the calling thread until a condition is true.
    ///
    /// - Throws: ``Missing`` with the description of the failure if this takes more than a minute.
    static func wait(or failure: String, _ condition: () throws -> Bool) throws {
        do {
            try blockingUntil(condition)
        } catch is WaitTooLong {
            throw Missing(description: failure)
        }
    }

    /// Pauses replay on a standby, which then shows no further changes of its primary until
    /// ``resumeReplay()``.
    package func pauseReplay() throws {
        try psql("SELECT pg_wal_replay_pause()", in: "postgres")
        try Self.wait(or: "the standby does not pause its replay") {
            try psql("SELECT pg_get_wal_replay_pause_state()", in: "postgres") == "paused\n"
        }
    }

    /// Pauses all PostgreSQL processes to simulate a machine that hangs, or resumes them.
    package func setPaused(_ isPaused: Bool) throws {
        let file = try String(contentsOfFile: directory + "/data/postmaster.pid", encoding: .utf8)
        guard let process = file.split(separator: "\n").first.map(String.init) else {
            throw Missing(description: "PostgreSQL does not run")
        }
        let signal = isPaused ? "-STOP" : "-CONT"
        try ChildProgram.run(["pkill", signal, "-P", process])
        try ChildProgram.run(["kill", signal, process])
    }

    /// Resumes replay on a standby.
    package func resumeReplay() throws {
        try psql("SELECT pg_wal_replay_resume()", in: "postgres")
    }

    /// Waits until a standby shows all commits that the primary currently has.
    package func catchUp(with primary: PostgresCluster) throws {
        let end = try primary.psql("SELECT pg_current_wal_lsn()", in: "postgres")
            .filter { $0 != "\n" }
        try Self.wait(or: "the standby does not catch up") {
            try psql("SELECT pg_last_wal_replay_lsn() >= '\(end)'::pg_lsn", in: "postgres") == "t\n"
        }
    }

    /// Copies the data of a stopped cluster; the copy does not contain later commits.
    package func copyData() throws {
        try ChildProgram.run(["cp", "-a", directory + "/data", directory + "/copy"])
    }

    /// Replaces the data of a stopped cluster with the copy.
    package func restoreData() throws {
        try ChildProgram.run(["rm", "-rf", directory + "/data"])
        try ChildProgram.run(["cp", "-a", directory + "/copy", directory + "/data"])
    }

    /// Restarts the server after a crash and waits until it accepts connections.
    ///
    /// - Parameter promoted: Whether the server starts on a new timeline, like a standby that
    ///   becomes the primary. This requires the setting `restore_command`.
    /// - Throws: ``Missing`` if the server does not start.
    package func restart(promoted: Bool = false) throws {
        if promoted {
            try ChildProgram.run(asServer(["touch", directory + "/data/recovery.signal"]))
        }
        try FileManager.default.removeItem(atPath: down)
        try waitUntilReady()
        if promoted { try waitUntilPromoted() }
    }

    /// Waits until recovery ends; before that, the server accepts only reads.
    private func waitUntilPromoted() throws {
        try Self.wait(or: "PostgreSQL did not become the primary: see \(directory)/server.log") {
            // This query fails while the server is in recovery.
            (try? psql("SELECT pg_current_wal_lsn()", in: "postgres")) != nil
        }
    }

    /// The directory of the server's socket.
    package var socketDirectory: String { directory }

    private func waitUntilReady() throws {
        try waitUntilReady(directory, or: "PostgreSQL did not start: see \(directory)/server.log")
    }

    /// Waits until a server responds at a socket directory.
    ///
    /// The socket file alone proves nothing, because it exists shortly before the server listens.
    func waitUntilReady(_ directory: String, port: Int = 5432, or failure: String) throws {
        let ready = [
            programs + "/pg_isready", "-q", "-h", directory, "-p", "\(port)", "-U", "postgres",
        ]
        try Self.wait(or: failure) { (try? ChildProgram.run(ready)) != nil }
    }

    /// Returns a command that runs as the user `postgres`, because PostgreSQL refuses to start as
    /// root.
    func asServer(_ command: [String]) -> [String] {
        guard getuid() == 0 else { return command }
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] + command
    }

    /// Creates a database.
    ///
    /// - Parameter folder: The directory for the database's tablespace; nil for the default
    ///   tablespace.
    /// - Returns: The address of the database.
    /// - Throws: ``Missing`` if the tablespace or the database cannot be created.
    package func database(in folder: String? = nil) throws -> String {
        let number = numbers.withLock { number in
            number += 1
            return number
        }
        let name = "t\(number)"
        var tablespace = ""
        if let folder {
            if getuid() == 0 { try ChildProgram.run(["chown", "postgres:postgres", folder]) }
            try psql("CREATE TABLESPACE \(name) LOCATION '\(folder)'", in: "postgres")
            tablespace = " TABLESPACE \(name)"
        }
        try psql("CREATE DATABASE \(name)\(tablespace)", in: "postgres")
        return url(of: name)
    }

    /// Returns the address of an empty database, which another test may have used before.
    ///
    /// Reusing a database takes a third of the time of creating one, and no disk space.
    package func emptyDatabase() throws -> String {
        if let url = emptied.withLock({ $0.popLast() }) { return url }
        return try database()
    }

    /// Removes all tables from a database that no test is using anymore, so that
    /// ``emptyDatabase()`` can return the database.
    ///
    /// A database that cannot be emptied is not reused.
    package func recycle(_ url: String) {
        let script = """
            SET client_min_messages = warning; SET lock_timeout = '5s';
            DROP SCHEMA IF EXISTS tideline CASCADE;
            DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC
            """
        guard (try? psql(script, in: Self.name(in: url))) != nil else { return }
        emptied.withLock { $0.append(url) }
    }

    /// Returns the database name in an address.
    package static func name(in url: String) -> String {
        String(url.dropFirst("postgres://postgres@/".count).prefix { $0 != "?" })
    }

    /// Returns the address of a database.
    package func url(of database: String) -> String {
        "postgres://postgres@/\(database)?host=\(directory)"
    }

    /// Runs SQL with `psql`, without a Tideline server, and returns the output.
    @discardableResult
    package func psql(_ script: String, in database: String) throws -> String {
        try ChildProgram.run([
            programs + "/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", directory,
            "-U", "postgres", "-d", database, "-c", script,
        ])
    }
}

// Arguments: parses the command line. An error names the unknown word and the allowed ones.

import TidelineServer
import TidelineServerCore

/// An error in the arguments of a command.
struct UsageError: Error, CustomStringConvertible {
    var message: String

    var description: String { message }

    init(_ message: String) {
        self.message = message
    }
}

/// A parsed command line: the command with its options.
enum Arguments: Sendable {
    case help
    /// The help of one command.
    case helpOf(String)
    case version
    case serve(ServerConfiguration)
    /// The mistakes in the configuration; empty if there are none.
    case check(ServerConfiguration, mistakes: [String], isJSON: Bool)
    case certificate(hosts: [String], directory: String, isJSON: Bool)
    case token(ServerConfiguration, subject: String, lifetime: Duration, isJSON: Bool)
    case backup(ServerConfiguration, file: String?, isJSON: Bool)
    case restore(ServerConfiguration, backup: String, isJSON: Bool)
    case purgeTombstones(
        ServerConfiguration,
        tables: [String]?,
        days: Int,
        trustsClock: Bool,
        isJSON: Bool
    )
    case inspect(file: String, isJSON: Bool)
    case inspectDatabase(ServerConfiguration, isJSON: Bool)
    case doctor(Doctor, isJSON: Bool)
    case audit(ServerConfiguration, AuditQuery, isJSON: Bool)
    case bench(Bench, isJSON: Bool)
    case restored(ServerConfiguration, isJSON: Bool)
    case resetClocks(ServerConfiguration, tables: [String]?, isJSON: Bool)
    case copy(
        from: ServerConfiguration.Database,
        to: ServerConfiguration.Database,
        isJSON: Bool
    )
    case export(ServerConfiguration, user: String)
    case forget(ServerConfiguration, user: String, isApplied: Bool, isJSON: Bool)
    case renameOwner(
        ServerConfiguration,
        user: String,
        name: String,
        isApplied: Bool,
        isJSON: Bool
    )
    case compact(ServerConfiguration, isJSON: Bool)
    case schema(SchemaTask)
    case models(SchemaSource)
    case migrate(ServerConfiguration, isApplied: Bool, showsSQL: Bool, isJSON: Bool)

    private static let commands = [
        "serve", "check", "certificate", "token", "backup", "restore", "restored", "reset-clocks",
        "migrate",
        "purge-tombstones", "compact", "inspect", "audit", "export", "forget", "owners", "doctor",
        "bench", "copy", "schema", "models", "help",
    ]

    static let usage = """
        Usage: tideline serve [--config FILE] [--database ADDRESS] [--listen HOST:PORT]
                              [--dynamic-schema]
               tideline check [--config FILE] [--database ADDRESS] [--listen HOST:PORT]
                              [--dynamic-schema] [--json]
               tideline certificate --host NAME[,NAME…] [--directory DIR] [--json]
               tideline token --config FILE --subject NAME [--expires SECONDS] [--json]
               tideline backup FILE [--config FILE] [--database sqlite:PATH] [--json]
               tideline backup [--config FILE] --database postgres://…
               tideline restore FILE [--config FILE] [--database sqlite:PATH] [--json]
               tideline restored [--config FILE] [--database ADDRESS] [--json]
               tideline reset-clocks [--tables NAME[,NAME…]] [--config FILE] [--database ADDRESS]
                              [--json]
               tideline migrate [--dry-run | --apply] [--config FILE] [--database ADDRESS]
                              [--dynamic-schema] [--json]
               tideline copy --from ADDRESS --to ADDRESS [--json]
               tideline schema (--server URL [--token FILE] [--authority FILE] | --config FILE)
               tideline schema --from-models FILE
               tideline schema --check FILE (--server URL [--token FILE] [--authority FILE]
                              | --config FILE) [--json]
               tideline models --swift (--server URL [--token FILE] [--authority FILE]
                              | --config FILE | --schema FILE)
               tideline purge-tombstones --days N [--tables NAME[,NAME…]] [--trust-clock]
                              [--config FILE] [--database ADDRESS] [--json]
               tideline compact [--config FILE] [--database ADDRESS] [--json]
               tideline inspect FILE [--json]
               tideline inspect [--config FILE] --database ADDRESS [--json]
               tideline audit [--table NAME] [--id ID] [--user NAME] [--last N] [--config FILE]
                              [--database ADDRESS] [--json]
               tideline export --user NAME [--config FILE] [--database ADDRESS]
               tideline forget --user NAME [--dry-run | --apply] [--config FILE]
                              [--database ADDRESS] [--json]
               tideline owners --rename OLD NEW [--dry-run | --apply] [--config FILE]
                              [--database ADDRESS] [--json]
               tideline doctor --server URL [--token FILE] [--store FILE] [--models FILE]
                              [--authority FILE] [--json]
               tideline bench URL --table NAME [--connections N] [--seconds N] [--writes PERCENT]
                              [--token FILE] [--authority FILE] [--json]
               tideline help, --help
               tideline --version

        serve              Starts the server. When it is ready, it prints 'listening on http://HOST:PORT'
                           and, on the next line, the location of its database.
          --config FILE    The configuration, a JSON file. Without it there is one table, TodoItem, with
                           the columns text and complete. Paths in the file, including that of the
                           database, are relative to the file.
          --database       The database: sqlite:PATH or postgres://USER@HOST:PORT/DATABASE. The default
                           is sqlite:tideline.db; a relative path is relative to the working directory.
                           Other users of the machine can see the arguments of a command, so put the
                           password into the configuration, PGPASSWORD or a PGPASSFILE.
          --listen         The address to listen on: an address of this machine (IPv6 in brackets) or
                           localhost. The default is 127.0.0.1:8080. Port 0 chooses a free port.
          --dynamic-schema Creates tables and columns when a request needs them.

        check              Reads the configuration as serve does, with the keys and certificates that it
                           names, and prints each mistake. The exit code is 0 or 2. It does not open the
                           database.
          --config, --database, --listen, --dynamic-schema  As for serve.

        certificate        Creates a certificate for testing TLS, and an authority that signs it. Each
                           device must trust the authority once.
          --host           The names and addresses by which devices reach the server.
          --directory      The folder for the files; default certificates. An existing authority is reused.

        token              Prints a token for the user NAME, for tests. The server of the configuration
                           accepts it; it is signed with authentication.secretFile.
          --expires        The lifetime in seconds; default 86400, a day.

        backup FILE        Copies the database to a new file; the server may be running. For PostgreSQL,
                           without FILE, prints which tool to use and whether backups are set up.
        restore FILE       Replaces the database with a backup, keeps the replaced file under another
                           name, and makes all clients pull from the start. Stop the server first.
        restored           Makes all clients pull from the start, after you restored a backup by hand.
        reset-clocks       Repairs tables after the machine's clock was ahead: sets their table clocks
                           back to the current time, gives new versions to rows with times in the
                           future, and makes all clients pull from the start. With a file, stop the
                           server first.
          --tables         Only these tables; default all.
        migrate            Shows the changes that make the tables match the configuration.
          --dry-run        Also shows the SQL for PostgreSQL.
          --apply          Makes the changes in one transaction. Make a backup first.

        copy               Copies a database from a file into PostgreSQL or back, with all the data that
                           sync needs. Stop the servers of both databases first. Run the command again
                           to resume a copy that was interrupted.
          --from, --to     sqlite:PATH or postgres://…; the target must not have tables yet.

        schema             Prints the tables with their columns and rules as a schema document.
          --server         The address of a running server; only the tables that the user may read.
          --config         The configuration of a server.
          --from-models    Prints the 'tables' of a configuration for the models of an app. FILE is a
                           schema document that the app wrote with SchemaDocument(of:).
          --check          Compares the schema document of an app with a server, and prints each
                           difference. The exit code is 0 or 1.
          --token, --authority  As for doctor.

        models             Prints the tables as models of an app.
          --swift          In Swift.
          --server, --config, --token, --authority  As for schema.
          --schema         A schema document.

        purge-tombstones   Permanently removes deleted rows. Devices that have not synced since the
                           deletes will pull from the start. With a file, stop the server first.
          --days           Removes rows that were deleted at least N days ago; 0 for all.
          --tables         Only these tables; default all.
          --trust-clock    Runs even if the machine's clock is more than a day ahead of the latest time
                           in the database.

        compact            Frees the space of removed rows. With a file, stop the server first. In
                           PostgreSQL it runs VACUUM; servers may be running.

        inspect FILE       Describes a server's database or a device's store: tables, queue, errors,
                           cursors, sizes. It does not print the contents of rows. It only reads; the
                           server or the app may be running. For PostgreSQL use --database or --config.

        audit              Prints the changes of tables with audit, newest first: the time, the user, the
                           row and its changed columns. It only reads; the server may be running.
          --table, --id, --user  Only this table, rows with this id, changes by this user.
          --last           Prints at most this many entries; default 100.

        export             Prints all data of a user, one JSON object per line: rows and tombstones of
                           tables with an owner, change log, merge bases, ledger, audit. It only reads;
                           the server may be running.
          --user           The user, as named in tokens.

        forget             Counts the data that export prints for a user.
          --user           The user, as named in tokens.
          --dry-run        Only counts; the default.
          --apply          Removes the data. With a file, stop the server first. Devices pull the tables
                           from the start.

        owners             Counts the data that export prints for the user OLD.
          --rename         The user, and the new name.
          --dry-run        Only counts; the default.
          --apply          Assigns the data to the user NEW. With a file, stop the server first. Devices
                           pull the tables from the start; their pending changes are still accepted.

        doctor             Sends the requests of a device to a server, and reports problems with sync.
          --server         The address of the server, such as https://todo.example.
          --token          A file with the token of a user.
          --store          A copy of a device's store. Its tables and cursors are compared with the
                           server's.
          --models         The schema document of an app, as for schema --check. It is compared with the
                           server's.
          --authority      A PEM file with certificates of authorities to trust in addition to the
                           system's.

        bench URL          Measures a server under load: each connection sends one request after another,
                           either a read of 50 rows or an insert. The inserted rows are deleted at the
                           end. Prints the rate and the latency of requests as measured by the client.
                           Use it only with a server and a table that may get load and test rows.
          --table          The table.
          --connections    The number of connections; default 8.
          --seconds        The duration; default 10.
          --writes         The percentage of requests that write; default 20.
          --token, --authority  As for doctor.

        --json             Prints one line of JSON instead of text.

        SIGTERM and SIGINT stop the server when the requests in progress have finished. They stop bench
        early: it prints its results and deletes the inserted rows. A second signal ends the process
        immediately.
        SIGHUP makes the server reload the certificate, the keys of tokens, the operators, the key of
        the metrics and the log levels.

        Exit codes: 0 success; 1 the command failed, doctor found a problem, schema --check found a
        difference, a request of bench failed, or the output could not be written; 2 a mistake in the
        arguments or the configuration.
        """

    init(_ words: [String]) throws {
        let allowed = (Self.commands + ["--help", "--version"]).joined(separator: ", ")
        let rest = Array(words.dropFirst())
        switch words.first {
        case "--help", "-h": self = .help
        case "help":
            if let word = rest.first, word != "--help", !Self.commands.contains(word) {
                throw UsageError("'\(word)' is unknown; allowed are \(allowed).")
            }
            self = rest.first.map { $0 == "--help" ? .help : .helpOf($0) } ?? .help
        case "--version": self = .version
        case "serve": self = try Self.serve(rest)
        case "check": self = try Self.check(rest)
        case "certificate": self = try Self.certificate(rest)
        case "token": self = try Self.readToken(rest)
        case "backup": self = try Self.backup(rest)
        case "restore": self = try Self.restore(rest)
        case "restored": self = try Self.restored(rest)
        case "reset-clocks": self = try Self.resetClocks(rest)
        case "migrate": self = try Self.migrate(rest)
        case "purge-tombstones": self = try Self.purgeTombstones(rest)
        case "inspect": self = try Self.inspect(rest)
        case "compact": self = try Self.compact(rest)
        case "export": self = try Self.export(rest)
        case "forget": self = try Self.forget(rest)
        case "owners": self = try Self.owners(rest)
        case "audit": self = try Self.audit(rest)
        case "doctor": self = try Self.doctor(rest)
        case "bench": self = try Self.bench(rest)
        case "copy": self = try Self.copy(rest)
        case "schema": self = try Self.schema(rest)
        case "models": self = try Self.models(rest)
        case let word?:
            throw UsageError("'\(word)' is unknown; allowed are \(allowed).")
        case nil:
            throw UsageError("A command is missing; allowed are \(allowed).")
        }
        if case .help = self, let command = words.first, Self.commands.contains(command),
            command != "help"
        {
            self = .helpOf(command)
        }
    }
}

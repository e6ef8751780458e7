// Arguments: the words after `tideline`, parsed strictly. An error names the word and the allowed
// ones.

import TidelineServer
import TidelineServerCore

struct UsageError: Error, CustomStringConvertible {
    var message: String

    var description: String { message }

    init(_ message: String) {
        self.message = message
    }
}

enum Arguments: Sendable {
    case help
    /// The help of one command.
    case helpOf(String)
    case version
    case serve(ServerConfiguration)
    /// The mistakes of the configuration; empty if there are none.
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
    case migrate(ServerConfiguration, isApplied: Bool, showsSQL: Bool, isJSON: Bool)

    private static let commands = [
        "serve", "check", "certificate", "token", "backup", "restore", "restored", "reset-clocks",
        "migrate",
        "purge-tombstones", "compact", "inspect", "audit", "export", "forget", "owners", "doctor",
        "bench", "copy", "help",
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
               tideline doctor --server URL [--token FILE] [--store FILE] [--authority FILE]
                              [--json]
               tideline bench URL --table NAME [--connections N] [--seconds N] [--writes PERCENT]
                              [--token FILE] [--authority FILE] [--json]
               tideline help, --help
               tideline --version

        serve              Starts the server. It prints 'listening on http://HOST:PORT' when ready, and
                           on the next line where its database is.
          --config FILE    The configuration, one JSON file; without it there is one table,
                           TodoItem, with the columns text and complete. Paths in the file are
                           relative to the file, the database's too.
          --database       Where the tables are; default sqlite:tideline.db. A relative path begins
                           at the working directory. Or postgres://USER@HOST:PORT/DATABASE. Other
                           users of the machine see the arguments of a command: a password belongs
                           into the configuration, PGPASSWORD or a PGPASSFILE.
          --listen         The address; default 127.0.0.1:8080. An address of this machine, one of IPv6
                           in brackets, or localhost. Port 0 picks one.
          --dynamic-schema Makes tables and columns from what arrives.

        check              Reads the configuration as serve does, with the keys and certificates that it
                           names, and prints each mistake. Exit code 0 or 2. Opens no database.
          --config, --database, --listen, --dynamic-schema  As for serve.

        certificate        Makes a certificate for trying out TLS, and an authority that signs it, which
                           devices are told to trust once.
          --host           The names and addresses by which devices reach the server.
          --directory      Where the files go; default certificates. An authority that is there is
                           kept.

        token              Prints a token for the user NAME that the server of the configuration
                           takes, to try things out; it is signed with authentication.secretFile.
          --expires        How many seconds it holds; default 86400, a day.

        backup FILE        Copies the database into a new file, also while a server runs. For
                           PostgreSQL, without FILE: says what to use, and whether it is there.
        restore FILE       Puts a backup in the place of the database, which is moved aside, and has
                           all clients pull anew. The server is stopped.
        restored           After a backup was put in place by hand: has all clients pull anew.
        reset-clocks       After the machine's clock was ahead: sets the clocks of tables back to the
                           time, gives rows that are dated in the future new versions, and has all
                           clients pull again. A file's server is stopped.
          --tables         Of these tables; without it of all.
        migrate            Shows what has to be done to the tables so that they are as declared.
          --dry-run        Shows the SQL, too, that would be run in PostgreSQL.
          --apply          Does it, in one transaction. Make a backup first.

        copy               Copies a database from a file into PostgreSQL or back, with all that devices
                           rely on. Stop the servers of both; what was ended early goes on.
          --from, --to     sqlite:PATH or postgres://…; the second has no tables yet.

        purge-tombstones   Removes deleted rows for good, which devices that were away for longer learn
                           by a pull from the start. A file's server is stopped.
          --days           How many days they have been deleted at least; 0 for all.
          --tables         Of these tables; without it of all.
          --trust-clock    Although the machine's clock is more than a day ahead of the last time that
                           the database knows of.

        compact            Releases the space of removed rows: to the system from a file, whose server
                           is stopped; in PostgreSQL by VACUUM, while servers run.

        inspect FILE       Tells what is in a server's database or a device's store: tables, queue,
                           errors, cursors, sizes; nothing of what is in rows. Reads only, also while
                           the server or the app runs. A database in PostgreSQL is named by --database
                           or --config.

        audit              Tells who changed which columns of which row, and when, in tables with
                           audit; the newest first. Reads only, also while the server runs.
          --table, --id, --user  Of one table, of rows with this id, by one user.
          --last           The most entries; default 100.

        export             Prints what the database has of a user, one JSON object on a line: rows and
                           tombstones of tables with an owner, change log, merge bases, ledger, audit.
                           Reads only, also while the server runs.
          --user           The user, as tokens name it.

        forget             Counts what the database has of a user, as export does.
          --user           The user, as tokens name it.
          --dry-run        Counts only, as without an option.
          --apply          Removes it. A file's server is stopped. Devices pull the tables from the start.

        owners             Counts what the database has of the user OLD, as export does.
          --rename         The user, and the new name.
          --dry-run        Counts only, as without an option.
          --apply          Gives it to the user NEW. A file's server is stopped. Devices pull the tables
                           from the start; changes that wait on them still fit.

        doctor             Asks a server what a device would, and says what stands against syncing.
          --server         Its address, such as https://todo.example.
          --token          A file with the token of a user.
          --store          A copy of a device's store: its tables are asked for, its cursors compared.
          --authority      A file in PEM with certificates of authorities to trust beside the system's.

        bench URL          Loads a server: each connection sends one request behind the other, reads of
                           50 rows and inserts, and what was inserted is deleted at the end. Prints
                           rates, and times of whole requests as a caller sees them. For servers that
                           may be loaded, and a table whose rows may come and go.
          --table          The table.
          --connections    How many; default 8.
          --seconds        How long; default 10.
          --writes         How many of a hundred requests write; default 20.
          --token, --authority  As for doctor.

        --json             One line of JSON in the place of text.

        SIGTERM and SIGINT finish what is under way and end the server, or bench, which tells what it
        measured and deletes what it inserted; a second one ends it at once.
        SIGHUP reads the certificate, the keys of tokens, the operators, the key of the metrics and the
        levels of the log anew.

        Exit codes: 0 done; 1 something stood against it, or doctor found a fault, or a
        request of bench was not done, or standard output did not take what was to be
        printed; 2 a mistake in words or configuration.
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

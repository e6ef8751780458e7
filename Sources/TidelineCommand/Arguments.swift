// Arguments: the words after `tideline`, read strictly. A fault names the word and what is allowed.

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
    /// Of one command.
    case helpOf(String)
    case version
    case serve(ServerConfiguration)
    case certificate(hosts: [String], directory: String, isJSON: Bool)
    case token(ServerConfiguration, subject: String, lifetime: Duration, isJSON: Bool)
    case backup(ServerConfiguration, file: String?, isJSON: Bool)
    case restore(ServerConfiguration, backup: String, isJSON: Bool)
    case purgeTombstones(ServerConfiguration, tables: [String]?, days: Int, isJSON: Bool)
    case inspect(file: String, isJSON: Bool)
    case doctor(Doctor, isJSON: Bool)
    case audit(ServerConfiguration, AuditQuery, isJSON: Bool)
    case bench(Bench, isJSON: Bool)
    case restored(ServerConfiguration, isJSON: Bool)
    case copy(
        from: ServerConfiguration.Database,
        to: ServerConfiguration.Database,
        isJSON: Bool
    )
    case migrate(ServerConfiguration, isApplied: Bool, showsSQL: Bool, isJSON: Bool)

    private static let commands = [
        "serve", "certificate", "token", "backup", "restore", "restored", "migrate",
        "purge-tombstones", "inspect", "audit", "doctor", "bench", "copy", "help",
    ]

    static let usage = """
        Usage: tideline serve [--config FILE] [--database ADDRESS] [--listen HOST:PORT]
                              [--dynamic-schema]
               tideline certificate --host NAME[,NAME…] [--directory DIR] [--json]
               tideline token --config FILE --subject NAME [--expires SECONDS] [--json]
               tideline backup FILE [--config FILE] [--database sqlite:PATH] [--json]
               tideline backup [--config FILE] --database postgres://…
               tideline restore FILE [--config FILE] [--database sqlite:PATH] [--json]
               tideline restored [--config FILE] [--database ADDRESS] [--json]
               tideline migrate [--dry-run | --apply] [--config FILE] [--database ADDRESS]
                              [--dynamic-schema] [--json]
               tideline copy --from ADDRESS --to ADDRESS [--json]
               tideline purge-tombstones --days N [--tables NAME[,NAME…]] [--config FILE]
                              [--database sqlite:PATH] [--json]
               tideline inspect FILE [--json]
               tideline audit [--table NAME] [--id ID] [--user NAME] [--last N] [--config FILE]
                              [--database ADDRESS] [--json]
               tideline doctor --server URL [--token FILE] [--store FILE] [--authority FILE]
                              [--json]
               tideline bench URL --table NAME [--connections N] [--seconds N] [--writes PERCENT]
                              [--token FILE] [--authority FILE] [--json]
               tideline help, --help
               tideline --version

        serve              Starts the server. It prints 'listening on http://HOST:PORT' when ready.
          --config FILE    The configuration, one JSON file; without it there is one table,
                           TodoItem, with the columns text and complete.
          --database       Where the tables are; default sqlite:tideline.db. Or
                           postgres://USER:PASSWORD@HOST:PORT/DATABASE.
          --listen         The address; default 127.0.0.1:8080. An address of this machine, one of IPv6
                           in brackets, or localhost. Port 0 picks one.
          --dynamic-schema Makes tables and columns from what arrives.

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
        migrate            Shows what has to be done to the tables so that they are as declared.
          --dry-run        Shows the SQL, too, that would be run in PostgreSQL.
          --apply          Does it, in one transaction. Make a backup first.

        copy               Copies a database from a file into PostgreSQL or back, with all that devices
                           rely on. Stop the servers of both; what was ended early goes on.
          --from, --to     sqlite:PATH or postgres://…; the second has no tables yet.

        purge-tombstones   Removes deleted rows for good, which devices that were away for longer learn
                           by a pull from the start. The server is stopped.
          --days           How many days they have been deleted at least; 0 for all.
          --tables         Of these tables; without it of all.

        inspect FILE       Tells what is in a server's database or a device's store: tables, queue,
                           errors, cursors, sizes; nothing of what is in rows. Reads only, also while
                           the server or the app runs.

        audit              Tells who changed which columns of which row, and when, in tables with
                           audit; the newest first. Reads only, also while the server runs.
          --table, --id, --user  Of one table, of rows with this id, by one user.
          --last           The most entries; default 100.

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
        case "certificate": self = try Self.certificate(rest)
        case "token": self = try Self.readToken(rest)
        case "backup": self = try Self.backup(rest)
        case "restore": self = try Self.restore(rest)
        case "restored": self = try Self.restored(rest)
        case "migrate": self = try Self.migrate(rest)
        case "purge-tombstones": self = try Self.purgeTombstones(rest)
        case "inspect": self = try Self.inspect(rest)
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

// ConfinedReads: runs statements that an app wrote; SQLite's authorizer confines them to reading
// certain tables.
//
// SQLite calls the authorizer while it compiles a statement, and again whenever it recompiles the
// statement after a schema change. The callback of a connection is set only once, because setting
// it expires all prepared statements. The callback allows everything except while a confined
// statement is being compiled or is running. Confined statements have a separate cache. A statement
// that was compiled without the authorizer is therefore never run as a confined statement, and the
// reverse.

import Foundation
import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The reason that a confined statement is not allowed.
package enum ConfinementError: Error, Sendable, Hashable {
    /// The statement reads a table that is not allowed.
    case table(String)
    /// The statement calls a function that is not allowed.
    case function(String)
    /// The statement does something other than reading.
    case notARead
    /// The text contains no statement.
    case noStatement
    /// The text contains more than one statement.
    case severalStatements
    /// The text contains placeholders without a value.
    case placeholders
    /// This version of SQLite does not report every table that a statement reads.
    case tooOld
}

/// The confined statements of a connection, and the callback that confines them.
///
/// The object belongs to one connection, and only the thread that uses the connection accesses the
/// object.
final class ConfinedReads {
    /// A compiled statement, with the tables that it reads.
    struct Entry {
        let statement: Statement
        let tables: Set<String>
    }

    private var entries = GenerationCache<String, Entry>(countMax: 32)
    /// Whether the callback has been set.
    private var isSet = false
    /// The tables that may be read, in lower case; nil while no confined statement is being
    /// compiled or is running.
    private var allowed: Set<String>?
    /// The allowed tables that have been read, in lower case.
    private var tables: Set<String> = []
    /// Names from which no column is read and that are not allowed tables: common table expressions
    /// or other tables.
    private var unknown: Set<String> = []
    private var denial: ConfinementError?

    func removeAll() { entries.removeAll() }

    private func answer(
        _ action: Int32,
        _ first: UnsafePointer<CChar>?,
        _ second: UnsafePointer<CChar>?,
        _ database: UnsafePointer<CChar>?
    ) -> Int32 {
        guard let allowed else { return SQLITE_OK }
        let first = first.map { String(cString: $0) } ?? ""
        let second = second.map { String(cString: $0) } ?? ""
        switch action {
        case SQLITE_SELECT, SQLITE_RECURSIVE: return SQLITE_OK
        case SQLITE_READ:
            let name = first.lowercased()
            let isMain = database.map { String(cString: $0) == "main" } ?? true
            if isMain, allowed.contains(name) {
                tables.insert(name)
                return SQLITE_OK
            }
            // These table functions get their rows from an argument.
            if ["json_each", "json_tree"].contains(name) { return SQLITE_OK }
            if second.isEmpty {
                unknown.insert(first)
                return SQLITE_OK
            }
            return deny(.table(first))
        case SQLITE_FUNCTION:
            let name = second.lowercased()
            let isAllowed = name.hasPrefix("tl_") || Self.functions.contains(name)
            return isAllowed ? SQLITE_OK : deny(.function(second))
        default: return deny(.notARead)
        }
    }

    private func deny(_ reason: ConfinementError) -> Int32 {
        denial = denial ?? reason
        return SQLITE_DENY
    }

    /// The SQLite functions that read nothing except their arguments and the time.
    private static let functions: Set<String> = [
        "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg",
        "ceil", "ceiling", "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count",
        "cume_dist", "current_date", "current_time", "current_timestamp", "date", "datetime",
        "degrees", "dense_rank", "exp", "first_value", "floor", "format", "glob", "group_concat",
        "hex", "if", "ifnull", "iif", "instr", "json", "json_array", "json_array_length",
        "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
        "json_patch", "json_quote", "json_remove", "json_replace", "json_set", "json_type",
        "json_valid", "julianday", "lag", "last_value", "lead", "length", "like", "likelihood",
        "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "median", "min", "mod",
        "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "percentile", "pi", "pow",
        "power", "printf", "quote", "radians", "random", "rank", "replace", "round", "row_number",
        "rtrim", "sign", "sin", "sinh", "sqrt", "strftime", "string_agg", "substr", "substring",
        "sum", "tan", "tanh", "time", "timediff", "total", "trim", "trunc", "typeof", "unhex",
        "unicode", "unixepoch", "unlikely", "upper",
    ]
}

extension ConfinedReads {
    /// Runs `body` with a statement on a connection; see `Database.readConfined`.
    func read<Result>(
        _ sql: String,
        _ values: [SQLValue],
        to allowed: Set<String>,
        stop: QueryStop?,
        on database: Database,
        _ body: (Statement) throws -> Result
    ) throws -> (result: Result, tables: Set<String>) {
        guard Database.reportsAllTables else { throw ConfinementError.tooOld }
        if !isSet { setAuthorizer(of: database) }
        self.allowed = allowed
        denial = nil
        defer { self.allowed = nil }
        do {
            let entry = try statement(sql, database)
            guard entry.statement.parameterCount == values.count else {
                throw ConfinementError.placeholders
            }
            defer {
                entry.statement.reset()
                entry.statement.clearBindings()
            }
            try entry.statement.bind(values)
            // Without a time limit, the statement could not be stopped.
            let result = try database.limitTime(.seconds(365 * 86_400), stop: stop) {
                try body(entry.statement)
            }
            // SQLite recompiles a cached statement after a schema change.
            try checkUnknown(database)
            return (result, entry.tables.union(tables))
        } catch {
            throw denial ?? error
        }
    }

    private func setAuthorizer(of database: Database) {
        isSet = true
        // The first use of these table functions on a connection declares them, which the
        // authorizer would reject as a change.
        _ = try? database.prepareOnce("SELECT 1 FROM json_each('[]'), json_tree('[]')")
        sqlite3_set_authorizer(
            database.handle,
            { context, action, first, second, database, _ in
                guard let context else { return SQLITE_DENY }
                return Unmanaged<ConfinedReads>.fromOpaque(context).takeUnretainedValue()
                    .answer(action, first, second, database)
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    private func statement(_ sql: String, _ database: Database) throws -> Entry {
        (tables, unknown) = ([], [])
        // A connection's set of allowed tables only grows, so a cached statement stays allowed.
        if let entry = entries.value(sql) {
            entry.statement.prepareForReuse()
            return entry
        }
        let (statement, rest) = try prepareFirst(of: sql, database)
        guard try prepareRest(rest, database) == nil else {
            throw ConfinementError.severalStatements
        }
        guard let statement else { throw ConfinementError.noStatement }
        guard statement.isReadOnly, statement.columnCount > 0 else {
            throw ConfinementError.notARead
        }
        try checkUnknown(database)
        let entry = Entry(statement: statement, tables: tables)
        entries.put(entry, for: sql)
        return entry
    }

    /// Compiles the first statement in a string, and returns it with the rest of the string; the
    /// statement is nil for white space and comments.
    private func prepareFirst(
        of sql: String,
        _ database: Database
    ) throws -> (Statement?, rest: String) {
        var pointer: OpaquePointer?
        var rest = ""
        let code = sql.withCString { start in
            var end: UnsafePointer<CChar>?
            let flags = UInt32(SQLITE_PREPARE_PERSISTENT)
            let code = sqlite3_prepare_v3(database.handle, start, -1, flags, &pointer, &end)
            if let end { rest = String(cString: end) }
            return code
        }
        guard code == SQLITE_OK else { throw database.failure(code, sql) }
        return (pointer.map { Statement($0, database) }, rest)
    }

    /// Compiles the text after the first statement; nil if there are only white space and comments.
    private func prepareRest(_ rest: String, _ database: Database) throws -> Statement? {
        var rest = rest
        while !rest.isEmpty {
            let (statement, next) = try prepareFirst(of: rest, database)
            if statement != nil || next == rest { return statement }
            rest = next
        }
        return nil
    }

    /// Checks the names from which no column is read.
    ///
    /// For these names, SQLite does not say whether they are tables or common table expressions.
    private func checkUnknown(_ database: Database) throws {
        guard !unknown.isEmpty else { return }
        let (names, allowed) = (unknown, allowed)
        self.allowed = nil
        defer { self.allowed = allowed }
        for name in names {
            let lowered = name.lowercased()
            let isInternal = lowered.hasPrefix("sqlite_") || lowered.hasPrefix("pragma_")
            guard !isInternal, try !isTableOrModule(name, database) else {
                throw ConfinementError.table(name)
            }
        }
    }

    private func isTableOrModule(_ name: String, _ database: Database) throws -> Bool {
        for catalog in ["sqlite_master", "sqlite_temp_master"] {
            let sql = "SELECT 1 FROM \(catalog) WHERE name = ?1 COLLATE NOCASE"
            if try database.integer(sql, [.text(name)]) != nil { return true }
        }
        // SQLite before 3.16 cannot list its modules.
        let modules = try database.prepareOnce("PRAGMA module_list")
        while try modules.step() {
            if modules.text(0).lowercased() == name.lowercased() { return true }
        }
        return false
    }
}

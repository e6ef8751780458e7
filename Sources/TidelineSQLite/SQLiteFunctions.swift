// SQLiteFunctions: the scalar functions `tl_*` and the collation `tl_decimal`, which rendered
// filters use.
//
// The implementations are in TidelineCore (SQLFunctions). FilterEvaluator uses the same ones, so
// that memory and database agree. C function pointers cannot capture anything, so each of them is a
// literal here.

import Foundation
import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// Registers the functions and the collation on a connection; call this before the connection's
/// first statement.
///
/// - Returns: `SQLITE_OK`, or the code of the first registration that failed.
package func registerTidelineFunctions(on handle: OpaquePointer) -> Int32 {
    registerTidelineFunctions(on: handle, deadline: nil)
}

/// Registers the functions; those that read long strings check the deadline, which must outlive the
/// connection.
func registerTidelineFunctions(on handle: OpaquePointer, deadline: QueryDeadline?) -> Int32 {
    let groups = [
        registerConditions, registerText, registerDates, registerNumbers, registerPrograms,
    ]
    for register in groups {
        let code = register(handle, deadline)
        guard code == SQLITE_OK else { return code }
    }
    let code = registerLocalizedCollations(on: handle)
    guard code == SQLITE_OK else { return code }
    return sqlite3_create_collation_v2(
        handle,
        "tl_decimal",
        SQLITE_UTF8,
        nil,
        { _, leftCount, left, rightCount, right in
            let one = UnsafeRawBufferPointer(start: left, count: Int(leftCount))
            let two = UnsafeRawBufferPointer(start: right, count: Int(rightCount))
            return Int32(DecimalText.compare(one, two))
        },
        nil
    )
}

typealias Body =
    @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void

func define(
    _ handle: OpaquePointer,
    _ deadline: QueryDeadline?,
    _ functions: [(name: String, arity: Int32, body: Body)]
) -> Int32 {
    let context = deadline.map { Unmanaged.passUnretained($0).toOpaque() }
    let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
    for (name, arity, body) in functions {
        let code = sqlite3_create_function_v2(
            handle,
            "tl_" + name,
            arity,
            flags,
            context,
            body,
            nil,
            nil,
            nil
        )
        guard code == SQLITE_OK else { return code }
    }
    return SQLITE_OK
}

private func registerConditions(_ handle: OpaquePointer, _ deadline: QueryDeadline?) -> Int32 {
    define(
        handle,
        deadline,
        [
            ("contains", 2, { text($0, .contains, $1, $2) }),
            ("localizedcontains", 2, { text($0, .localizedContains, $1, $2) }),
            (
                "localizedcaseinsensitivecontains", 2,
                { text($0, .localizedCaseInsensitiveContains, $1, $2) }
            ),
            ("startswith", 2, { text($0, .startswith, $1, $2) }),
            ("endswith", 2, { text($0, .endswith, $1, $2) }),
            ("matchespattern", 2, { matchesPattern($0, $1, $2) }),
            ("isof", 3, { typed($0, .isof, $2) }),
            ("cast", 3, { typed($0, .cast, $2) }),
            (
                "decimal_compare", 2,
                { respond($0, SQLFunctions.decimalCompare(argument($2, 0), argument($2, 1))) }
            ),
            (
                "decimal_equal", 2,
                { respond($0, SQLFunctions.decimalEqual(argument($2, 0), argument($2, 1))) }
            ),
        ]
    )
}

private func registerText(_ handle: OpaquePointer, _ deadline: QueryDeadline?) -> Int32 {
    define(
        handle,
        deadline,
        [
            ("length", 1, { text($0, .length, $1, $2) }),
            ("indexof", 2, { text($0, .indexof, $1, $2) }),
            ("substring", 2, { text($0, .substring, $1, $2) }),
            ("substring", 3, { text($0, .substring, $1, $2) }),
            ("replace", 3, { text($0, .replace, $1, $2) }),
            ("tolower", 1, { text($0, .tolower, $1, $2) }),
            ("toupper", 1, { text($0, .toupper, $1, $2) }),
            ("trim", 1, { text($0, .trim, $1, $2) }),
            ("concat", 2, { text($0, .concat, $1, $2) }),
        ]
    )
}

private func registerDates(_ handle: OpaquePointer, _ deadline: QueryDeadline?) -> Int32 {
    define(
        handle,
        deadline,
        [
            ("year", 1, { respond($0, SQLFunctions.date(.year, argument($2, 0))) }),
            ("month", 1, { respond($0, SQLFunctions.date(.month, argument($2, 0))) }),
            ("day", 1, { respond($0, SQLFunctions.date(.day, argument($2, 0))) }),
            ("hour", 1, { respond($0, SQLFunctions.date(.hour, argument($2, 0))) }),
            ("minute", 1, { respond($0, SQLFunctions.date(.minute, argument($2, 0))) }),
            ("second", 1, { respond($0, SQLFunctions.date(.second, argument($2, 0))) }),
            (
                "fractionalseconds", 1,
                { respond($0, SQLFunctions.date(.fraction, argument($2, 0))) }
            ),
            (
                "totaloffsetminutes", 1,
                { respond($0, SQLFunctions.date(.offset, argument($2, 0))) }
            ),
            ("date", 1, { respond($0, SQLFunctions.date(.date, argument($2, 0))) }),
            ("time", 1, { respond($0, SQLFunctions.date(.time, argument($2, 0))) }),
        ]
    )
}

private func registerNumbers(_ handle: OpaquePointer, _ deadline: QueryDeadline?) -> Int32 {
    define(
        handle,
        deadline,
        [
            ("add", 2, { arithmetic($0, .add, $2) }),
            ("sub", 2, { arithmetic($0, .sub, $2) }),
            ("mul", 2, { arithmetic($0, .mul, $2) }),
            ("div", 2, { arithmetic($0, .div, $2) }),
            ("divby", 2, { arithmetic($0, .divby, $2) }),
            ("mod", 2, { arithmetic($0, .mod, $2) }),
            ("negate", 1, { respond($0, SQLFunctions.negate(argument($2, 0))) }),
            ("floor", 1, { respond($0, SQLFunctions.round(argument($2, 0), .down)) }),
            ("ceiling", 1, { respond($0, SQLFunctions.round(argument($2, 0), .up)) }),
            ("round", 1, { respond($0, SQLFunctions.round(argument($2, 0), .halfToEven)) }),
            (
                "roundaway", 1,
                { respond($0, SQLFunctions.round(argument($2, 0), .halfAwayFromZero)) }
            ),
        ]
    )
}

/// Registers a function that reads its arguments as strings.
private func text(
    _ context: OpaquePointer?,
    _ function: Function,
    _ count: Int32,
    _ values: UnsafeMutablePointer<OpaquePointer?>?,
    pattern: TextPattern? = nil
) {
    let bytes = (0..<Int(count)).reduce(64) { sum, index in
        sum + Int(sqlite3_value_bytes(values?[index]))
    }
    watched(context) { watch in
        if let watch, watch.isOver(beforeReading: bytes) { return .null }
        return SQLFunctions.text(function, arguments(count, values), watch, pattern: pattern)
    }
}

/// A compiled pattern, which SQLite caches with the statement as long as the argument does not
/// change.
private final class CachedPattern {
    let pattern: TextPattern

    init(_ text: String) { pattern = .search(text) }
}

private func matchesPattern(
    _ context: OpaquePointer?,
    _ count: Int32,
    _ values: UnsafeMutablePointer<OpaquePointer?>?
) {
    if let known = sqlite3_get_auxdata(context, 1) {
        let kept = Unmanaged<CachedPattern>.fromOpaque(known).takeUnretainedValue()
        return text(context, .matchesPattern, count, values, pattern: kept.pattern)
    }
    guard case .text(let other) = argument(values, 1) else {
        return text(context, .matchesPattern, count, values)
    }
    let created = CachedPattern(other)
    text(context, .matchesPattern, count, values, pattern: created.pattern)
    sqlite3_set_auxdata(context, 1, Unmanaged.passRetained(created).toOpaque()) {
        if let object = $0 { Unmanaged<CachedPattern>.fromOpaque(object).release() }
    }
}

/// Returns the result of `body`, or interrupts the statement if its time limit has been reached.
func watched(_ context: OpaquePointer?, _ body: (EvaluationWatch?) -> SQLValue) {
    guard let data = sqlite3_user_data(context) else { return respond(context, body(nil)) }
    let deadline = Unmanaged<QueryDeadline>.fromOpaque(data).takeUnretainedValue()
    let watch = EvaluationWatch { deadline.isOver(beforeReading: $0) }
    let result = body(watch)
    if watch.isOver { return sqlite3_result_error_code(context, SQLITE_INTERRUPT) }
    respond(context, result)
}

private func typed(
    _ context: OpaquePointer?,
    _ function: Function,
    _ values: UnsafeMutablePointer<OpaquePointer?>?
) {
    respond(
        context,
        SQLFunctions.typed(
            function,
            argument(values, 0),
            argument(values, 1),
            argument(values, 2)
        )
    )
}

private func arithmetic(
    _ context: OpaquePointer?,
    _ operation: Arithmetic,
    _ values: UnsafeMutablePointer<OpaquePointer?>?
) {
    respond(context, SQLFunctions.arithmetic(operation, argument(values, 0), argument(values, 1)))
}

// MARK: - Arguments and results

func arguments(
    _ count: Int32,
    _ values: UnsafeMutablePointer<OpaquePointer?>?
) -> [SQLValue] {
    (0..<Int(count)).map { argument(values, $0) }
}

/// Returns an argument as a string.
///
/// The length is read after the conversion to UTF-8, because the string may contain NUL.
func argument(_ values: UnsafeMutablePointer<OpaquePointer?>?, _ index: Int) -> SQLValue {
    guard let value = values?[index] else { return .null }
    switch sqlite3_value_type(value) {
    case SQLITE_INTEGER: return .integer(sqlite3_value_int64(value))
    case SQLITE_FLOAT: return .real(sqlite3_value_double(value))
    case SQLITE_TEXT:
        let start = sqlite3_value_text(value)
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
        return .text(String(decoding: bytes, as: UTF8.self))
    case SQLITE_BLOB:
        guard let start = sqlite3_value_blob(value) else { return .blob(Data()) }
        return .blob(Data(bytes: start, count: Int(sqlite3_value_bytes(value))))
    default: return .null
    }
}

/// SQLITE_TRANSIENT, a macro with a cast that Swift does not import: it makes SQLite copy the
/// bytes.
private let transient = unsafeBitCast(Int(-1), to: sqlite3_destructor_type.self)

private func respond(_ context: OpaquePointer?, _ value: SQLValue) {
    switch value {
    case .null, .program: sqlite3_result_null(context)
    case .integer(let whole): sqlite3_result_int64(context, whole)
    case .real(let number): sqlite3_result_double(context, number)
    case .text(let text):
        var copy = text
        copy.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) {
                sqlite3_result_text64(
                    context,
                    $0.baseAddress,
                    UInt64($0.count),
                    transient,
                    UInt8(SQLITE_UTF8)
                )
            }
        }
    case .blob(let data):
        data.withUnsafeBytes {
            sqlite3_result_blob(context, $0.baseAddress, Int32($0.count), transient)
        }
    }
}

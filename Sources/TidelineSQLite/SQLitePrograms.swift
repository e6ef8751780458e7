// SQLitePrograms: the function `tl_program`, which evaluates a FilterProgram, and the binding of
// programs.
//
// SQLite passes pointers from a binding to a function, and from a function to the enclosing
// function, if both name the same pointer type. Each pointer owns its object until SQLite calls the
// destructor.

package import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

private let programType: StaticString = "tl_program"
private let argumentsType: StaticString = "tl_arguments"

/// Returns the name of a pointer type, which must live as long as the process because SQLite stores
/// its address.
private func name(_ type: StaticString) -> UnsafePointer<CChar> {
    UnsafeRawPointer(type.utf8Start).assumingMemoryBound(to: CChar.self)
}

/// The column values, bundled for SQLite builds that limit a function to fewer arguments.
private final class Arguments {
    let values: [SQLValue]

    init(_ values: [SQLValue]) { self.values = values }
}

/// Binds a program to a placeholder of a statement.
package func bindProgram(_ statement: OpaquePointer?, _ index: Int32, _ program: FilterProgram) {
    sqlite3_bind_pointer(
        statement,
        index,
        Unmanaged.passRetained(program).toOpaque(),
        name(programType),
        { if let object = $0 { Unmanaged<FilterProgram>.fromOpaque(object).release() } }
    )
}

func registerPrograms(_ handle: OpaquePointer, _ deadline: QueryDeadline?) -> Int32 {
    define(
        handle,
        deadline,
        [
            ("program", -1, { program($0, $1, $2) }),
            (
                "arguments", -1,
                { context, count, values in
                    let object = Arguments(arguments(count, values))
                    sqlite3_result_pointer(
                        context,
                        Unmanaged.passRetained(object).toOpaque(),
                        name(argumentsType),
                        { if let object = $0 { Unmanaged<Arguments>.fromOpaque(object).release() } }
                    )
                }
            ),
        ]
    )
}

private func program(
    _ context: OpaquePointer?,
    _ count: Int32,
    _ values: UnsafeMutablePointer<OpaquePointer?>?
) {
    guard count > 0, let pointer = sqlite3_value_pointer(values?[0], name(programType)) else {
        return sqlite3_result_null(context)
    }
    let program = Unmanaged<FilterProgram>.fromOpaque(pointer).takeUnretainedValue()
    var arguments: [SQLValue] = []
    for index in 1..<Int(count) {
        if let group = sqlite3_value_pointer(values?[index], name(argumentsType)) {
            arguments += Unmanaged<Arguments>.fromOpaque(group).takeUnretainedValue().values
        } else {
            arguments.append(argument(values, index))
        }
    }
    watched(context) { program.evaluate(arguments, $0) }
}

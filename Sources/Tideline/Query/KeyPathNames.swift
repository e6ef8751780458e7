// KeyPathNames: names of properties in queries.
//
// The `debugDescription` of a key path is `\TodoItem.text`, even in optimized and stripped programs (measured). Because
// this is a debug format, a string that does not look like one stored property is rejected; no name is guessed. A model
// can instead name its columns by key path (`static var columns`).

import TidelineCore

/// A lookup of the name of a key path's property.
enum KeyPathNames {
    static func property(of path: AnyKeyPath, table: String) throws -> String {
        let text = path.debugDescription
        func fail(_ reason: String) -> SyncError {
            .unknownColumn(keyPath: text, table: table, reason: reason)
        }
        let root = rootPrefix(type(of: path).rootType)
        guard text.hasPrefix(root) else { throw fail("has an unknown form") }
        let name = text.dropFirst(root.count)
        if name.isEmpty || name == "self" { throw fail("is the whole record") }
        if name.contains(".") || name.contains("?") || name.contains("!") || name.contains("[") {
            throw fail("refers to a part of a value")
        }
        if name.contains("<") { throw fail("is computed, or the program has no reflection data") }
        return String(name)
    }

    /// Returns the names of the properties along a key path; empty if one of them is computed.
    static func properties(of path: AnyKeyPath) -> [String] {
        let text = path.debugDescription
        let root = rootPrefix(type(of: path).rootType)
        guard text.hasPrefix(root), !text.contains("<computed"), !text.contains("[") else {
            return []
        }
        return text.dropFirst(root.count).split(separator: ".").map { name in
            String(name.prefix { $0 != "?" && $0 != "!" })
        }
    }

    /// Returns `\TodoItem.`, derived from the type itself, so that generic and nested types work.
    private static func rootPrefix(_ type: Any.Type) -> String {
        func prefix<Root>(_ type: Root.Type) -> String {
            String((\Root.self).debugDescription.dropLast("self".count))
        }
        return prefix(type)
    }
}

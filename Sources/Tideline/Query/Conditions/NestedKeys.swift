// NestedKeys: properties of nested values in queries, found once for each type.
//
// A nested type is examined like a model: SchemaProbe runs its `init(from:)` and records the keys it asks for.

import Foundation
import Synchronization
import TidelineCore

/// A cache of the JSON members of nested values, by type and property.
enum NestedKeys {
    /// A property of a nested type.
    private struct Key: Sendable {
        /// The name of the JSON member.
        let name: String
        /// The type of the property, without optionality.
        // A type does not change. Only its `init(from:)` could need an actor, and that initializer runs where the
        // caller of the query runs.
        nonisolated(unsafe) let type: (any Decodable.Type)?
    }

    private static let known = Mutex<[ObjectIdentifier: [String: Key]]>([:])

    /// Returns the JSON member of a property of a nested value.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for any other key path.
    static func name(of path: AnyKeyPath, in type: any Decodable.Type) throws -> String {
        let names = KeyPathNames.properties(of: path)
        guard names.count == 1, let key = keys(of: type)[names[0]] else {
            throw failure(path, type)
        }
        return key.name
    }

    /// Returns the JSON members on the way from a property of a type to a property of a nested value.
    static func names(
        _ properties: ArraySlice<String>,
        of property: String,
        in type: any Decodable.Type,
        path: AnyKeyPath
    ) throws -> [String] {
        var names: [String] = []
        var next = keys(of: type)[property]?.type
        for property in properties {
            guard let type = next, let key = keys(of: type)[property] else {
                throw failure(path, next ?? type)
            }
            names.append(key.name)
            next = key.type
        }
        return names
    }

    private static func failure(_ path: AnyKeyPath, _ type: any Decodable.Type) -> SyncError {
        .unsupportedQuery(
            """
            key path '\(path.debugDescription)' names no stored property of '\(type)' with a key \
            of its own. Name the JSON members: $0["address"]["city"].
            """
        )
    }

    private static func keys(of type: any Decodable.Type) -> [String: Key] {
        let identifier = ObjectIdentifier(type)
        if let keys = known.withLock({ $0[identifier] }) { return keys }
        let keys = probe(type)
        known.withLock { $0[identifier] = keys }
        return keys
    }

    private static func probe<T: Decodable>(_ type: T.Type) -> [String: Key] {
        let probe = SchemaProbe(declared: [:])
        // An initializer that rejects the placeholders has already asked for some of the keys.
        _ = try? T(from: probe)
        return Dictionary(
            probe.columns.map { ($0.property, Key(name: $0.definition.name, type: $0.content)) },
            uniquingKeysWith: { first, _ in first }
        )
    }
}

extension QueryExpression {
    /// Returns the member or the element of a document in the form in which a property of a Swift
    /// type reads it.
    ///
    /// JSON has no types for instants, UUIDs, bytes and times of day. Their strings are cast, because two different
    /// strings can represent the same value.
    func read(as type: Any.Type) -> QueryExpression {
        let type = PropertyType.unwrapped(type)
        if type == Date.self { return cast(to: .dateTimeOffset) }
        if type == UUID.self { return cast(to: .guid) }
        if type == Data.self { return cast(to: .binary) }
        return type == LocalTime.self ? cast(to: .timeOfDay) : self
    }

    /// Returns the member of a document as a sort key, which needs a type.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a type without an order.
    func sortKey(as type: Any.Type) throws -> QueryExpression {
        let type = PropertyType.raw(PropertyType.unwrapped(type))
        if type == String.self || type == LocalDate.self || type == URL.self {
            return cast(to: .string)
        }
        if type is any FixedWidthInteger.Type { return cast(to: .int64) }
        if type is any BinaryFloatingPoint.Type { return cast(to: .double) }
        if type == Bool.self { return cast(to: .boolean) }
        if type == Decimal.self { return cast(to: .decimal) }
        let read = read(as: type)
        guard read != self else {
            throw SyncError.unsupportedQuery(
                "an order by a value of type '\(type)'. Order by a string, a number or a date in it."
            )
        }
        return read
    }

    private func cast(to type: EdmType) -> QueryExpression {
        .call(.cast, self, QueryExpression(.value(.string(type.rawValue))))
    }
}

/// The type of a property, for code that knows it only at run time.
private enum PropertyType {
    static func unwrapped(_ type: Any.Type) -> Any.Type {
        (type as? any OptionalType.Type)?.wrapped ?? type
    }

    /// Returns the type of an enum's raw values, and any other type unchanged.
    static func raw(_ type: Any.Type) -> Any.Type {
        func raw<T: RawRepresentable>(_ type: T.Type) -> Any.Type { T.RawValue.self }
        return (type as? any RawRepresentable.Type).map { raw($0) } ?? type
    }
}

/// An optional type, which names the type that it wraps.
private protocol OptionalType {
    static var wrapped: Any.Type { get }
}

extension Optional: OptionalType {
    fileprivate static var wrapped: Any.Type { Wrapped.self }
}

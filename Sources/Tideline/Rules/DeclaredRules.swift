// DeclaredRules: the rules of a model as rules of its columns and of its table.

import TidelineCore

/// The rules of a model, which are added to the columns of its table.
struct DeclaredRules<Record> {
    let rules: [Rule<Record>]
    /// The name of the model.
    let model: String
    /// Returns the column of a property.
    let column: (AnyKeyPath) throws -> String

    /// The maximum of `maxLength`, as on the server.
    private static var lengthMax: Int { 1_000_000_000 }

    /// Adds the rules to a table.
    ///
    /// - Throws: ``SyncError`` with code `invalidModel` for a rule that no server would accept, or
    ///   `unsupportedQuery` for a path that has no column.
    func apply(to table: inout TableSchema) throws {
        for rule in rules {
            switch rule.kind {
            case .required(let path):
                try change(path, .required, in: &table) { $0.rules.isRequired = true }
            case .maxLength(let path, let length):
                guard 0...Self.lengthMax ~= length else {
                    throw fault(
                        ".maxLength",
                        "has a length outside 0 to \(Self.lengthMax)"
                    )
                }
                try change(path, .maxLength, in: &table) { $0.rules.maxLength = length }
            case .min(let path, let value): try bound(path, value, nil, in: &table)
            case .max(let path, let value): try bound(path, nil, value, in: &table)
            case .range(let path, let min, let max): try bound(path, min, max, in: &table)
            case .pattern(let path, let pattern):
                do {
                    _ = try TextPattern(pattern)
                } catch {
                    let place = "at character \(error.position)"
                    throw fault(".pattern", "has an invalid pattern: \(error.message), \(place)")
                }
                try change(path, .pattern, in: &table) { $0.rules.pattern = pattern }
            case .unique(let paths): try unique(paths, in: &table)
            case .compare(let left, let comparison, let right):
                try compare(left, comparison, right, in: &table)
            }
        }
    }

    private func fault(_ rule: String, _ reason: String) -> SyncError {
        .invalidModel(model, "the rule '\(rule)' \(reason). Change it in 'rules'.")
    }

    /// Returns the index of the column of a property.
    private func place(
        _ path: AnyKeyPath,
        _ rule: String,
        in table: TableSchema
    ) throws -> Int {
        let name = try column(path)
        guard let place = table.columns.firstIndex(where: { $0.name == name }) else {
            throw fault(rule, "names '\(name)', a system column")
        }
        return place
    }

    private func change(
        _ path: AnyKeyPath,
        _ rule: ColumnCheck.Rule,
        in table: inout TableSchema,
        _ change: (inout ColumnDefinition) -> Void
    ) throws {
        let place = try place(path, "." + rule.rawValue, in: table)
        let column = table.columns[place]
        guard rule.fits(column.type) else {
            throw fault(
                "." + rule.rawValue,
                "names '\(column.name)', which has the type \(column.type.name)"
            )
        }
        change(&table.columns[place])
    }

    private func bound(
        _ path: AnyKeyPath,
        _ min: Result<Value, any Error>?,
        _ max: Result<Value, any Error>?,
        in table: inout TableSchema
    ) throws {
        for (rule, bound) in [(ColumnCheck.Rule.min, min), (.max, max)] {
            guard let bound else { continue }
            let place = try place(path, "." + rule.rawValue, in: table)
            let type = table.columns[place].type
            guard case .success(let value) = bound, !value.isNull,
                RowCheck.fault(of: value, in: type) == nil
            else {
                throw fault("." + rule.rawValue, "has a value that is not a valid \(type.name)")
            }
            try change(path, rule, in: &table) {
                if rule == .min { $0.rules.min = value } else { $0.rules.max = value }
            }
            let column = table.columns[place]
            if let low = column.rules.min, let high = column.rules.max {
                let values = [low, high].map { SQLValue($0, type: type) }
                if ColumnCheck.isLess(values[1], values[0], type) {
                    throw fault(".max", "for '\(column.name)' is less than the minimum")
                }
            }
        }
    }

    private func unique(_ paths: [AnyKeyPath], in table: inout TableSchema) throws {
        let columns = try paths.map { table.columns[try place($0, ".unique", in: table)] }
        guard let first = columns.first else { throw fault(".unique", "names no property") }
        let names = columns.map(\.name)
        guard Set(names).count == names.count else {
            throw fault(".unique", "names a property twice")
        }
        guard !columns.contains(where: { $0.type == .json }) else {
            throw fault(".unique", "for '\(first.name)' names a nested value or a list")
        }
        guard !table.rules.unique.contains(where: { Set($0) == Set(names) }) else { return }
        table.rules.unique.append(names)
    }

    private func compare(
        _ left: AnyKeyPath,
        _ comparison: ColumnComparison.Operator,
        _ right: AnyKeyPath,
        in table: inout TableSchema
    ) throws {
        let places = try [left, right].map { try place($0, ".compare", in: table) }
        let columns = places.map { table.columns[$0] }
        let types = zip(columns, [left, right]).map { column, path -> ColumnType in
            guard column.type == .string else { return column.type }
            return EnumerationMembers.of(type(of: path).valueType).map(ColumnType.enumeration)
                ?? column.type
        }
        let names = "'\(columns[0].name)' and '\(columns[1].name)'"
        guard places[0] != places[1], types[0] == types[1] else {
            throw fault(".compare", "names \(names), which are not two properties of the same type")
        }
        guard ColumnComparison.fits(comparison, types[0]) else {
            throw fault(
                ".compare",
                "names \(names), which cannot be compared with '\(comparison.rawValue)'"
            )
        }
        if case .enumeration(let members) = types[0] {
            for column in columns { table.rules.members[column.name] = members }
        }
        let rule = ColumnComparison(columns[0].name, comparison, columns[1].name)
        if !table.rules.comparisons.contains(rule) { table.rules.comparisons.append(rule) }
    }
}

/// The raw values of an enum that is encoded as strings, in the order of its cases.
enum EnumerationMembers {
    /// Returns the members of a type, or of the type of an optional; nil if it is not such an enum.
    static func of(_ type: Any.Type) -> [String]? {
        if let optional = type as? any Wrapping.Type { return of(optional.wrapped) }
        guard let type = type as? any CaseIterable.Type else { return nil }
        return members(type)
    }

    private static func members<Enumeration: CaseIterable>(
        _ type: Enumeration.Type
    ) -> [String]? {
        // A type that accepts any string has values that are not among its cases.
        guard let raw = type as? any RawRepresentable.Type, !accepts("\u{1}", raw) else {
            return nil
        }
        let members = type.allCases.compactMap { member -> String? in
            guard let member = member as? any RawRepresentable & Encodable,
                let text = rawValue(member),
                (try? ScalarEncoder.value(of: member)) == .string(text)
            else { return nil }
            return text
        }
        return members.isEmpty || members.count < type.allCases.count ? nil : members
    }

    private static func accepts<Raw: RawRepresentable>(_ text: String, _ type: Raw.Type) -> Bool {
        (text as? Raw.RawValue).flatMap(Raw.init(rawValue:)) != nil
    }

    private static func rawValue(_ member: some RawRepresentable) -> String? {
        member.rawValue as? String
    }
}

/// An optional type, which names the type that it wraps.
private protocol Wrapping {
    static var wrapped: Any.Type { get }
}

extension Optional: Wrapping {
    fileprivate static var wrapped: Any.Type { Wrapped.self }
}

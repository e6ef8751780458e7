// FormerNames: rows and errors with the former names of columns, for the apps that still use them. Pure.
//
// Inside the server, a row has only the current names. Requests may use both; `Table.member` and `TableSchema` find
// the column.

import TidelineCore

/// The former names of the columns of a table.
package struct FormerNames: Sendable {
    /// The former names by the current one.
    private let names: [String: [String]]
    private let current: [String: String]

    /// Creates a value; nil for a table without former names.
    package init?(of table: Table) {
        let aliases = table.definition.aliases
        guard !aliases.isEmpty else { return nil }
        current = aliases
        names = Dictionary(grouping: aliases.keys.sorted()) { aliases[$0] ?? "" }
    }

    /// Returns the body with each value under all names of its column; nil if it cannot be read.
    ///
    /// A row that was stored for a repeated request before a column was renamed has only the former name.
    package func added(to body: [UInt8], _ shape: TextNumbers.Shape) -> [UInt8]? {
        var editor = TextEditor(body)
        let isRead = body.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            return (try? shape.eachRow(&reader) { try row($0, &$1, &editor) }) != nil
        }
        return isRead ? editor.result : nil
    }

    private func row(
        _ token: JSONReader.Token,
        _ reader: inout JSONReader,
        _ editor: inout TextEditor
    ) throws {
        guard case .object = token else { return try reader.skip(token) }
        try reader.beginObject()
        var members: [String: Range<Int>] = [:]
        var end = reader.position
        while let name = try reader.nextMember() {
            let value = try reader.rawValue()
            members[reader.text(name)] = value
            end = value.upperBound
        }
        var added = JSONWriter()
        func add(_ name: String, _ value: Range<Int>) {
            guard members[name] == nil else { return }
            added.byte(",")
            added.string(name)
            added.byte(":")
            added.raw(Array(editor.bytes[value]))
        }
        for (name, former) in names.sorted(by: { $0.key < $1.key }) {
            let value = members[name] ?? former.lazy.compactMap { members[$0] }.first
            guard let value else { continue }
            add(name, value)
            for former in former { add(former, value) }
        }
        editor.replace(end..<end, with: added.bytes)
    }
}

extension TableCatalog {
    /// Returns the answer with rows that have all names of their columns.
    func formerNames(
        in answer: ServerResponse,
        table name: String,
        _ shape: TextNumbers.Shape,
        _ log: ServerLog
    ) -> ServerResponse {
        guard hasFormerNames, !answer.body.isEmpty,
            answer.headers["Content-Type"]?.hasPrefix("application/json") == true,
            let names = table(named: name).flatMap({ FormerNames(of: $0) })
        else { return answer }
        guard let body = names.added(to: answer.body, shape) else {
            // Apps that use a former name would read the default of the column.
            log.write(
                .error,
                "a response has only the current names of its columns, because it could not be parsed",
                ["table": name]
            )
            return answer
        }
        var changed = answer
        changed.body = body
        return changed
    }
}

extension FormerNames {
    /// Returns an error that names columns as the body of the rejected write does.
    fileprivate func named(_ error: ServerError, as body: [UInt8]) -> ServerError {
        let reference = error.code == .parentNotFound ? error.reference : nil
        let columns = error.columns + [reference?.column].compactMap(\.self)
        guard columns.contains(where: { names[$0] != nil }) else { return error }
        let members = Self.members(of: body)
        var result = error
        for column in Set(columns) where !members.contains(column.lowercased()) {
            guard
                let name = names[column]?.first(where: { members.contains($0.lowercased()) })
            else { continue }
            result.columns = result.columns.map { $0 == column ? name : $0 }
            if reference?.column == column { result.reference?.column = name }
            result.message = result.message.naming(column: column, as: name)
        }
        return result
    }

    /// Returns the names of the members of an object, in lower case; none for anything else.
    private static func members(of body: [UInt8]) -> Set<String> {
        let found = try? body.withUnsafeBufferPointer { buffer -> Set<String> in
            var reader = JSONReader(buffer)
            guard case .object = try reader.value() else { return [] }
            try reader.beginObject()
            var found: Set<String> = []
            while let name = try reader.nextMember() {
                found.insert(reader.text(name).lowercased())
                _ = try reader.rawValue()
            }
            return found
        }
        return found ?? []
    }
}

extension String {
    /// Returns a message in which another name replaces the name of a column.
    ///
    /// The name of a table remains, even if it is the same as that of the column.
    fileprivate func naming(column: String, as name: String) -> String {
        var result = ""
        var rest = self[...]
        while let range = rest.firstRange(of: "'\(column)'") {
            result += rest[..<range.lowerBound]
            result += result.hasSuffix("table ") ? "'\(column)'" : "'\(name)'"
            rest = rest[range.upperBound...]
        }
        return result + rest
    }
}

extension TableCatalog {
    /// Returns an error of a write that names columns as the write's body does.
    ///
    /// An app that knows only the former name of a column needs it to find the property that the error is about.
    func named(_ error: any Error, as body: [UInt8], table name: String) -> any Error {
        guard hasFormerNames, !body.isEmpty, let rejection = error as? ServerError,
            let names = table(named: name).flatMap({ FormerNames(of: $0) })
        else { return error }
        return names.named(rejection, as: body)
    }
}

extension RowBody {
    /// Rejects a body that has different values of a column under several names.
    func rejectAlternatives(_ table: Table) throws {
        guard let place = alternatives.keys.min() else { return }
        throw ServerError.namesDiffer(table.columns[place].name)
    }

    /// Takes one value for each column that the body of an insert has under several names: the one that was set.
    ///
    /// After an update of an app, a row that the earlier version has queued has the values under the former names,
    /// and null or the default under the new ones, unless the app has set them since.
    mutating func chooseSet(in table: Table) throws {
        for (place, values) in alternatives.sorted(by: { $0.key < $1.key }) {
            let column = table.columns[place]
            let set =
                values.only { $0 != .null }
                ?? values.newest { $0 != .null && !column.type.isSame($0, column.storedDefault) }
            guard let set else { throw ServerError.namesDiffer(column.name) }
            self.values[place] = set
        }
        alternatives = [:]
    }

    /// Chooses one value for each column that an update has under several names, from the names of the members that
    /// the caller has set.
    ///
    /// The value under the current name counts if the caller has set it, because only a newer version of the app knows
    /// that name. Otherwise the value under a former name counts. The stored row is not used. The names of `changed`
    /// are in lower case.
    mutating func choose(_ changed: Set<String>, in table: Table) throws {
        for (index, values) in alternatives.sorted(by: { $0.key < $1.key }) {
            let name = table.columns[index].name
            let isSet = changed.contains(name.lowercased())
            guard let value = isSet ? values.current : values.onlyFormer else {
                throw ServerError.namesDiffer(name)
            }
            self.values[index] = value
        }
        alternatives = [:]
    }
}

/// The different values of a column that a body has under several names.
package struct AlternativeValues: Sendable {
    /// The values under former names.
    var former: [SQLValue]
    /// The value under the current name; nil if the body does not have it.
    var current: SQLValue?

    /// The value under former names; nil if they have different values.
    var onlyFormer: SQLValue? { former.count == 1 ? former[0] : nil }

    /// Returns the only value that was set; nil if there is none, or more than one.
    func only(where isSet: (SQLValue) -> Bool) -> SQLValue? {
        let set = (former + [current].compactMap(\.self)).filter(isSet)
        return set.count == 1 ? set[0] : nil
    }

    /// Returns the value that was set last: the one under the current name, which only a newer version of the app knows,
    /// or else the only one under a former name.
    func newest(where isSet: (SQLValue) -> Bool) -> SQLValue? {
        if let current, isSet(current) { return current }
        return only(where: isSet)
    }
}

extension WriteOperation {
    /// Returns the write with one value for each column that the body has under several names: the one that differs
    /// from the row that the caller read.
    ///
    /// If several differ and the caller has set all of them, the value under the current name takes precedence. Otherwise
    /// it may be an old value that the caller only sent back.
    func choosingValues(
        against before: [SQLValue],
        areAllSet: Bool,
        in table: Table
    ) throws(ServerError) -> WriteOperation {
        var result = self
        result.alternatives = [:]
        for (place, values) in alternatives {
            let column = table.columns[place]
            func isSet(_ value: SQLValue) -> Bool { !column.type.isSame(value, before[place]) }
            let set = areAllSet ? values.newest(where: isSet) : values.only(where: isSet)
            guard let set else { throw ServerError.namesDiffer(column.name) }
            result.values[place] = set
        }
        return result
    }
}

extension ServerError {
    /// The rejection of a body that changes a column under two names to different values.
    static func namesDiffer(_ column: String) -> ServerError {
        .badRequest(
            "Member '\(column)': the body has different values under several names of this member. Send one of them."
        )
    }
}

// ColumnsText: stored table definitions.

package import TidelineCore

/// A table's columns as JSON text in the server's own system table.
package enum ColumnsText {
    /// Writes a JSON array such as `[{"name":"rating","type":"enum","nullable":true,"members":["G","PG"]}]`.
    ///
    /// `defaults` contains the default expressions of the database by column.
    package static func write(
        _ columns: [ColumnDefinition],
        defaults: [String: String] = [:]
    ) -> String {
        var writer = JSONWriter()
        writer.byte("[")
        for (index, column) in columns.enumerated() {
            if index > 0 { writer.byte(",") }
            writer.raw("{\"name\":")
            writer.string(column.name)
            writer.raw(",\"type\":")
            writer.string(column.type.name)
            writer.raw(",\"nullable\":")
            writer.bool(column.isNullable)
            if case .enumeration(let members) = column.type {
                writer.raw(",\"members\":[")
                for (place, member) in members.enumerated() {
                    if place > 0 { writer.byte(",") }
                    writer.string(member)
                }
                writer.byte("]")
            }
            if let expression = defaults[column.name] {
                writer.raw(",\"default\":")
                writer.string(expression)
            }
            writer.byte("}")
        }
        writer.byte("]")
        return writer.text
    }

    /// Reads the default expressions of the database by column.
    package static func readDefaults(_ text: String) throws -> [String: String] {
        try Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            var defaults: [String: String] = [:]
            try reader.beginArray()
            while try reader.nextElement() {
                var (name, expression) = ("", String?.none)
                guard case .object = try reader.value() else {
                    throw reader.failure("a column is expected")
                }
                try reader.beginObject()
                while let key = try reader.nextMember() {
                    switch (reader.text(key), try reader.value()) {
                    case ("name", .string(let span)): name = reader.text(span)
                    case ("default", .string(let span)): expression = reader.text(span)
                    case (_, let token): try reader.skip(token)
                    }
                }
                defaults[name] = expression
            }
            return defaults
        }
    }

    package static func read(_ text: String) throws -> [ColumnDefinition] {
        try Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            var columns: [ColumnDefinition] = []
            try reader.beginArray()
            while try reader.nextElement() { columns.append(try column(&reader)) }
            return columns
        }
    }

    private static func column(_ reader: inout JSONReader) throws -> ColumnDefinition {
        var name = ""
        var typeName = ""
        var isNullable = true
        var members: [String] = []
        try reader.beginObject()
        while let key = try reader.nextMember() {
            switch (reader.text(key), try reader.value()) {
            case ("name", .string(let span)): name = reader.text(span)
            case ("type", .string(let span)): typeName = reader.text(span)
            case ("nullable", .bool(let value)): isNullable = value
            case ("members", .array):
                try reader.beginArray()
                while try reader.nextElement() {
                    guard case .string(let span) = try reader.value() else {
                        throw reader.failure("an enum member is expected")
                    }
                    members.append(reader.text(span))
                }
            case (_, let token): try reader.skip(token)
            }
        }
        let type =
            typeName == ColumnType.enumeration([]).name
            ? .enumeration(members) : ColumnType.simple.first { $0.name == typeName }
        guard let type, !name.isEmpty else { throw reader.failure("a column is expected") }
        return ColumnDefinition(name, type, nullable: isNullable)
    }
}

// RowText: converts rows to JSON text and back.

import Foundation
import TidelineCore

/// The conversion of rows to JSON text and back.
enum RowText {
    static func json(_ row: Row) -> JSON {
        var writer = JSONWriter()
        writer.row(row)
        return JSON(checked: writer.text)
    }

    /// Returns whether a string is exactly one JSON document.
    static func isDocument(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var reader = JSONReader(bytes, outside: 1)
            do {
                try reader.skip(try reader.value())
                try reader.end()
                return true
            } catch {
                return false
            }
        }
    }

    /// Returns the row of a JSON object; nil if the bytes are not an object.
    static func row(_ bytes: some ContiguousBytes, _ schema: TableSchema?) -> Row? {
        bytes.withUnsafeBytes { raw in
            raw.withMemoryRebound(to: UInt8.self) { buffer in
                // A value of the row may be nested as deeply as a document of its own.
                var reader = JSONReader(buffer, outside: 1)
                var decoder = JSONRowReader(schema: schema)
                guard let row = try? decoder.row(&reader), (try? reader.end()) != nil else {
                    return nil
                }
                return row
            }
        }
    }
}

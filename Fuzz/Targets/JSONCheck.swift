// JSONCheck: request bodies.

import Foundation
import TidelineCore
import TidelineServerCore

final class JSONCheck {
    private let table = Table(
        TableDefinition(
            "T",
            columns: [
                ColumnDefinition("s", .string, rules: ColumnRules(maxLength: 4)),
                ColumnDefinition("p", .string, rules: ColumnRules(pattern: "(a|b)*c?[x-z]{0,3}")),
                ColumnDefinition("i", .integer, rules: ColumnRules(min: 0)),
                ColumnDefinition("n", .number), ColumnDefinition("d", .decimal),
                ColumnDefinition("b", .boolean, nullable: false),
                ColumnDefinition("t", .dateTime), ColumnDefinition("day", .date),
                ColumnDefinition("clock", .time), ColumnDefinition("guid", .guid),
                ColumnDefinition("bytes", .binary), ColumnDefinition("j", .json),
                ColumnDefinition("e", .enumeration(["low", "high"])),
            ]
        )
    )

    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        let rest = UnsafeBufferPointer(rebasing: input.dropFirst())
        do {
            switch input[0] & 3 {
            case 0: _ = try RowBody.read(Array(rest), for: table)
            case 1: _ = try JSONPatch(Array(rest), for: table, stepsMax: 1000)
            default: try document(rest)
            }
        } catch let error as ServerError {
            try demand((400..<500).contains(error.status), "a bad body is the caller's fault")
            let position = error.position ?? 0
            try demand((0...rest.count).contains(position), "\(position) is in the body")
        } catch let error as JSONError {
            try demand((0...rest.count).contains(error.position), "the position is in the text")
        }
    }

    /// Checks that Foundation parses the same value, and that parsing the result again does not change it.
    private func document(_ bytes: UnsafeBufferPointer<UInt8>) throws {
        var reader = JSONReader(bytes)
        let span = try reader.rawValue()
        try reader.end()
        try demand(String(validating: bytes, as: UTF8.self) != nil, "JSON is UTF-8")
        let compact = JSON.compact(bytes, span)
        try demand(try JSON(compact).text == compact, "a compact document stays as it is")
        // Foundation rejects numbers that do not fit into a double.
        if bytes.contains(where: { $0 | 0x20 == UInt8(ascii: "e") }) || bytes.count > 300 { return }
        let options: JSONSerialization.ReadingOptions = .fragmentsAllowed
        let one = try? JSONSerialization.jsonObject(with: Data(bytes), options: options)
        let two = try? JSONSerialization.jsonObject(with: Data(compact.utf8), options: options)
        try demand(one != nil, "what this reader accepts is JSON for others")
        try demand(
            (one as? NSObject)?.isEqual(two as? NSObject) ?? false,
            "a compact document means the same"
        )
    }
}

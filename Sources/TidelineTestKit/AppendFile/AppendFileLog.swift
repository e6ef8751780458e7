// AppendFileLog: a file in which each line consists of a checksum, a space, and a JSON text.

import Foundation
import Tideline

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The file of an ``AppendFileStore``, which is read and extended line by line.
struct AppendFileLog: Sendable {
    private let path: String
    private var file: FileHandle
    /// The offset after the last complete line.
    private var end: UInt64

    private static let newline = UInt8(ascii: "\n")
    private static let sumLength = 16

    /// Reads all lines, and truncates the bytes after the last complete line.
    init(path: String, _ body: (AppendFileRecord) throws -> Void) throws {
        self.path = path
        if !FileManager.default.fileExists(atPath: path) {
            guard FileManager.default.createFile(atPath: path, contents: nil) else {
                throw Self.failure(path, "it cannot be created")
            }
        }
        guard let file = FileHandle(forUpdatingAtPath: path) else {
            throw Self.failure(path, "it cannot be opened for writing")
        }
        self.file = file
        let bytes = try file.readToEnd() ?? Data()
        var start = bytes.startIndex
        var number = 0
        while let stop = bytes[start...].firstIndex(of: Self.newline) {
            number += 1
            guard let record = Self.record(bytes[start..<stop]) else {
                // Killing a process can leave an incomplete line only at the end.
                throw Self.failure(path, "line \(number) is damaged. Restore it from a backup")
            }
            try body(record)
            start = bytes.index(after: stop)
        }
        end = UInt64(start - bytes.startIndex)
        if start < bytes.endIndex { try file.truncate(atOffset: end) }
    }

    /// Appends a line and flushes it to the disk.
    mutating func append(_ record: AppendFileRecord) throws {
        let line = try Self.line(record)
        do {
            try file.seek(toOffset: end)
            try file.write(contentsOf: line)
            try file.synchronize()
            end += UInt64(line.count)
        } catch {
            // If a part of the line reached a full disk, it must not precede the next line.
            try? file.truncate(atOffset: end)
            throw error
        }
    }

    /// Atomically replaces this file with a file that has a single line.
    mutating func replace(by record: AppendFileRecord) throws {
        let line = try Self.line(record)
        let next = path + "-new"
        guard FileManager.default.createFile(atPath: next, contents: line),
            let file = FileHandle(forUpdatingAtPath: next)
        else { throw Self.failure(next, "it cannot be created") }
        try file.synchronize()
        guard rename(next, path) == 0 else { throw Self.failure(path, "it cannot be replaced") }
        self.file = file
        end = UInt64(line.count)
    }

    private static func line(_ record: AppendFileRecord) throws -> Data {
        let text = try JSONEncoder().encode(record)
        return Data((sum(text) + " ").utf8) + text + [newline]
    }

    private static func record(_ line: Data) -> AppendFileRecord? {
        let text = line.dropFirst(sumLength + 1)
        guard line.count > sumLength, line.prefix(sumLength).elementsEqual(sum(text).utf8) else {
            return nil
        }
        return try? JSONDecoder().decode(AppendFileRecord.self, from: Data(text))
    }

    /// Returns the FNV-1a hash as 16 hexadecimal digits.
    private static func sum(_ bytes: Data) -> String {
        let sum = bytes.reduce(14_695_981_039_346_656_037 as UInt64) { sum, byte in
            (sum ^ UInt64(byte)) &* 1_099_511_628_211
        }
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: sumLength - digits.count) + digits
    }

    private static func failure(_ path: String, _ reason: String) -> SyncError {
        SyncError(
            .storeFailure,
            "The store '\(path)' cannot be used: \(reason). It was not changed."
        )
    }
}

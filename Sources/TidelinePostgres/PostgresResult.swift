// PostgresResult: the rows that a statement returned, as binary cells.

import CLibPQ
package import Foundation

/// The result of a statement; confined to the thread that ran it.
package final class PostgresResult {
    private let handle: OpaquePointer

    init(_ handle: OpaquePointer) { self.handle = handle }

    deinit { PQclear(handle) }

    /// The number of rows in the result.
    package var count: Int { Int(PQntuples(handle)) }

    /// The memory that the result occupies.
    package var bytes: Int { PQresultMemorySize(handle) }

    /// The number of rows that the statement wrote, deleted or returned.
    package var changes: Int {
        PQcmdTuples(handle).flatMap { Int(String(cString: $0)) } ?? 0
    }

    /// Returns PostgreSQL's identifier of a column's type.
    package func type(_ column: Int) -> UInt32 { PQftype(handle, Int32(column)) }

    package func isNull(_ row: Int, _ column: Int) -> Bool {
        PQgetisnull(handle, Int32(row), Int32(column)) != 0
    }

    /// Returns the bytes of a cell, which are valid as long as the result exists.
    package func bytes(_ row: Int, _ column: Int) -> UnsafeBufferPointer<UInt8> {
        let length = Int(PQgetlength(handle, Int32(row), Int32(column)))
        guard length > 0, let start = PQgetvalue(handle, Int32(row), Int32(column)) else {
            return UnsafeBufferPointer(start: nil, count: 0)
        }
        return start.withMemoryRebound(to: UInt8.self, capacity: length) {
            UnsafeBufferPointer(start: $0, count: length)
        }
    }

    package func text(_ row: Int, _ column: Int) -> String {
        String(decoding: bytes(row, column), as: UTF8.self)
    }

    package func data(_ row: Int, _ column: Int) -> Data { Data(bytes(row, column)) }

    /// Returns an integer of any width, or the bits of a floating-point number; 0 for null.
    package func integer(_ row: Int, _ column: Int) -> Int64 {
        let bytes = bytes(row, column)
        guard let first = bytes.first else { return 0 }
        let start: Int64 = first >= 0x80 ? -1 : 0
        return bytes.reduce(start) { $0 << 8 | Int64($1) }
    }

    package func real(_ row: Int, _ column: Int) -> Double {
        let bytes = bytes(row, column)
        guard bytes.count == 8 else { return 0 }
        return Double(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
    }

    package func boolean(_ row: Int, _ column: Int) -> Bool {
        bytes(row, column).first == 1
    }
}

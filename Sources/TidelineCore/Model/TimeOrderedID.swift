// TimeOrderedID: creates ids that begin with the time.
//
// Because the ids begin with the time, rows that are created in sequence are adjacent in the index
// of ids. With random ids, each new row changes a different page of the index, and a list in id
// order reads each row from a different page of the table.

/// The ids of new rows: UUIDs of version 7 (RFC 9562 section 5.7).
package enum TimeOrderedID {
    /// Returns a lower-case version 7 UUID: 48 bits of time in milliseconds since 1970, and 74
    /// random bits.
    package static func make(milliseconds: Int64, random: (UInt64, UInt64)) -> String {
        let high =
            UInt64(truncatingIfNeeded: milliseconds) << 16 | 0x7000 | random.0 & 0x0FFF
        let low = 0x8000_0000_0000_0000 | random.1 >> 2
        return String(unsafeUninitializedCapacity: 36) { text in
            var place = 0
            for digit in 0..<32 {
                if digit == 8 || digit == 12 || digit == 16 || digit == 20 {
                    text[place] = UInt8(ascii: "-")
                    place += 1
                }
                let word = digit < 16 ? high : low
                let value = UInt8(truncatingIfNeeded: word >> (60 - UInt64(digit & 15) * 4) & 15)
                text[place] =
                    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
                place += 1
            }
            return place
        }
    }

    /// Returns a new id with random bits from `generator`.
    package static func make(
        milliseconds: Int64,
        using generator: inout some RandomNumberGenerator
    ) -> String {
        make(milliseconds: milliseconds, random: (generator.next(), generator.next()))
    }
}

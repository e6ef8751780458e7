// DeltaToken: delta links.
//
// A holder who alters the link gains nothing: the token is parsed strictly, and the rows that it leads to are read
// with the caller's permissions and view. It contains no permission and no row.

import TidelineCore

/// The database, columns and visibility filter that a link was created for.
///
/// If one of them has changed, the link is not valid.
package struct DeltaScope: Hashable, Sendable {
    /// The fingerprint of the database's epoch.
    package var epoch: Fingerprint
    /// The fingerprint of the table's columns.
    package var schema: Fingerprint
    /// The fingerprint of the visibility filter.
    package var view: Fingerprint

    package init(epoch: Fingerprint, schema: Fingerprint, view: Fingerprint) {
        self.epoch = epoch
        self.schema = schema
        self.view = view
    }

    /// Returns the rejection of a link that was created for `other`; nil if the link is valid.
    package func rejection(of other: DeltaScope) -> ServerError? {
        if other.epoch != epoch { return .epochChanged }
        if other.schema != schema { return .schemaChanged }
        return other.view == view ? nil : .viewChanged
    }
}

/// The first 64 bits of a hash.
package struct Fingerprint: Hashable, Sendable {
    package var bits: UInt64

    package init(bits: UInt64) { self.bits = bits }

    /// Creates a hash of strings, which depends on their bytes and boundaries.
    package init(_ texts: [String]) {
        var hash = SHA256()
        for text in texts {
            hash.update(Array("\(text.utf8.count):".utf8))
            hash.update(Array(text.utf8))
        }
        bits = hash.finish().prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// The contents of a link to the changes of a list, as the opaque `$deltatoken`.
package struct DeltaToken: Hashable, Sendable {
    /// The part of a query that a link continues: its first list, or its changes.
    package enum Phase: UInt8, Sendable {
        /// The pages of the first list.
        case list = 1
        /// The changes since the list.
        case changes = 2
    }

    package var phase: Phase
    package var scope: DeltaScope
    /// The commit timestamp up to which the caller has all changes.
    package var timestamp: Int64

    package init(_ phase: Phase, _ scope: DeltaScope, timestamp: Int64) {
        self.phase = phase
        self.scope = scope
        self.timestamp = timestamp
    }

    private static let format: UInt8 = 1
    private static let size = 34

    /// The token as a string of 46 characters.
    package var text: String {
        var bytes = [Self.format, phase.rawValue]
        bytes.reserveCapacity(Self.size)
        let numbers = [
            scope.epoch.bits, scope.schema.bits, scope.view.bits, UInt64(bitPattern: timestamp),
        ]
        for number in numbers {
            for shift in stride(from: UInt64(56), through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: number >> shift))
            }
        }
        return Base64URL.encode(bytes)
    }

    /// Parses a token; nil if this server did not create it.
    package init?(_ text: String) {
        guard text.utf8.count <= 2 * Self.size, let bytes = Base64URL.decode(text.utf8),
            bytes.count == Self.size, bytes[0] == Self.format,
            let phase = Phase(rawValue: bytes[1])
        else { return nil }
        func number(_ place: Int) -> UInt64 {
            let start = 2 + 8 * place
            return bytes[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        let timestamp = Int64(bitPattern: number(3))
        guard timestamp >= 0 else { return nil }
        self.phase = phase
        self.timestamp = timestamp
        scope = DeltaScope(
            epoch: Fingerprint(bits: number(0)),
            schema: Fingerprint(bits: number(1)),
            view: Fingerprint(bits: number(2))
        )
    }
}

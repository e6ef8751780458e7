// RowMerge: differences, rebasing, and whether a server's row contains the sent values.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct RowMergeTests {
    /// Base, row, and the changes between them.
    static let changeCases: [(Row, Row, Row)] = [
        ([:], [:], [:]),
        (["a": 1], ["a": 1], [:]),
        (["a": 1], ["a": 2], ["a": 2]),
        (["a": 1], [:], ["a": nil]),
        ([:], ["a": 1], ["a": 1]),
        (["a": nil], [:], [:]),
        ([:], ["a": nil], [:]),
        (["a": nil], ["a": ""], ["a": ""]),
        (["a": 1], ["a": 1.0], [:]),
        (["a": 1], ["a": 1.5], ["a": 1.5]),
        (["a": "e\u{301}"], ["a": "\u{e9}"], ["a": "\u{e9}"]),
        (["a": false], ["a": 0], ["a": 0]),
        (
            ["id": "1", "version": "a", "updatedAt": "b", "createdAt": "c", "deleted": false],
            ["id": "2", "version": "d", "updatedAt": "e", "createdAt": "f", "deleted": true],
            [:]
        ),
    ]

    @Test("The changes between two rows are the columns that differ", arguments: changeCases)
    func changesAreTheDifferences(base: Row, row: Row, expected: Row) {
        #expect(RowMerge.changes(from: base, to: row) == expected)
    }

    @Test("Local edits are rebased on a newer row of the server")
    func editsAreRebasedOnANewerRow() {
        let server: Row = ["id": "1", "a": 10, "b": 20, "c": 30, "version": "v2"]
        let sent: Row = ["id": "1", "a": 1, "b": 2, "c": 3, "version": "v1"]
        let local: Row = ["id": "1", "a": 1, "b": 7, "c": nil, "version": "v1"]
        let result = RowMerge.rebase(local: local, from: sent, onto: server)
        #expect(result == ["id": "1", "a": 10, "b": 7, "c": nil, "version": "v2"])
    }

    @Test("A payload has no ID and no system columns") func aPayloadHasNoSystemColumns() {
        let row: Row = ["id": "1", "a": 1, "version": "v", "updatedAt": "t", "deleted": false]
        #expect(RowMerge.payload(row) == ["a": 1])
    }

    private static func scaled(_ digits: Decimal, _ exponent: Int) -> Decimal {
        Decimal(sign: .plus, exponent: exponent, significand: digits)
    }

    /// The server's row, the sent row, and whether the server's row contains its values.
    static let containedCases: [(Row, Row, Bool)] = [
        (["a": 1, "b": 2], ["a": 1], true),
        (["a": 1], ["a": 2], false),
        (["a": 1], ["b": nil], true),
        (["a": 1], ["b": 1], false),
        (["a": 1.0], ["a": 1], true),
        (["a": .decimal(scaled(110, -2))], ["a": .decimal(scaled(11, -1))], true),
        (["a": 1, "version": "v2"], ["a": 1, "version": "v1"], true),
        (["a": 1], [:], true),
    ]

    @Test("A row contains sent values if all of them are equal", arguments: containedCases)
    func aRowContainsSentValues(server: Row, sent: Row, expected: Bool) {
        #expect(RowMerge.holds(server, sent) == expected)
    }
}

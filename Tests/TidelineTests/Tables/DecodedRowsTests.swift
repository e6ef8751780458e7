// DecodedRows: the values for an observer, without decoding unchanged rows again.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct DecodedRowsTests {
    @Test("Only rows that have changed are decoded again")
    func onlyRowsThatHaveChangedAreDecodedAgain() async throws {
        let device = try await Device(ScriptedTransport(), tables: [Counted.self])
        let items = try device.client.syncTable(Counted.self)
        try await items.insert((0..<100).map { Counted(id: "\($0 + 100)", text: "one") })
        var lists = items.observe().makeAsyncIterator()
        #expect(try await lists.next()?.count == 100)
        let before = Counted.decoded.withLock { $0 }
        try await items.insert(Counted(id: "100 and more", text: "two"))
        #expect(try await lists.next()?.count == 101)
        try await items.delete(id: "150")
        #expect(try await lists.next()?.count == 100)
        #expect(Counted.decoded.withLock { $0 } - before < 10)
    }

    /// Rows are added, changed, moved and removed, and some do not decode.
    @Test(
        "Observed values equal those of a complete read and are published if they differ",
        arguments: 0..<200
    )
    func aRunReturnsTheValuesOfACompleteRead(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        var observed = DecodedRows<Row>()
        var (rows, last): ([Row], [Row]?) = ([], nil)
        for _ in 0..<30 {
            for _ in 0..<Int.random(in: 0..<3, using: &random) {
                let id = String("abcdefgh".randomElement(using: &random) ?? "a")
                rows.removeAll { $0.id == id }
                if Int.random(in: 0..<3, using: &random) > 0 {
                    let row: Row = [
                        "id": .string(id), "n": .integer(.random(in: 0..<3, using: &random)),
                        "version": .integer(.random(in: 0..<3, using: &random)),
                    ]
                    rows.insert(row, at: .random(in: 0...rows.count, using: &random))
                }
            }
            let records = observed.update(rows, decode: Self.shown, encode: { $0 })
            let whole = rows.compactMap(Self.shown)
            #expect(records == (whole == last ? nil : whole))
            #expect(observed.ids == Set(rows.map { ItemKey($0.id) }))
            last = whole
        }
    }

    /// Returns the record without the version; rows with 0 do not decode.
    private static func shown(_ row: Row) -> Row? {
        guard row["n"] != 0 else { return nil }
        var record = row
        record["version"] = nil
        return record
    }
}

/// A model that counts how often it is decoded.
private struct Counted: SyncRecord {
    static let tableName = "Counted"
    static let decoded = Mutex(0)

    var id = ""
    var text = ""

    private enum CodingKeys: String, CodingKey { case id, text }

    init(id: String, text: String) { (self.id, self.text) = (id, text) }

    init(from decoder: any Decoder) throws {
        Self.decoded.withLock { $0 += 1 }
        let container = try decoder.container(keyedBy: CodingKeys.self)
        id = try container.decode(String.self, forKey: .id)
        text = try container.decode(String.self, forKey: .text)
    }
}

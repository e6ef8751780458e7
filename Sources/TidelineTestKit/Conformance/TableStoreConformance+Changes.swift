// TableStoreConformance+Changes: checks for the changes after a commit timestamp.

import TidelineCore
import TidelineServerCore

extension TableStoreConformance {
    static let changeChecks = [
        Check("only the old and the new owner receive a change of owner") { probe in
            try await probe.insert("a", Sample.text("ann"), in: Sample.owned)
            try await probe.insert("b", Sample.text("bob"), in: Sample.owned)
            let start = try await probe.store.clock(of: Sample.owned).timestamp
            let moved = try await probe.write(
                probe.operation(.merge, "a", Sample.text("bob")),
                in: Sample.owned
            )
            try probe.expect(moved.decision, .update(deleted: false), "the change")
            let ann = try await probe.changes(after: start, owner: "ann")
            try probe.expect(ann, ["-a changed"], "the changes for ann")
            try probe.expect(try await probe.changes(after: start, owner: "bob"), ["+a"], "bob")
            try probe.expect(try await probe.changes(after: start, owner: "carl"), [], "carl")
            // After this, further changes to the row are not visible to ann.
            let later = try await probe.store.clock(of: Sample.owned).timestamp
            _ = try await probe.write(
                probe.operation(.merge, "a", Sample.text("carl")),
                in: Sample.owned
            )
            _ = try await probe.write(probe.operation(.delete, "a"), in: Sample.owned)
            try probe.expect(try await probe.changes(after: later, owner: "ann"), [], "later")
            let bob = try await probe.changes(after: later, owner: "bob")
            try probe.expect(bob, ["-a changed"], "the changes for bob")
            // A caller that resumes from a time before all changes receives the removal of the row.
            let all = try await probe.changes(after: start, owner: "ann")
            try probe.expect(all, ["-a changed"], "all changes for ann")
        },
        Check("a row leaves a view in the transaction of the write") { probe in
            try await probe.insert("a", Sample.text("ann"), in: Sample.owned)
            try await probe.insert("taken", Sample.text("ann"), in: Sample.owned)
            let start = try await probe.store.clock(of: Sample.owned).timestamp
            let group = WriteBatch.Group([
                WriteBatch.Write(
                    probe.operation(.merge, "a", Sample.text("bob")),
                    in: Sample.owned
                ),
                WriteBatch.Write(probe.operation(.insert, "taken"), in: Sample.owned),
            ])
            let outcomes = try await probe.store.write(WriteBatch([group])).map(Probe.word)
            try probe.expect(outcomes, ["rejected 1"], "the group")
            try probe.expect(try await probe.changes(after: start, owner: "ann"), [], "ann")
            try probe.expect(try await probe.changes(after: start, owner: "bob"), [], "bob")
            try probe.expect(try await probe.text("a", in: Sample.owned), .text("ann"), "the row")
        },
        Check("changes are in commit order, in pages of any size") { probe in
            let start = try await probe.store.clock(of: Sample.owned).timestamp
            for number in 0..<9 {
                let owner = number % 3 == 0 ? "ann" : "bob"
                try await probe.insert("r\(number)", Sample.text(owner), in: Sample.owned)
            }
            for id in ["r1", "r0", "r3"] {
                let owner = id == "r1" ? "ann" : "bob"
                _ = try await probe.write(
                    probe.operation(.merge, id, Sample.text(owner)),
                    in: Sample.owned
                )
            }
            let whole = try await probe.changes(after: start, owner: "ann")
            try probe.expect(whole, ["+r6", "+r1", "-r0 changed", "-r3 changed"], "in one page")
            for (rows, scan) in [(1, 100), (2, 1), (3, 2), (100, 1)] {
                let pages = try await probe.changes(
                    after: start,
                    owner: "ann",
                    rowsMax: rows,
                    scanMax: scan
                )
                try probe.expect(pages, whole, "in pages of \(rows), by \(scan)")
            }
        },
        Check("if more rows can become visible, the horizon rises to the last timestamp") { probe in
            let starts: [(owner: String?, filtered: Set<String>, rises: Bool)] = [
                ("text", [], false), ("text", ["owned"], true), ("text", ["owned"], false),
                ("text", [], false), (nil, [], false), ("text", [], true), (nil, [], false),
                (nil, ["owned"], true),
            ]
            for (number, start) in starts.enumerated() {
                try await probe.insert("r\(number)", Sample.text("ann"), in: Sample.owned)
                let last = try await probe.store.clock(of: Sample.owned).timestamp
                var definitions = Sample.definitions
                definitions[3].owner = start.owner
                _ = try await probe.store.prepare(
                    definitions,
                    filtered: start.filtered,
                    isComplete: false
                )
                let clock = try await probe.store.clock(of: Sample.owned)
                try probe.expect(clock.timestamp, last, "the timestamp, start \(number)")
                try probe.expect(clock.horizon == last, start.rises, "a rise, start \(number)")
            }
        },
    ]
}

extension TableStoreConformance.Probe {
    /// Returns the visible changes on all pages: `+id` for a row, and `-id reason` for a removed
    /// row.
    func changes(
        after start: Int64,
        owner: String,
        rowsMax: Int = 100,
        scanMax: Int = .max
    ) async throws -> [String] {
        var found: [String] = []
        var after = start
        while true {
            var request = ChangeRequest(after: after, rowsMax: rowsMax, bytesMax: 1 << 20)
            request.scanMax = scanMax
            request.opening = [UInt8(ascii: "[")]
            request.view = QueryExpression(
                .compare(
                    .eq,
                    QueryExpression(.field("text")),
                    QueryExpression(.value(.string(owner)))
                )
            )
            let table = TableStoreConformance.Sample.owned
            let page = try await store.changes(request, in: table)
            found += try Self.changes(page.bytes + [UInt8(ascii: "]")])
            guard let next = page.next else { return found }
            try expect(next > after, "a page whose next position is not later")
            after = next
        }
    }

    private static func changes(_ json: [UInt8]) throws -> [String] {
        try json.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            var found: [String] = []
            try reader.beginArray()
            while try reader.nextElement() {
                var id = ""
                var reason: String?
                try reader.beginObject()
                while let name = try reader.nextMember() {
                    switch reader.text(name) {
                    case "id": id = try reader.stringValue()
                    case "@removed":
                        try reader.beginObject()
                        while try reader.nextMember() != nil { reason = try reader.stringValue() }
                    default: _ = try reader.rawValue()
                    }
                }
                found.append(reason.map { "-\(id) \($0)" } ?? "+\(id)")
            }
            return found
        }
    }
}

extension JSONReader {
    fileprivate mutating func stringValue() throws -> String {
        guard case .string(let span) = try value() else {
            throw failure("a string is expected")
        }
        return text(span)
    }
}

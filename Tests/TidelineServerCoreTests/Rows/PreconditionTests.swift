// Preconditions and dates as pure values.

import Foundation
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct PreconditionTests {
    /// The instant 2027-01-15T08:00:00.5Z.
    private static let updatedAt: Int64 = 1_800_000_000_500_000
    private static let own = RowVersion.tag(7)

    private static func fields(
        match: String? = nil,
        none: String? = nil,
        unmodified: String? = nil,
        modified: String? = nil
    ) -> Preconditions.Fields {
        var fields = Preconditions.Fields()
        fields.ifMatch = match
        fields.ifNoneMatch = none
        fields.ifUnmodifiedSince = unmodified
        fields.ifModifiedSince = modified
        return fields
    }

    private static let at = "Fri, 15 Jan 2027 08:00:00 GMT"
    private static let before = "Fri, 15 Jan 2027 07:59:59 GMT"

    private static let cases:
        [(Preconditions.Fields, read: Preconditions.Result, write: Preconditions.Result)] = [
            (fields(), .holds, .holds),
            (fields(match: "*"), .holds, .holds),
            (fields(match: own), .holds, .holds),
            (fields(match: String(own.dropFirst().dropLast())), .holds, .holds),
            (fields(match: "\"x\", , \(own)"), .holds, .holds),
            (fields(match: "W/\(own)"), .failed, .failed),
            (fields(match: "\"x\""), .failed, .failed),
            (fields(match: own, unmodified: before), .holds, .holds),
            (fields(unmodified: at), .holds, .holds),
            (fields(unmodified: before), .failed, .failed),
            (fields(unmodified: "yesterday"), .holds, .holds),
            (fields(none: "*"), .notModified, .failed),
            (fields(none: own), .notModified, .failed),
            (fields(none: "\"x\""), .holds, .holds),
            (fields(none: "\"x\"", modified: at), .holds, .holds),
            (fields(modified: at), .notModified, .failed),
            (fields(modified: before), .holds, .holds),
            (fields(match: "\"x\"", none: own), .failed, .failed),
        ]

    @Test("Preconditions are evaluated as RFC 9110 requires") func followRFC9110() throws {
        for (fields, read, write) in Self.cases {
            let conditions = try Preconditions(fields)
            let name = "\(fields)"
            #expect(
                conditions.evaluate(version: 7, updatedAt: Self.updatedAt, isRead: true) == read,
                "\(name)"
            )
            #expect(
                conditions.evaluate(version: 7, updatedAt: Self.updatedAt, isRead: false) == write,
                "\(name)"
            )
        }
    }

    @Test(
        "A malformed entity tag is rejected",
        arguments: ["", "\"", "\"x", "x y", "\"x\" \"y\"", "W/", ",", "a,b", "W/x y"]
    )
    func malformedTagsAreRejected(_ text: String) {
        #expect(throws: ServerError.self) { try Preconditions(Self.fields(match: text)) }
    }

    @Test(
        "Quotes and backslashes within entity tags are parsed",
        arguments: [
            (#""a\"b""#, [#"a\"b"#]), (#""a\"b", "c""#, [#"a\"b"#, "c"]),
            (#""a\", "b""#, [#"a\"#, "b"]),
            (#""a\""#, [#"a\"#]), (#""", "x""#, ["", "x"]),
        ]
    )
    func quotesWithinTags(_ text: String, _ tags: [String]) throws {
        let conditions = try Preconditions(Self.fields(match: text))
        #expect(conditions.ifMatch == .strong(tags))
    }

    @Test("HTTP dates in all three formats are parsed, and invalid ones are rejected")
    func datesInAllFormats() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            #expect(HTTPDate.seconds(text) == 784_111_777)
        }
        #expect(HTTPDate.text(microseconds: 784_111_777_999_999) == "Sun, 06 Nov 1994 08:49:37 GMT")
        for text in ["", "Sun, 31 Feb 1994 08:49:37 GMT", "06 Nov 1994", "x y z u v GMT"] {
            #expect(HTTPDate.seconds(text) == nil)
        }
    }
}

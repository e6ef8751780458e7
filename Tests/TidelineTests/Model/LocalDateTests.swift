// LocalDateTests: LocalDate, LocalTime, and the validation of ids.

import Foundation
import Testing
import Tideline
import TidelineCore

@Test(
    "A local date accepts only valid text and returns it unchanged",
    arguments: [
        ("2026-11-20", true), ("2024-02-29", true), ("0001-01-01", true), ("9999-12-31", true),
        ("2023-02-29", false), ("2026-13-01", false), ("2026-00-01", false), ("2026-1-1", false),
        ("2026-11-20T", false), ("0000-01-01", false), ("+026-01-01", false), ("", false),
    ]
)
func localDatesReadTheirOwnText(_ text: String, _ isValid: Bool) {
    let day = LocalDate(text)
    #expect((day != nil) == isValid)
    if let day { #expect(day.description == text) }
}

@Test("Local dates are compared, depend on the time zone and are encoded as text")
func localDatesCompareAndKnowTimeZones() throws {
    let day = try #require(LocalDate("2026-11-20"))
    #expect(day < LocalDate("2026-12-01") ?? day)
    let evening = try #require(Timestamp("2026-11-20T23:30:00Z")).date
    let east = try #require(TimeZone(secondsFromGMT: 3600))
    #expect(LocalDate(evening, in: .gmt) == day)
    #expect(LocalDate(evening, in: east).description == "2026-11-21")
    #expect(LocalDate(Date(timeIntervalSince1970: -1), in: .gmt).description == "1969-12-31")
    #expect(try JSON(encoding: [day]).text == #"["2026-11-20"]"#)
    #expect(try JSON(#"["2026-11-20"]"#).decode([LocalDate].self) == [day])
}

@Test(
    "Every Date falls on a local date, even if it is out of range or not finite",
    arguments: [
        (Double.nan, "0001-01-01"), (-.nan, "0001-01-01"), (-.infinity, "0001-01-01"),
        (.infinity, "9999-12-31"), (-1e300, "0001-01-01"), (1e300, "9999-12-31"),
        (-1e12, "0001-01-01"), (1e12, "9999-12-31"),
    ]
)
func everyInstantFallsOnADay(seconds: Double, day: String) throws {
    let date = Date(timeIntervalSince1970: seconds)
    for hours in [0, 14, -12] {
        let zone = try #require(TimeZone(secondsFromGMT: hours * 3600))
        #expect(LocalDate(date, in: zone).description == day)
    }
    let warsaw = try #require(TimeZone(identifier: "Europe/Warsaw"))
    #expect(LocalDate(date, in: warsaw).description == day)
}

@Test(
    "A local time accepts only valid text and has millisecond precision",
    arguments: [
        ("07:14", "07:14:00.000"), ("07:14:05", "07:14:05.000"), ("07:14:05.2", "07:14:05.200"),
        ("07:14:05.2509999", "07:14:05.250"), ("23:59:59.999", "23:59:59.999"), ("24:00", nil),
        ("07:60", nil), ("07:14:60", nil), ("7:14", nil), ("07:14:05.", nil), ("07:14:05Z", nil),
        ("07:14:05.1234567890", nil), ("07-14", nil), ("", nil),
    ]
)
func localTimesReadTheirOwnText(_ text: String, _ expected: String?) {
    #expect(LocalTime(text)?.description == expected)
}

@Test(
    "An ID that is empty, too long or has invalid characters is rejected",
    arguments: [
        ("a", true), ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", true), ("ż", true), ("a b", true),
        (String(repeating: "x", count: 255), true), ("...", true), ("'; --", true), ("", false),
        (String(repeating: "x", count: 256), false), (" ", false), ("\u{2003}", false),
        (".", false),
        ("..", false), ("a/b", false), ("a\\b", false), ("a?b", false), ("a+b", false),
        ("a\"b", false), ("a`b", false), ("a\u{1F}", false), ("\u{7F}", false), ("\u{9F}", false),
        ("z\u{307}", false), (String(repeating: "😀", count: 255), true),
    ]
)
func itemIDs(_ id: String, _ isValid: Bool) {
    #expect((ItemID.fault(in: id) == nil) == isValid)
    if isValid {
        #expect(throws: Never.self) { try ItemID.check(id) }
    } else {
        #expect(throws: SyncError.self) { try ItemID.check(id) }
    }
}

@Test(
    "A query ID has 1 to 50 ASCII letters, digits, hyphens and underscores",
    arguments: [
        ("openItems", true), ("a-b_9", true), (String(repeating: "q", count: 50), true),
        ("", false),
        (String(repeating: "q", count: 51), false), ("a b", false), ("a.b", false), ("ż", false),
    ]
)
func queryIDs(_ id: String, _ isValid: Bool) {
    if isValid {
        #expect(throws: Never.self) { try QueryID.check(id) }
    } else {
        let error = #expect(throws: SyncError.self) { try QueryID.check(id) }
        #expect(error?.code == .invalidQueryID)
    }
}

// TimestampTests: the times that clients and servers exchange, as text and as Date.

import Foundation
import Testing
import TidelineCore
import TidelineTestKit

@Suite struct TimestampTests {
    static let texts: [(String, String?)] = [
        ("2026-11-20T20:32:22.404Z", "2026-11-20T20:32:22.404000Z"),
        ("2026-11-20t20:32:22z", "2026-11-20T20:32:22.000000Z"),
        ("2026-11-20T20:32:22.4049999+02:00", "2026-11-20T18:32:22.404999Z"),
        ("2026-11-20T20:32:22.123456789-00:30", "2026-11-20T21:02:22.123456Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"),
        ("2020-02-29T00:00:00Z", "2020-02-29T00:00:00.000000Z"),
        ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000000Z"),
        ("2021-02-29T00:00:00Z", nil), ("1900-02-29T00:00:00Z", nil),
        ("2026-11-20T20:32:22", nil), ("2026-11-20", nil), ("", nil), ("2026-11-20 20:32:22Z", nil),
        ("2026-13-20T20:32:22Z", nil), ("2026-11-31T20:32:22Z", nil),
        ("2026-11-20T24:00:00Z", nil), ("2026-11-20T20:60:22Z", nil),
        ("2026-11-20T20:32:60Z", nil), ("2026-11-20T20:32:22.Z", nil),
        ("2026-11-20T20:32:22.1234567890Z", nil), ("2026-11-20T20:32:22+0200", nil),
        ("2026-11-20T20:32:22+24:00", nil), ("2026-11-20T20:32:22Z ", nil),
        ("0000-01-01T00:00:00Z", nil), ("9999-12-31T23:59:59-01:00", nil),
        ("0001-01-01T00:00:00+01:00", nil), ("٢٠٢٦-11-20T20:32:22Z", nil),
    ]

    @Test("A timestamp text is parsed exactly or rejected", arguments: texts)
    func reads(_ text: String, _ exact: String?) {
        let timestamp = Timestamp(text)
        #expect(timestamp?.exactText == exact)
        guard let timestamp else { return }
        #expect(timestamp.text == String(timestamp.exactText.prefix(23)) + "Z")
        #expect(Timestamp(timestamp.exactText) == timestamp)
        // A Date is exact to the microsecond for three centuries, and to the millisecond beyond.
        let cut = Timestamp(timestamp.date)
        #expect(cut.text == timestamp.text)
        if abs(timestamp.microseconds) < 8_000_000_000_000_000 { #expect(cut == timestamp) }
    }

    @Test("A timestamp is cut to milliseconds toward the past") func cutsTowardsThePast() {
        #expect(Timestamp(microseconds: -1).milliseconds == -1)
        #expect(Timestamp(microseconds: 1999).milliseconds == 1)
        #expect(Timestamp(microseconds: -1).text == "1969-12-31T23:59:59.999Z")
    }

    @Test("The text of any date stays within years of four digits")
    func staysWithinFourDigitYears() {
        #expect(Timestamp(.distantFuture).text == "4001-01-01T00:00:00.000Z")
        #expect(Timestamp(.distantPast).text == "0001-01-01T00:00:00.000Z")
        for seconds in [1e300, -1e300, .infinity, -.infinity, .nan, 1e12, -1e12] {
            let text = Timestamp(Date(timeIntervalSince1970: seconds)).text
            #expect(Timestamp(text)?.text == text, "\(seconds)")
        }
    }

    @Test(
        "Every number of microseconds has a text, a date and components",
        arguments: [Int64.min, Int64.min + 1, Int64.min + 999_999, -62_135_596_800_000_001]
    )
    func everyNumberIsAnInstant(early: Int64) {
        for micros in [early, 253_402_300_799_999_999 &- early, Int64.max, Int64.max - 999_999] {
            let timestamp = Timestamp(microseconds: micros)
            let nearest = min(max(timestamp, .earliest), .latest)
            #expect(timestamp.text == nearest.text)
            #expect(timestamp.exactText == nearest.exactText)
            #expect(timestamp.date == nearest.date)
            #expect(ScalarDates.part(.second, ofInstant: micros) != .null)
            #expect(ScalarDates.part(.date, ofInstant: micros) != .null)
        }
        #expect(Timestamp(microseconds: .min).milliseconds == -9_223_372_036_854_776)
        #expect(Timestamp(microseconds: .max).milliseconds == 9_223_372_036_854_775)
    }

    @Test(
        "The exact text of a random timestamp is parsed as the same timestamp",
        arguments: UInt64(0)..<4
    )
    func everyMomentReadsBack(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<500 {
            let micros = Int64.random(
                in: -62_135_596_800_000_000...253_402_300_799_999_999,
                using: &random
            )
            let timestamp = Timestamp(microseconds: micros)
            #expect(Timestamp(timestamp.exactText) == timestamp)
        }
    }

    @Test(
        "A date of whole milliseconds is equal after a conversion to a timestamp",
        arguments: UInt64(0)..<4
    )
    func datesOfWholeMillisecondsComeBackEqual(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for index in 0..<2000 {
            let near: ClosedRange<Int64> = -5_000_000_000_000...5_000_000_000_000
            let all: ClosedRange<Int64> = -62_135_596_799_999...253_402_300_799_999
            let count = Int64.random(in: index.isMultiple(of: 2) ? near : all, using: &random)
            let date = Date(timeIntervalSince1970: Double(count) / 1000)
            let timestamp = Timestamp(date)
            #expect(timestamp.microseconds == count * 1000)
            #expect(timestamp.date == date)
        }
        #expect(Timestamp(.distantFuture).date == .distantFuture)
    }

    @Test(
        "A date far from 2001 is inexact, but further conversions do not change it",
        arguments: [
            "1013-11-20T20:32:22.404123Z", "9999-12-31T23:59:59.999499Z",
            "0001-01-01T00:00:00.0005Z",
        ]
    )
    func farDatesComeBack(_ text: String) throws {
        let timestamp = try #require(Timestamp(text))
        let coarse = Timestamp(timestamp.date)
        #expect(abs(coarse.microseconds - timestamp.microseconds) <= 500)
        #expect(coarse.microseconds % 1000 == 0)
        #expect(coarse.date == timestamp.date)
    }
}

// DecimalTextTests: decimals as texts, at the limit of their digits.

import Foundation
import Testing
import TidelineCore

@Suite struct DecimalTextTests {
    static let threes = String(repeating: "3", count: 38)
    static let nines = String(repeating: "9", count: 38)

    /// Results of calculations can have one digit more than every decimal can have.
    @Test("The canonical text of every decimal is parsed as the same decimal")
    func theTextOfEveryDecimalCanBeParsed() throws {
        var values = [
            Decimal.greatestFiniteMagnitude, .leastFiniteMagnitude, .leastNonzeroMagnitude,
            Decimal(UInt64.max) * Decimal(UInt64.max),
        ]
        for divisor in 1...99 {
            values += [1, 3, 7, 10, 100].map { Decimal($0) / Decimal(divisor) }
            values += [-7, 1_000_000].map { Decimal($0) / Decimal(divisor) }
            values.append(Decimal(sign: .plus, exponent: divisor, significand: 7) / 3)
            values.append(Decimal(sign: .plus, exponent: -divisor, significand: 7) / 3)
        }
        for value in values where !value.isNaN {
            let text = DecimalText.canonical(value)
            #expect(DecimalText.parse(text) == value, "\(text)")
        }
    }

    @Test(
        "A text whose digits fit a decimal is parsed",
        arguments: [
            "2." + threes, "2" + threes, "-2" + threes + "e50", "2" + threes + "E-50", nines,
            nines + "0000", "0." + nines, "000" + nines, nines + ".00",
        ]
    )
    func digitsThatADecimalHolds(_ text: String) {
        #expect(DecimalText.parse(text) != nil)
    }

    @Test(
        "A text that does not fit a decimal or is not a number is rejected",
        arguments: [
            "4." + threes, "9" + nines, "2" + threes + "3", "0." + nines + "9", "9" + nines + "e50",
            nines + ".01", "1e200", "1e", "", "-", ".", "1 ", "0x1",
        ]
    )
    func digitsThatNoDecimalHolds(_ text: String) {
        #expect(DecimalText.parse(text) == nil)
    }
}

// FaithfulNumber: exact conversions of integers and decimals to doubles.

import Foundation

extension Double {
    /// Creates a double from an integer; nil unless the double is equal to the integer or is written with the
    /// same digits.
    init?(faithful integer: Int64) {
        self.init(integer)
        guard Int64(exactly: self) != integer else { return }
        // Other libraries write the double 1234567890123456768 as 1234567890123456800.
        guard self.isWritten(as: Decimal(integer)) else { return nil }
    }

    /// Creates the double with the same digits as a decimal; nil if the decimal has more digits than a double
    /// holds.
    init?(faithful decimal: Decimal) {
        guard let number = Double("\(decimal)"), number.isFinite, number.isWritten(as: decimal)
        else { return nil }
        self = number
    }

    private func isWritten(as decimal: Decimal) -> Bool {
        Decimal(string: "\(self)", locale: nil) == decimal
    }
}

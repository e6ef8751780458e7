// FaithfulNumber: numbers of the other kinds as the double that says the same.

import Foundation

extension Double {
    /// The double for a whole number; nil for one that no double is and no double is written as.
    init?(faithful integer: Int64) {
        self.init(integer)
        guard Int64(exactly: self) != integer else { return }
        // Others write the double 1234567890123456768 as 1234567890123456800.
        guard self.isWritten(as: Decimal(integer)) else { return nil }
    }

    /// The double that is written like this; nil for more digits than it has.
    init?(faithful decimal: Decimal) {
        guard let number = Double("\(decimal)"), number.isFinite, number.isWritten(as: decimal)
        else { return nil }
        self = number
    }

    private func isWritten(as decimal: Decimal) -> Bool {
        Decimal(string: "\(self)", locale: nil) == decimal
    }
}

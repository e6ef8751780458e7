// PresentMoment: recognizes model defaults that are the current time, such as `Date()`.
//
// Dates are stored in milliseconds. Two default records that are created in quick succession may therefore have the
// same date, although the date differs in each run of the app.

import Foundation
import TidelineCore

/// The period during which a model created its record of defaults.
struct PresentMoment {
    private let start = Date()
    private var end = Date()

    /// Ends the period, after the record was created.
    mutating func close() { end = Date() }

    /// Returns whether a value is a date within the period.
    func contains(_ value: Value) -> Bool {
        guard case .date(let date) = value else { return false }
        return date >= start.addingTimeInterval(-0.001) && date <= end.addingTimeInterval(0.001)
    }

    /// Returns whether a value of this kind may come from the current time.
    static func maySet(_ value: Value) -> Bool {
        switch value {
        case .date, .json: true
        case .null, .bool, .integer, .number, .decimal, .string, .data: false
        }
    }

    /// Waits until the clock shows a different millisecond.
    static func pass() {
        let end = ContinuousClock.now + .milliseconds(2)
        while ContinuousClock.now < end {}
    }
}

// PresentMoment: defaults of a model that are the moment at which they were asked for, as `Date()` is.
//
// Dates are kept in milliseconds, so two records of defaults that are made one after the other have the same
// date, although it is another one in each run of the app.

import Foundation
import TidelineCore

/// The time in which a model was asked for its record of defaults.
struct PresentMoment {
    private let start = Date()
    private var end = Date()

    /// The record was made.
    mutating func close() { end = Date() }

    /// Whether a value is a date of this time.
    func contains(_ value: Value) -> Bool {
        guard case .date(let date) = value else { return false }
        return date >= start.addingTimeInterval(-0.001) && date <= end.addingTimeInterval(0.001)
    }

    /// Whether the next record may have another value in the place of this one only in another millisecond.
    static func maySet(_ value: Value) -> Bool {
        switch value {
        case .date, .json: true
        default: false
        }
    }

    /// Returns when every clock shows another millisecond.
    static func pass() {
        let end = ContinuousClock.now + .milliseconds(2)
        while ContinuousClock.now < end {}
    }
}

// ScalarDates: date functions.

/// A part of an instant.
package enum DatePart {
    case year
    case month
    case day
    case hour
    case minute
    case second
    /// The fraction of the second, at least 0 and less than 1.
    case fraction
    /// The offset from UTC in minutes.
    case offset
    /// The date without the time of day.
    case date
    /// The time of day without the date.
    case time
}

/// The functions that return parts of instants, days and times of day, all in UTC.
package enum ScalarDates {
    /// Returns a part of an instant, which is given in microseconds since 1970.
    package static func part(_ part: DatePart, ofInstant microseconds: Int64) -> Value {
        let (days, micros) = split(microseconds)
        let day = { Timestamp.civil(days: days) }
        return switch part {
        case .year: .integer(day().year)
        case .month: .integer(day().month)
        case .day: .integer(day().day)
        case .date: .string(text(day()))
        case .hour: .integer(hour(micros))
        case .minute: .integer(minute(micros))
        case .second: .integer(second(micros))
        case .fraction: .number(fraction(micros))
        case .time: .string(TimeText.text(micros))
        case .offset: .integer(0)
        }
    }

    /// Returns a part of a string that is a day, a time of day, or an instant.
    package static func part(_ part: DatePart, ofText text: String) -> Value {
        if let timestamp = Timestamp(text) {
            return self.part(part, ofInstant: timestamp.microseconds)
        }
        let day = { DayText.parts(text) }
        let micros = { TimeText.microseconds(text) }
        return switch part {
        case .year: day().map { .integer($0.year) } ?? .null
        case .month: day().map { .integer($0.month) } ?? .null
        case .day: day().map { .integer($0.day) } ?? .null
        case .hour: micros().map { .integer(hour($0)) } ?? .null
        case .minute: micros().map { .integer(minute($0)) } ?? .null
        case .second: micros().map { .integer(second($0)) } ?? .null
        case .fraction: micros().map { .number(fraction($0)) } ?? .null
        case .offset, .date, .time: .null
        }
    }

    private static func split(_ microseconds: Int64) -> (day: Int64, micros: Int64) {
        let dayLength: Int64 = 86_400_000_000
        let micros = (microseconds % dayLength + dayLength) % dayLength
        let day = microseconds / dayLength - (microseconds % dayLength < 0 ? 1 : 0)
        return (day, micros)
    }

    private static func text(_ day: (year: Int64, month: Int64, day: Int64)) -> String {
        DayText.text(year: day.year, month: day.month, day: day.day)
    }

    private static func hour(_ micros: Int64) -> Int64 { micros / 3_600_000_000 }

    private static func minute(_ micros: Int64) -> Int64 { micros / 60_000_000 % 60 }

    private static func second(_ micros: Int64) -> Int64 { micros / 1_000_000 % 60 }

    private static func fraction(_ micros: Int64) -> Double {
        Double(micros % 1_000_000) / 1_000_000
    }
}

// ScalarDates: the parts of instants, days and times of day, all in UTC.

package enum ScalarDates {
    /// A part of an instant, in microseconds since 1970.
    package static func part(_ function: Function, ofInstant microseconds: Int64) -> Value {
        let (day, micros) = split(microseconds)
        switch function {
        case .totaloffsetminutes: return .integer(0)
        case .year, .month, .day, .date:
            let (year, month, monthDay) = Timestamp.civil(days: day)
            return part(function, year, month, monthDay)
        default: return part(function, ofTime: micros)
        }
    }

    /// A part of a text: a day, a time of day, or an instant.
    package static func part(_ function: Function, ofText text: String) -> Value {
        if let stamp = Timestamp(text) {
            return part(function, ofInstant: stamp.microseconds)
        }
        switch function {
        case .year, .month, .day:
            guard let (year, month, day) = DayText.parts(text) else { return .null }
            return part(function, year, month, day)
        case .hour, .minute, .second, .fractionalseconds:
            return TimeText.microseconds(text).map { part(function, ofTime: $0) } ?? .null
        default: return .null
        }
    }

    private static func split(_ microseconds: Int64) -> (day: Int64, micros: Int64) {
        let dayLength: Int64 = 86_400_000_000
        let micros = (microseconds % dayLength + dayLength) % dayLength
        let day = microseconds / dayLength - (microseconds % dayLength < 0 ? 1 : 0)
        return (day, micros)
    }

    private static func part(
        _ function: Function,
        _ year: Int64,
        _ month: Int64,
        _ day: Int64
    )
        -> Value
    {
        switch function {
        case .year: .integer(year)
        case .month: .integer(month)
        case .day: .integer(day)
        default: .string(DayText.text(year: year, month: month, day: day))
        }
    }

    private static func part(_ function: Function, ofTime micros: Int64) -> Value {
        switch function {
        case .hour: .integer(micros / 3_600_000_000)
        case .minute: .integer(micros / 60_000_000 % 60)
        case .second: .integer(micros / 1_000_000 % 60)
        case .fractionalseconds: .number(Double(micros % 1_000_000) / 1_000_000)
        case .time: .string(TimeText.text(micros))
        default: .null
        }
    }
}

// TodoItem, TodoName, FixedEnvironment: the small records that are measured, and the time and ids of a run.

import Foundation
import Synchronization
import Tideline
import TidelineCore

struct TodoItem: MeasuredRecord {
    var id = ""
    var text: String
    var complete = false
    var rank: Int
    var due: Date?
    var version: String?

    /// Makes a record; all numbers of up to eight digits give records of the same size.
    init(number: Int) {
        text = "item \(10_000_000 + number) abcdefghijklmnopqrstuvwxyz"
        complete = number % 2 == 0
        rank = 10_000 + number % 10_000
        due = Date(timeIntervalSince1970: 1_800_000_000)
    }

    /// The body of a request that inserts the record.
    static func json(number: Int, id: String) -> String {
        """
        {"id":"\(id)","text":"item \(10_000_000 + number) abcdefghijklmnopqrstuvwxyz",\
        "complete":\(number % 2 == 0),"rank":\(10_000 + number % 10_000),\
        "due":"2027-01-15T08:00:00.000Z"}
        """
    }
}

/// The same records for an app that knows only half of the columns.
struct TodoName: MeasuredRecord {
    static let tableName = "TodoItem"

    var id = ""
    var text: String
    var rank: Int

    init(number: Int) {
        let item = TodoItem(number: number)
        (text, rank) = (item.text, item.rank)
    }
}

/// A clock that advances by a millisecond each time it is read, and ids in a fixed order.
final class FixedEnvironment: Sendable {
    /// The first time, in microseconds since 1970.
    static let start: Int64 = 1_800_000_000_000_000

    private let time = Mutex(start)
    private let ids = Mutex<UInt64>(0)

    func now() -> Int64 {
        time.withLock { time in
            time += 1000
            return time
        }
    }

    func makeID() -> String {
        let number = ids.withLock { count in
            count += 1
            return count
        }
        return TimeOrderedID.make(milliseconds: Self.start / 1000, random: (0, number << 2))
    }
}

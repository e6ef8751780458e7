// Job: a record as apps have them, with a nested value, a list, a decimal, an enum and a URL.

import Foundation
import Tideline

struct Job: MeasuredRecord {
    struct Address: Codable, Hashable {
        var street: String
        var city = "Kiel"
        var postcode = "24103"
    }

    enum Status: String, Codable { case open, done }

    var id = ""
    var customerID: String
    var title: String
    var notes: String? = "Ring twice, and bring a long ladder."
    var status: Status
    var isUrgent: Bool
    var minutes: Int
    var distance = 12.25
    var price: Decimal
    var tags = ["heating", "urgent"]
    var address: Address
    var link: URL?
    var due: Date?
    var updatedAt: Date?

    init(number: Int) {
        customerID = "customer \(10_000 + number / 20)"
        title = "Repair the boiler \(10_000 + number)"
        status = number % 2 == 0 ? .open : .done
        isUrgent = number % 7 == 0
        minutes = 100 + number % 400
        price = Decimal(100_000 + number) / 100
        address = Address(street: "Hafenstraße \(10_000 + number)")
        link = URL(string: "https://jobs.example/\(10_000 + number)")
        due = Date(timeIntervalSince1970: 1_800_000_000)
    }
}

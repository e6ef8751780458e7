// Customer: the record of a customer.

import Foundation
import Tideline

/// A customer of the field service.
struct Customer: SyncRecord, Hashable {
    /// A nested value, stored as a JSON document; conditions can use its members.
    struct Address: Codable, Hashable {
        var street = ""
        var city = ""
    }

    var id = UUID().uuidString.lowercased()
    /// The number on invoices; the server accepts each number once.
    var number: String
    var name: String
    var address = Address()
    var notes: String?
    var updatedAt: Date?

    static let defaults = Customer(number: "", name: "")
    static let search = SearchIndex(\Customer.name, \Customer.number, \Customer.notes)
    static let rules: [Rule<Customer>] = [
        .required(\.number), .maxLength(\.number, 20), .unique(\.number),
        .required(\.name), .maxLength(\.name, 100),
    ]
}

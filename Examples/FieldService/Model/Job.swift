// Job: the record of a job.

import Foundation
import Tideline

/// A job for a customer.
struct Job: SyncRecord, Hashable {
    enum Status: String, Codable, CaseIterable {
        case open, done, cancelled
    }

    var id = UUID().uuidString.lowercased()
    var customerID: Customer.ID
    var title: String
    var status = Status.open
    var tags: [String] = []
    var openedAt: Date?
    var updatedAt: Date?

    static let defaults = Job(customerID: "", title: "")
    static let references = [Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)]
    static let rules: [Rule<Job>] = [.required(\.title), .maxLength(\.title, 120)]
}

// Visit: the record of a visit.

import Foundation
import Tideline

/// A technician's visit for a job, planned or done.
struct Visit: SyncRecord, Hashable {
    var id = UUID().uuidString.lowercased()
    var jobID: Job.ID
    var technician = ""
    var start: Date?
    var end: Date?
    /// The minutes that the customer pays for.
    var minutes = 0
    var updatedAt: Date?

    static let defaults = Visit(jobID: "")
    static let indexes: [[PropertyPath<Visit>]] = [[\.start]]
    static let references = [Reference(\Visit.jobID, to: Job.self, onDelete: .cascade)]
    static let rules: [Rule<Visit>] = [
        .range(\.minutes, 0...1440), .compare(\.start, .lessOrEqual, \.end),
    ]
}

// Part: the record of a part.

import Foundation
import Tideline

/// A part that was used for a job, and perhaps brought along on a certain visit.
struct Part: SyncRecord, Hashable {
    var id = UUID().uuidString.lowercased()
    var jobID: Job.ID
    var visitID: Visit.ID?
    var name: String
    var quantity = 1
    /// Whole cents, which SQL multiplies and adds exactly.
    var cents = 0
    var updatedAt: Date?

    static let defaults = Part(jobID: "", name: "")
    /// A job with parts cannot be deleted; a part outlives its visit.
    static let references = [
        Reference(\Part.jobID, to: Job.self, onDelete: .restrict),
        Reference(\Part.visitID, to: Visit.self, onDelete: .setNull),
    ]
    static let rules: [Rule<Part>] = [
        .required(\.name), .maxLength(\.name, 100),
        .range(\.quantity, 1...1000), .range(\.cents, 0...100_000_000),
    ]
}

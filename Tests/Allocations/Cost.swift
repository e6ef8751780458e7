// Cost: what one operation allocates.

import CAllocations
import Foundation

struct Cost {
    /// The number of allocations; a call of `realloc` is one.
    var allocations: Double
    /// The requested bytes.
    var bytes: Double
    /// The number of allocations that were not freed by the end of the run, such as cached pages;
    /// negative if earlier allocations were freed.
    var kept = 0.0

    init(allocations: Double, bytes: Double) {
        self.allocations = allocations
        self.bytes = bytes
    }

    /// The difference between two totals of the process, for each of the operations.
    init(from start: tideline_allocations, to end: tideline_allocations, operations: Int) {
        let operations = Double(operations)
        allocations = Double(end.count - start.count) / operations
        bytes = Double(end.bytes - start.bytes) / operations
        kept = allocations - Double(end.frees - start.frees) / operations
    }

    static func text(_ number: Double, digits: Int = 1) -> String {
        String(format: "%.\(digits)f", number)
    }
}

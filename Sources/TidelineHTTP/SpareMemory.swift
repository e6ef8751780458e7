// SpareMemory: returns memory to the system.
//
// Answers that wait for slow callers are scattered among free blocks in malloc's pools, which grow
// around them: two hundred callers that did not read cost two and a half times what was counted for
// their answers. Mapping each large block separately would also help, but then pages of 3.6 MB,
// whose memory is used again and again, cost more than twice the time.

import CEpoll
import Dispatch
import Synchronization

/// The free memory that malloc retains after earlier responses.
enum SpareMemory {
    private static let isUnderWay = Atomic(false)
    /// The queue for returning memory, which takes some milliseconds while malloc locks each arena.
    private static let queue = DispatchQueue(label: "tideline-spare-memory")

    /// Returns the free memory of the process to the system, and memory that is freed from now on.
    ///
    /// Does nothing while another call is running.
    static func giveBack() {
        guard !isUnderWay.exchange(true, ordering: .relaxed) else { return }
        queue.async {
            tideline_give_back_memory()
            isUnderWay.store(false, ordering: .relaxed)
        }
    }

    /// Makes malloc keep memory that is freed from now on.
    static func keep() {
        queue.async { tideline_keep_memory() }
    }
}

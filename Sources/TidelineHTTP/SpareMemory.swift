// SpareMemory: what malloc keeps of answers that are gone goes back to the system.
//
// Answers that wait for slow callers lie among what is free in malloc's pools, which grow around
// them: two hundred callers that did not read cost two and a half times what was counted for their
// answers. To map each large block by itself would help, too, but pages of 3.6 MB, whose memory is
// used again and again, then cost more than twice the time.

import CEpoll
import Dispatch
import Synchronization

enum SpareMemory {
    private static let isUnderWay = Atomic(false)
    /// It takes some milliseconds, so no loop runs it; malloc locks each arena while it walks it.
    private static let queue = DispatchQueue(label: "tideline-spare-memory")

    /// Gives back what is free in the whole process, and from then on what is freed; does nothing
    /// while that is being done.
    static func giveBack() {
        guard !isUnderWay.exchange(true, ordering: .relaxed) else { return }
        queue.async {
            tideline_give_back_memory()
            isUnderWay.store(false, ordering: .relaxed)
        }
    }

    /// Lets malloc keep what is freed again.
    static func keep() {
        queue.async { tideline_keep_memory() }
    }
}

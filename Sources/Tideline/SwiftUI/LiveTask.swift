// LiveTask: the task of an observable object.

import Synchronization

/// A holder of one task, which is cancelled with the object.
final class LiveTask: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Sets the next task and cancels the previous one.
    func replace(with next: Task<Void, Never>) {
        task.withLock { task in
            task?.cancel()
            task = next
        }
    }

    deinit { task.withLock { $0?.cancel() } }
}

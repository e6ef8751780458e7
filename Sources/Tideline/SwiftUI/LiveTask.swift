// LiveTask: the task behind an observable object.

import Synchronization

/// One task at a time; the last one is cancelled with the object.
final class LiveTask: Sendable {
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Cancels the task before it.
    func replace(with next: Task<Void, Never>) {
        task.withLock { task in
            task?.cancel()
            task = next
        }
    }

    deinit { task.withLock { $0?.cancel() } }
}

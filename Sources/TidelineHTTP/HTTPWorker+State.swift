// The state of a worker, by the part of its work that it belongs to.

import TidelineServerCore

extension HTTPWorker {
    /// The listening sockets of a worker.
    struct ListeningSockets {
        var sockets: [Int32] = []
        /// Whether another process also has the sockets, and accepts the connections that this one does not.
        var areShared = false
        var areOpen = true
        /// Whether the system had no descriptor or memory for the last connection.
        var isExhausted = false
        var connectionsMax = 0
    }

    /// The deadlines of a server that is shutting down.
    struct Drain {
        /// When the last connections are closed.
        let deadline: ContinuousClock.Instant
        /// Until when connections without a request may send one.
        let lastRequestDeadline: ContinuousClock.Instant
    }

    /// The connections that listen for changes.
    struct Streams {
        var count = 0
        /// The maximum number of listeners of all loops together.
        var countMax = 0
        /// The loop's feed of table changes; nil until the first listener.
        var feed: EventFeed?
        /// The events of the current state of the tables, as text.
        var texts = EventTexts()
        /// The listeners that have to be notified, from `dueStart` on.
        var due: [HTTPConnection] = []
        var dueStart = 0
        var isNotifying = false
    }

    /// Buffers whose contents are not needed after each use.
    struct Buffers {
        /// The bytes of a read; the worker deallocates it.
        let input = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        /// The head of an answer while it is sent.
        var head: [UInt8] = []
        /// The bytes of one TLS record.
        var record: [UInt8] = []
    }

    /// The work that is left for the next turn of the loop.
    struct Pending {
        /// The connections that have used their turn but are not done.
        var connections: [HTTPConnection] = []
        /// Whether there may be jobs for which no event wakes the loop.
        var hasJobs = false
        /// The bytes of answers that this turn of the loop has sent.
        var bytesSent = 0
    }

    /// The periodic checks of all connections.
    struct Sweeps {
        var next = ContinuousClock.now
        /// The number of further sweeps that return unused memory to the system.
        var spareRounds = 0
        /// Whether some connections were idle at the last check.
        var idleKnown = true
    }
}

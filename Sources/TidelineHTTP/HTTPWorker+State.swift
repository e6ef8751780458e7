// The state of a worker, by the part of its work that it belongs to.

import TidelineServerCore

extension HTTPWorker {
    /// The listening sockets of a worker.
    struct Doors {
        var sockets: [Int32] = []
        /// Whether another process has the sockets, too, and accepts connections that are not accepted
        /// here.
        var areShared = false
        var areOpen = true
        /// The system had no descriptor or memory for a connection when it was last asked.
        var isExhausted = false
        var connectionsMax = 0
    }

    /// The end of the service.
    struct Drain {
        /// When the last connections are closed.
        let deadline: ContinuousClock.Instant
        /// Until then connections without a request may still send one.
        let lastRequestDeadline: ContinuousClock.Instant
    }

    /// The connections that listen for changes.
    struct Streams {
        var count = 0
        /// The most listeners, of all loops together.
        var countMax = 0
        /// The loop's feed of table changes; nil until the first listener.
        var feed: EventFeed?
        /// The events of the current state of the tables, as text.
        var texts = EventTexts()
        /// Listeners that have to be notified, those from `dueStart` on.
        var due: [HTTPConnection] = []
        var dueStart = 0
        var isTelling = false
    }

    /// Buffers that keep nothing from one use to the next.
    struct Buffers {
        /// The bytes of a read; the worker deallocates it.
        let input = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        /// The head of an answer while it is sent.
        var head: [UInt8] = []
        /// The bytes of one TLS record.
        var record: [UInt8] = []
    }

    /// The work that the next turn of the loop continues.
    struct Pending {
        /// Connections that have used their turn and are not done.
        var connections: [HTTPConnection] = []
        /// There may be jobs that nothing will wake the loop for.
        var hasJobs = false
        /// The bytes of answers that this turn of the loop has sent.
        var bytesSent = 0
    }

    /// The checks of all connections at intervals.
    struct Sweeps {
        var next = ContinuousClock.now
        /// The number of sweeps after which spare memory is returned to the system.
        var spareRounds = 0
        /// Whether some connections were idle at the last check.
        var idleKnown = true
    }
}

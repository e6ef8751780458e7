// ServerMetrics+Text: the metrics in the text format of Prometheus, each with its help line.

import TidelineCore

extension ServerMetrics {
    private typealias Number = (name: String, type: String, help: String, value: Int)

    /// Values that are read when the metrics are requested.
    package struct Now: Sendable {
        package var writeQueue: Int
        package var logBytes: Int
        /// The expiry of the certificate, in seconds since 1970; nil if it is not known.
        package var certificateEnd: Int?
        package var lastBackup: Int?
        package var use: ProcessUse
        package var bounds: Bounds

        package init(
            writeQueue: Int,
            logBytes: Int,
            certificateEnd: Int? = nil,
            lastBackup: Int? = nil,
            use: ProcessUse = ProcessUse(),
            bounds: Bounds = Bounds()
        ) {
            self.writeQueue = writeQueue
            self.logBytes = logBytes
            self.certificateEnd = certificateEnd
            self.lastBackup = lastBackup
            self.use = use
            self.bounds = bounds
        }
    }

    /// The limits that the metrics contain, for alerts.
    package struct Bounds: Sendable {
        package var connections = 0
        package var listeners = 0
        package var ledgerBytes = 0

        package init() {}
    }

    /// Returns the metrics in the text format of Prometheus, version 0.0.4.
    package func text(_ now: Now, traffic: ServerTraffic) -> [UInt8] {
        var writer = JSONWriter(capacity: 32 << 10)
        Self.head(&writer, "tideline_build_info", "gauge", "The version of the server.")
        writer.raw("tideline_build_info{version=\"\(ServerVersion.text)\"} 1\n")
        writeRequests(&writer)
        for number in numbers(now) + Self.times(now) + Self.uses(now) + Self.numbers(traffic)
            + Self.numbers(traffic.store)
        {
            Self.head(&writer, number.name, number.type, number.help)
            writer.raw("\(number.name) \(number.value)\n")
        }
        if let seconds = now.use.processorSeconds {
            let name = "process_cpu_seconds_total"
            Self.head(&writer, name, "counter", "Processor time of the process, in seconds.")
            writer.raw("\(name) \(seconds)\n")
        }
        Self.writeReplica(traffic.store, &writer)
        Self.writePurged(traffic.store, &writer)
        Self.writeHistograms(traffic, &writer)
        return writer.bytes
    }

    private func writeRequests(_ writer: inout JSONWriter) {
        Self.head(&writer, "tideline_requests_total", "counter", "Requests answered.")
        for operation in Operation.allCases {
            for (status, count) in counts(of: operation) where count > 0 {
                let labels = "route=\"\(operation)\",status=\"\(status)\""
                writer.raw("tideline_requests_total{\(labels)} \(count)\n")
            }
        }
        let name = "tideline_request_seconds"
        Self.head(&writer, name, "histogram", "Time from the whole request to its answer.")
        for operation in Operation.allCases {
            let reading = latency(of: operation)
            guard reading.total > 0 else { continue }
            let label = "route=\"\(operation)\""
            reading.write(&writer, name, label: label, bounds: Histogram.times, isTime: true)
        }
    }

    private func numbers(_ now: Now) -> [Number] {
        [
            ("tideline_rows_sent_total", "counter", "Rows sent in lists.", rowsSentCount),
            ("tideline_rows_written_total", "counter", "Rows changed by writes.", rowsWrittenCount),
            ("tideline_write_queue_length", "gauge", "Writes that wait.", now.writeQueue),
            (
                "tideline_log_bytes", "gauge", "Size of the write-ahead log's file.",
                now.logBytes
            ),
        ]
    }

    private static func times(_ now: Now) -> [Number] {
        let times = [
            (
                "tideline_certificate_end_seconds",
                "When the server's certificate ends, in seconds since 1970.", now.certificateEnd
            ),
            (
                "tideline_backup_last_seconds",
                "When 'tideline backup' last made a backup, in seconds since 1970.", now.lastBackup
            ),
        ]
        return times.compactMap { name, help, time in
            time.map { (name, "gauge", help, $0) }
        }
    }

    /// Returns metrics of the process, with Prometheus' standard names.
    private static func uses(_ now: Now) -> [Number] {
        let uses: [(String, String, Int?)] = [
            (
                "process_resident_memory_bytes", "Memory of the process that is in use.",
                now.use.memoryBytes
            ),
            ("process_open_fds", "Descriptors that are open.", now.use.descriptors),
            ("process_max_fds", "The most descriptors.", now.use.descriptorsMax),
            (
                "tideline_disk_free_bytes", "Free space of the disk that has the database's file.",
                now.use.diskFreeBytes
            ),
            (
                "tideline_disk_bytes", "The space of the disk that has the database's file.",
                now.use.diskBytes
            ),
            (
                "tideline_connections_max", "The bound of connections, limits.connections.",
                now.bounds.connections
            ),
            (
                "tideline_listeners_max", "The bound of listeners, limits.listeners.",
                now.bounds.listeners
            ),
            (
                "tideline_ledger_bytes_max",
                "The bound of the ledger in bytes, limits.ledgerBytes.", now.bounds.ledgerBytes
            ),
        ]
        return uses.compactMap { name, help, value in value.map { (name, "gauge", help, $0) } }
    }

    private static func numbers(_ traffic: ServerTraffic) -> [Number] {
        [
            (
                "tideline_answers_bytes", "gauge", "Bytes of answers that wait for their callers.",
                traffic.answersHeld
            ),
            (
                "tideline_answers_waiting", "gauge", "Answers that wait for room to be made.",
                traffic.memories.reduce(0) { $0 + $1.waiting }
            ),
            (
                "tideline_requests_bytes", "gauge",
                "Bytes of requests under way, without the first 4 KiB of each.",
                traffic.requestBytes.current
            ),
            (
                "tideline_connections", "gauge", "Connections that are open.",
                traffic.connections.current
            ),
            (
                "tideline_connections_evicted_total", "counter",
                "Idle connections closed to make room for new ones.",
                traffic.connectionsEvicted.current
            ),
            (
                "tideline_connections_limited_total", "counter",
                "Connections and streams of events refused because their callers had too many.",
                traffic.connectionsLimited.current
            ),
            (
                "tideline_caller_connections_max", "gauge",
                "The connections of the address that has the most.",
                traffic.callerConnections.most?.count ?? 0
            ),
            (
                "tideline_callers_limited_total", "counter",
                "Requests refused because their callers asked for too much.",
                traffic.tooMany.current
            ),
            (
                "tideline_tokens_refused_total", "counter",
                "Requests refused for their tokens.", traffic.tokensRefused.current
            ),
            (
                "tideline_slow_readers_total", "counter",
                "Callers cut because they read too slowly while memory was short.",
                traffic.slowReaders.current
            ),
            (
                "tideline_hangups_total", "counter", "Callers that left while their request ran.",
                traffic.hangUps.current
            ),
            (
                "tideline_tls_handshakes_failed_total", "counter",
                "Connections that ended before both sides had agreed on keys.",
                traffic.failedHandshakes.current
            ),
            (
                "tideline_listeners", "gauge", "Streams of events that are open.",
                traffic.listeners.current
            ),
            (
                "tideline_log_lines_lost_total", "counter",
                "Log lines that were dropped because the output was blocked.",
                traffic.logLinesLost.current
            ),
        ]
    }

    private static func numbers(_ store: StoreMetrics) -> [Number] {
        [
            (
                "tideline_commits_failed_total", "counter",
                "Transactions of writes that came to nothing.", store.failures.current
            ),
            (
                "tideline_reads_waiting", "gauge", "Reads that wait for a thread or a connection.",
                store.readsWaiting.current
            ),
            (
                "tideline_read_restarts_total", "counter",
                "Reads interrupted after their share because other callers waited.",
                store.readRestarts.current
            ),
            (
                "tideline_cascade_steps_total", "counter",
                "Transactions that continued the delete of rows that refer to deleted ones.",
                store.cascadeSteps.current
            ),
            (
                "tideline_cascade_failures_total", "counter",
                "Deletes of rows that refer to one deleted row, which failed and are retried.",
                store.cascadeFailures.current
            ),
            (
                "tideline_ledger_bytes", "gauge",
                "Size of the ledger of repeated requests, read every ten minutes.",
                store.ledgerBytes.current
            ),
            (
                "tideline_ledger_entries", "gauge",
                "About how many entries the ledger has, looked at every ten minutes.",
                store.ledgerEntries.current
            ),
            (
                "tideline_table_clock_ahead_seconds", "gauge",
                "How far the table clock that is furthest ahead of the wall clock is ahead.",
                store.clockAhead.current
            ),
            (
                "tideline_wall_clock_doubted", "gauge",
                "Whether the wall clock is doubted, so that nothing is removed for its age.",
                store.clockDoubted.current
            ),
        ]
    }

    private static func writeReplica(_ store: StoreMetrics, _ writer: inout JSONWriter) {
        let name = "tideline_replica_pages_total"
        head(&writer, name, "counter", "Pages from the replica, and those it could not answer.")
        writer.raw("\(name){outcome=\"answered\"} \(store.replicaPages.current)\n")
        writer.raw("\(name){outcome=\"behind\"} \(store.replicaBehind.current)\n")
        writer.raw("\(name){outcome=\"failed\"} \(store.replicaFailures.current)\n")
    }

    private static func writePurged(_ store: StoreMetrics, _ writer: inout JSONWriter) {
        let name = "tideline_purged_total"
        head(&writer, name, "counter", "What was removed as older than it is kept.")
        writer.raw("\(name){kind=\"tombstones\"} \(store.tombstonesPurged.current)\n")
        writer.raw("\(name){kind=\"changes\"} \(store.changesPurged.current)\n")
        writer.raw("\(name){kind=\"ledger\"} \(store.ledgerPurged.current)\n")
        writer.raw("\(name){kind=\"audit\"} \(store.auditPurged.current)\n")
    }

    private static func writeHistograms(_ traffic: ServerTraffic, _ writer: inout JSONWriter) {
        let store = traffic.store
        for (name, help, reading) in [
            (
                "tideline_commit_seconds", "Time of a transaction of writes, its flush included.",
                store.commits.reading
            ),
            (
                "tideline_checkpoint_seconds",
                "Time of copying the write-ahead log to the database.", store.checkpoints.reading
            ),
            (
                "tideline_read_wait_seconds",
                "Time that reads waited for a thread or a connection.",
                store.readWaits.reading
            ),
            (
                "tideline_loop_seconds",
                "Time of a turn of an event loop: what comes meanwhile waits for so long.",
                traffic.loopTurns
            ),
        ] {
            head(&writer, name, "histogram", help)
            reading.write(&writer, name, bounds: Histogram.times, isTime: true)
        }
        let name = "tideline_commit_writes"
        head(&writer, name, "histogram", "Writes of a transaction.")
        store.groups.reading.write(&writer, name, bounds: Histogram.sizes, isTime: false)
    }

    private static func head(
        _ writer: inout JSONWriter,
        _ name: String,
        _ type: String,
        _ help: String
    ) {
        writer.raw("# HELP \(name) \(help)\n# TYPE \(name) \(type)\n")
    }
}

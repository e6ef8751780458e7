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
        Self.head(&writer, name, "histogram", "Time from the end of the request to its response.")
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
            (
                "tideline_write_queue_length", "gauge", "Writes waiting in the queue.",
                now.writeQueue
            ),
            (
                "tideline_log_bytes", "gauge", "Size of the write-ahead log file, in bytes.",
                now.logBytes
            ),
        ]
    }

    private static func times(_ now: Now) -> [Number] {
        let times = [
            (
                "tideline_certificate_end_seconds",
                "When the server's certificate expires, in seconds since 1970.", now.certificateEnd
            ),
            (
                "tideline_backup_last_seconds",
                "When 'tideline backup' last created a backup, in seconds since 1970.",
                now.lastBackup
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
                "process_resident_memory_bytes", "Resident memory of the process, in bytes.",
                now.use.memoryBytes
            ),
            ("process_open_fds", "Open file descriptors.", now.use.descriptors),
            ("process_max_fds", "Maximum number of open file descriptors.", now.use.descriptorsMax),
            (
                "tideline_disk_free_bytes",
                "Free space on the disk of the database file, in bytes.",
                now.use.diskFreeBytes
            ),
            (
                "tideline_disk_bytes", "Size of the disk of the database file, in bytes.",
                now.use.diskBytes
            ),
            (
                "tideline_connections_max", "Maximum number of connections (limits.connections).",
                now.bounds.connections
            ),
            (
                "tideline_listeners_max", "Maximum number of event streams (limits.listeners).",
                now.bounds.listeners
            ),
            (
                "tideline_ledger_bytes_max",
                "Maximum size of the idempotency ledger, in bytes (limits.ledgerBytes).",
                now.bounds.ledgerBytes
            ),
        ]
        return uses.compactMap { name, help, value in value.map { (name, "gauge", help, $0) } }
    }

    private static func numbers(_ traffic: ServerTraffic) -> [Number] {
        [
            (
                "tideline_answers_bytes", "gauge", "Bytes of responses waiting for their callers.",
                traffic.reservedAnswerBytes
            ),
            (
                "tideline_answers_waiting", "gauge", "Responses waiting for a memory reservation.",
                traffic.memories.reduce(0) { $0 + $1.waiting }
            ),
            (
                "tideline_requests_bytes", "gauge",
                "Bytes of requests in progress, without the first 4 KiB of each.",
                traffic.requestBytes.current
            ),
            (
                "tideline_connections", "gauge", "Open connections.",
                traffic.connections.current
            ),
            (
                "tideline_connections_evicted_total", "counter",
                "Idle connections closed to free capacity for new ones.",
                traffic.connectionsEvicted.current
            ),
            (
                "tideline_connections_limited_total", "counter",
                "Connections and event streams rejected because their callers had too many.",
                traffic.connectionsLimited.current
            ),
            (
                "tideline_caller_connections_max", "gauge",
                "Connections of the address that has the most.",
                traffic.callerConnections.most?.count ?? 0
            ),
            (
                "tideline_callers_limited_total", "counter",
                "Requests rejected because their callers exceeded a limit.",
                traffic.tooMany.current
            ),
            (
                "tideline_tokens_refused_total", "counter",
                "Requests rejected because of their tokens.", traffic.tokensRejected.current
            ),
            (
                "tideline_slow_readers_total", "counter",
                "Connections closed because the client read too slowly while response memory was low.",
                traffic.slowReaders.current
            ),
            (
                "tideline_hangups_total", "counter",
                "Clients that disconnected during their request.",
                traffic.hangUps.current
            ),
            (
                "tideline_tls_handshakes_failed_total", "counter",
                "Connections that ended during the TLS handshake.",
                traffic.failedHandshakes.current
            ),
            (
                "tideline_listeners", "gauge", "Open event streams.",
                traffic.listeners.current
            ),
            (
                "tideline_log_lines_lost_total", "counter",
                "Log lines dropped because the output was blocked.",
                traffic.logLinesLost.current
            ),
        ]
    }

    private static func numbers(_ store: StoreMetrics) -> [Number] {
        [
            (
                "tideline_commits_failed_total", "counter",
                "Write transactions that failed.", store.failures.current
            ),
            (
                "tideline_reads_waiting", "gauge", "Reads waiting for a thread or a connection.",
                store.readsWaiting.current
            ),
            (
                "tideline_read_restarts_total", "counter",
                "Reads interrupted after their time slice because other callers were waiting.",
                store.readRestarts.current
            ),
            (
                "tideline_cascade_steps_total", "counter",
                "Transactions that continued a cascading delete.",
                store.cascadeSteps.current
            ),
            (
                "tideline_cascade_failures_total", "counter",
                "Failed steps of cascading deletes, which are retried.",
                store.cascadeFailures.current
            ),
            (
                "tideline_ledger_bytes", "gauge",
                "Size of the idempotency ledger in bytes, updated every ten minutes.",
                store.ledgerBytes.current
            ),
            (
                "tideline_ledger_entries", "gauge",
                "Approximate number of ledger entries, updated every ten minutes.",
                store.ledgerEntries.current
            ),
            (
                "tideline_table_clock_ahead_seconds", "gauge",
                "Largest lead of any table clock over the wall clock, in seconds.",
                store.clockAhead.current
            ),
            (
                "tideline_wall_clock_doubted", "gauge",
                "1 if the wall clock is not trusted; expired rows are then not removed.",
                store.clockDoubted.current
            ),
        ]
    }

    private static func writeReplica(_ store: StoreMetrics, _ writer: inout JSONWriter) {
        let name = "tideline_replica_pages_total"
        head(&writer, name, "counter", "Pages requested from the replica, by outcome.")
        writer.raw("\(name){outcome=\"answered\"} \(store.replicaPages.current)\n")
        writer.raw("\(name){outcome=\"behind\"} \(store.replicaBehind.current)\n")
        writer.raw("\(name){outcome=\"failed\"} \(store.replicaFailures.current)\n")
    }

    private static func writePurged(_ store: StoreMetrics, _ writer: inout JSONWriter) {
        let name = "tideline_purged_total"
        head(
            &writer,
            name,
            "counter",
            "Entries removed because they exceeded their retention time."
        )
        writer.raw("\(name){kind=\"tombstones\"} \(store.tombstonesPurged.current)\n")
        writer.raw("\(name){kind=\"changes\"} \(store.changesPurged.current)\n")
        writer.raw("\(name){kind=\"ledger\"} \(store.ledgerPurged.current)\n")
        writer.raw("\(name){kind=\"audit\"} \(store.auditPurged.current)\n")
    }

    private static func writeHistograms(_ traffic: ServerTraffic, _ writer: inout JSONWriter) {
        let store = traffic.store
        for (name, help, reading) in [
            (
                "tideline_commit_seconds", "Duration of a write transaction, including its flush.",
                store.commits.reading
            ),
            (
                "tideline_checkpoint_seconds",
                "Duration of a checkpoint of the write-ahead log.", store.checkpoints.reading
            ),
            (
                "tideline_read_wait_seconds",
                "Time that a read waited for a thread or a connection.",
                store.readWaits.reading
            ),
            (
                "tideline_loop_seconds",
                "Duration of one event loop iteration. New events wait until it ends.",
                traffic.loopTurns
            ),
        ] {
            head(&writer, name, "histogram", help)
            reading.write(&writer, name, bounds: Histogram.times, isTime: true)
        }
        let name = "tideline_commit_writes"
        head(&writer, name, "histogram", "Number of writes in a transaction.")
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

// Overview: `GET /$admin/overview`: the server's data for the page, as one JSON object.

import TidelineCore

extension RequestHandler {
    func overview(_ dashboard: Dashboard, _ user: User?) async -> ServerResponse {
        // If the database cannot report its sizes, they are left out: the rest is needed all the more then.
        let sizes = (try? await service.store.sizes()) ?? []
        var writer = JSONWriter(capacity: 16 << 10)
        let now = now
        writer.raw("{\"now\":")
        writer.date(Timestamp(microseconds: now))
        writer.raw(",\"started\":")
        writer.date(Timestamp(microseconds: dashboard.started))
        writer.raw(",\"epoch\":")
        writer.string(service.epoch)
        writer.raw(",\"mode\":")
        writer.string(dashboard.gate.mode.rawValue)
        writer.raw(",\"dynamicSchema\":")
        writer.bool(service.settings.dynamicSchema)
        writer.raw(",\"operator\":")
        if let user { writer.string(user.id) } else { writer.null() }
        let events = service.settings.traffic.events
        writer.list(",\"tables\":[", service.catalog.all) { writer, table in
            let ahead = ClockAhead.seconds(events.timestamp(of: table.definition.name), now: now)
            writer.table(table.definition, user, clockAhead: ahead)
        }
        writer.raw(",\"traffic\":{\"writeQueue\":")
        writer.integer(Int64(service.store.writeQueueLength))
        writer.raw(",\"logBytes\":")
        writer.integer(Int64(service.store.logBytes))
        writer.raw(",\"listeners\":")
        writer.integer(Int64(service.settings.traffic.listeners.current))
        writer.raw(",\"answersBytes\":")
        writer.integer(Int64(service.settings.traffic.reservedAnswerBytes))
        service.metrics.write(to: &writer)
        writer.raw("}")
        let timestamps = service.settings.traffic.events
        writer.list(",\"sizes\":[", sizes) { writer, size in
            writer.raw("[")
            writer.string(size.part)
            writer.raw(",")
            writer.integer(size.bytes)
            writer.raw("]")
        }
        writer.list(",\"warnings\":[", service.store.warnings) { writer, warning in
            writer.raw("[")
            writer.string(warning.code)
            writer.raw(",")
            writer.string(warning.text)
            writer.raw("]")
        }
        writer.list(",\"devices\":[", dashboard.devices.all) {
            $0.device($1, behindSince: $1.behindSince { timestamps.timestamp(of: $0) })
        }
        writer.list(",\"slow\":[", dashboard.slow.all) { $0.slow($1) }
        writer.list(",\"settings\":[", dashboard.settings) { writer, setting in
            writer.raw("[")
            writer.string(setting.key)
            writer.raw(",")
            writer.string(setting.value)
            writer.raw("]")
        }
        writer.raw("}")
        return ServerResponse(
            status: 200,
            headers: ["Content-Type": "application/json"],
            body: writer.bytes
        )
    }
}

extension JSONWriter {
    fileprivate mutating func table(_ table: TableDefinition, _ user: User?, clockAhead: Int64) {
        raw("{\"name\":")
        string(table.name)
        raw(",\"softDelete\":")
        bool(table.softDelete)
        raw(",\"conflict\":")
        string(table.conflict.rawValue)
        raw(",\"owner\":")
        if let owner = table.owner { string(owner) } else { null() }
        raw(",\"clockAheadSeconds\":")
        integer(clockAhead)
        raw(",\"may\":{")
        for (place, (name, access)) in table.permissions.all.enumerated() {
            if place > 0 { byte(",") }
            string(name)
            byte(":")
            bool(user != nil || access != .disabled)
        }
        raw("}")
        list(",\"indexes\":[", table.indexes) { $0.string($1.joined(separator: ", ")) }
        list(",\"columns\":[", table.schema.columns) { $0.column($1) }
        raw("}")
    }

    private mutating func column(_ column: ColumnDefinition) {
        raw("{\"name\":")
        string(column.name)
        raw(",\"type\":")
        string(column.type.name)
        raw(",\"nullable\":")
        bool(column.isNullable)
        if case .enumeration(let members) = column.type {
            list(",\"members\":[", members) { $0.string($1) }
        }
        if let length = column.rules.maxLength {
            raw(",\"maxLength\":")
            integer(Int64(length))
        }
        raw("}")
    }

    fileprivate mutating func device(_ device: RecentDevices.Device, behindSince: Int64?) {
        raw("{\"id\":")
        string(device.id)
        raw(",\"client\":")
        string(device.client)
        raw(",\"user\":")
        string(device.user)
        time("firstSeen", device.firstSeen)
        time("lastSeen", device.lastSeen)
        time("lastPull", device.pulls.values.max())
        time("lastPush", device.lastPush)
        time("behindSince", behindSince)
        raw("}")
    }

    private mutating func time(_ name: String, _ microseconds: Int64?) {
        byte(",")
        string(name)
        byte(":")
        if let microseconds { date(Timestamp(microseconds: microseconds)) } else { null() }
    }

    fileprivate mutating func slow(_ entry: SlowRequests.Entry) {
        raw("{\"id\":")
        string(entry.id)
        time("time", entry.time)
        for (name, text) in [
            ("method", entry.method), ("path", entry.path), ("query", entry.query),
        ] {
            byte(",")
            string(name)
            byte(":")
            string(text)
        }
        raw(",\"status\":")
        integer(Int64(entry.status))
        raw(",\"microseconds\":")
        integer(entry.microseconds)
        raw("}")
    }
}

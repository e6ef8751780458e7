// ConfigurationKeys: all keys of the configuration file outside `tables`, in the order in which the
// dashboard shows them.

import Foundation
import TidelineHTTP
import TidelineServerCore

extension ConfigurationKey {
    static let all: [ConfigurationKey] = [
        ConfigurationKey("listen") { node, configuration, _ in
            node.apply { (text) throws(ConfigurationError) in try configuration.setListen(text) }
        } show: {
            $0.host.contains(":") ? "[\($0.host)]:\($0.port)" : "\($0.host):\($0.port)"
        },
        ConfigurationKey("database") { node, configuration, directory in
            node.apply { (text) throws(ConfigurationError) in
                try configuration.setDatabase(text, directory: directory)
            }
        } show: {
            $0.databaseName
        },
        ConfigurationKey("replica") { node, configuration, _ in
            node.apply { (text) throws(ConfigurationError) in try configuration.setReplica(text) }
        } show: {
            $0.replica.map { _ in "postgres" }
        },
        ConfigurationKey("publicURL") { node, configuration, _ in
            configuration.readPublicURL(node)
        } show: {
            $0.publicURL
        },
        .flag("dynamicSchema", \.dynamicSchema),
        // The dashboard shows the tables separately.
        ConfigurationKey("tables", members: []) { node, configuration, _ in
            configuration.tables = TableReading.tables(node)
        },
        .whole("loops", 1...256, \.loops),
        ConfigurationKey("readers") { node, configuration, _ in
            if let count = node.integer(2...256) { configuration.readers = count }
        } show: {
            $0.readers.map { "\($0)" }
        },
        ConfigurationKey(
            "log",
            members: [
                .choice("level", \.log.level), .choice("format", \.log.format),
                .choice("requests", \.log.requests), .seconds("slow", \.log.slow),
            ]
        ),
        ConfigurationKey("tls", members: tls) { node, configuration, directory in
            configuration.readTLS(node, directory: directory)
        },
        ConfigurationKey("authentication", members: authentication) {
            node,
            configuration,
            directory in
            configuration.readAuthentication(node, directory: directory)
        },
        ConfigurationKey("cors", members: cors), ConfigurationKey("proxies", members: proxies),
        ConfigurationKey(
            "dashboard",
            members: [
                .choice("mode", \.dashboard.mode),
                .whole("devices", 0...100_000, \.dashboard.devices),
                .whole("slowRequests", 0...10_000, \.dashboard.slowRequests),
                .seconds("slowTime", \.dashboard.slowTime),
            ]
        ),
        ConfigurationKey("metrics", members: metrics) { node, configuration, directory in
            configuration.readMetrics(node, directory: directory)
        },
        ConfigurationKey("limits", members: limits),
    ]

    private static let bytes = 1024...(1 << 30)
    private static let manyBytes = 1024...(1 << 40)
    private static let fileBytes = (1 << 20)...(1 << 40)

    static let limits: [ConfigurationKey] = [
        .whole("pageBytes", bytes, \.limits.pageBytes),
        .whole("rowBytes", bytes, \.limits.rowBytes),
        .seconds("queryTime", \.limits.queryTime),
        .whole("logBytes", fileBytes, \.limits.logBytes),
        .whole("writeQueue", 1...1_000_000, \.limits.writeQueue),
        .whole("mergeBases", 1...1000, \.limits.mergeBases),
        .whole("cascadeRows", 1...100_000, \.limits.cascadeRows),
        .whole("restrictRows", 1...1_000_000_000, \.limits.restrictRows),
        .whole("patchSteps", 1...100_000, \.limits.patchSteps),
        .whole("changeDays", 1...36_500, \.limits.changeDays),
        .whole("auditDays", 1...36_500, \.limits.auditDays),
        .whole("changeScan", 1...10_000_000, \.limits.changeScan),
        .whole("ledgerDays", 1...3650, \.limits.ledgerDays),
        .whole("ledgerBytes", fileBytes, \.limits.ledgerBytes),
        .whole("tables", 1...1_000_000, \.limits.tables),
        .whole("columns", 1...1500, \.limits.columns),
        .whole("batchRequests", 1...100_000, \.limits.batchRequests),
        .whole("batchBytes", bytes, \.limits.batchBytes),
        .whole("batchAnswerBytes", bytes, \.limits.batchAnswerBytes),
        .whole("callerRequests", 0...1_000_000, \.limits.callerRequests),
        .whole("callerWrites", 0...1_000_000, \.limits.callerWrites),
        .whole("callerBytes", 0...(1 << 40), \.limits.callerBytes),
        .whole("callerQueries", 0...100_000, \.limits.callerQueries),
        .whole("bodyBytes", bytes, \.http.bodyBytesMax),
        .whole("bodiesBytes", manyBytes, \.http.bodiesBytesMax),
        .whole("answersBytes", manyBytes, \.http.answersBytesMax),
        .whole("answerRate", 0...(1 << 30), \.http.answerRateMin),
        .whole("headerBytes", 4096...(1 << 20), \.http.headerBytesMax),
        .whole("headerFields", 10...10_000, \.http.headerFieldsMax),
        .whole("connections", 1...1_000_000, \.http.connectionsMax),
        .whole("listeners", 0...1_000_000, \.http.listenersMax),
        .whole("callerConnections", 0...1_000_000, \.http.callerConnectionsMax),
        .whole("callerListeners", 0...1_000_000, \.http.callerListenersMax),
        .seconds("eventsHeartbeat", \.http.eventsHeartbeat),
        .seconds("handshakeTime", \.http.handshakeTimeMax),
        .seconds("headerTime", \.http.headerTimeMax),
        .seconds("requestTime", \.http.requestTimeMax),
        .seconds("handlerTime", \.http.handlerTimeMax),
        .seconds("answerTime", \.http.answerTimeMax),
        .seconds("idleTime", \.http.idleTimeMax),
        .seconds("lingerTime", \.http.lingerTimeMax),
        .whole("lingerBytes", bytes, \.http.lingerBytesMax),
        .seconds("drainNotice", mayBeZero: true, \.http.drainNoticeTime),
        .seconds("drainTime", \.http.drainTimeMax),
    ]
}

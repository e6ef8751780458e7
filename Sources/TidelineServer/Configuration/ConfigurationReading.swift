// ConfigurationReading: the keys of the configuration file outside `tables`.

import Foundation
import TidelineHTTP
import TidelineServerCore

extension ServerConfiguration {
    private static let keys = [
        "listen", "database", "publicURL", "authentication", "cors", "dynamicSchema", "tables",
        "limits", "log", "loops", "readers", "tls", "dashboard", "proxies",
    ]

    /// `directory` is where relative names of files begin; nil for that of the process.
    mutating func read(_ root: ConfigurationNode, directory: String?) {
        for (name, node) in root.object(allowed: Self.keys) {
            switch name {
            case "listen":
                Self.apply(node) { (text) throws(ConfigurationError) in try setListen(text) }
            case "database":
                Self.apply(node) { (text) throws(ConfigurationError) in try setDatabase(text) }
            case "publicURL": readPublicURL(node)
            case "dynamicSchema": dynamicSchema = node.bool() ?? dynamicSchema
            case "tables": tables = TableReading.tables(node)
            case "limits": readLimits(node)
            case "log": readLog(node)
            case "readers":
                if let count = node.integer(2...256) { readers = count }
            case "dashboard": readDashboard(node)
            case "proxies": readProxies(node)
            case "loops": Self.put(node.integer(1...256), &loops)
            case "tls": readTLS(node, directory: directory)
            case "authentication": readAuthentication(node, directory: directory)
            default: readCrossOrigin(node)
            }
        }
        checkAccess(root.problems)
    }

    private static func apply(
        _ node: ConfigurationNode,
        _ body: (String) throws(ConfigurationError) -> Void
    ) {
        guard let text = node.string() else { return }
        do {
            try body(text)
        } catch {
            for fault in error.faults { node.problems.add(node.path, fault) }
        }
    }

    private mutating func readPublicURL(_ node: ConfigurationNode) {
        guard let text = node.string() else { return }
        guard let url = URL(string: text), url.scheme == "http" || url.scheme == "https",
            url.host != nil, url.query == nil, url.fragment == nil, !text.contains(";")
        else {
            return node.wrong("an http or https URL without query")
        }
        publicURL = text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    private mutating func readLimits(_ node: ConfigurationNode) {
        let bytes = 1024...(1 << 30)
        let allowed = [
            "pageBytes", "rowBytes", "queryTime", "logBytes", "writeQueue", "mergeBases",
            "patchSteps", "changeDays", "auditDays", "changeScan", "ledgerDays", "ledgerBytes",
            "batchRequests",
            "batchBytes", "batchAnswerBytes", "bodyBytes", "headerBytes", "headerFields",
            "connections", "handshakeTime",
            "headerTime", "requestTime", "idleTime", "handlerTime",
            "answerTime", "drainTime", "drainNotice", "lingerTime", "lingerBytes", "bodiesBytes",
            "answersBytes", "answerRate", "listeners", "eventsHeartbeat",
            "callerRequests", "callerWrites", "callerBytes", "callerQueries",
        ]
        for (name, node) in node.object(allowed: allowed) {
            switch name {
            case "pageBytes": Self.put(node.integer(bytes), &limits.pageBytes)
            case "rowBytes": Self.put(node.integer(bytes), &limits.rowBytes)
            case "queryTime": Self.put(node.seconds(), &limits.queryTime)
            case "logBytes": Self.put(node.integer((1 << 20)...(1 << 40)), &limits.logBytes)
            case "writeQueue": Self.put(node.integer(1...1_000_000), &limits.writeQueue)
            case "batchRequests":
                Self.put(node.integer(1...100_000), &limits.batchRequests)
            case "batchBytes": Self.put(node.integer(bytes), &limits.batchBytes)
            case "batchAnswerBytes": Self.put(node.integer(bytes), &limits.batchAnswerBytes)
            case "mergeBases": Self.put(node.integer(1...1000), &limits.mergeBases)
            case "ledgerDays": Self.put(node.integer(1...3650), &limits.ledgerDays)
            case "ledgerBytes":
                Self.put(node.integer((1 << 20)...(1 << 40)), &limits.ledgerBytes)
            case "changeDays": Self.put(node.integer(1...36_500), &limits.changeDays)
            case "auditDays": Self.put(node.integer(1...36_500), &limits.auditDays)
            case "changeScan": Self.put(node.integer(1...10_000_000), &limits.changeScan)
            case "callerRequests":
                Self.put(node.integer(0...1_000_000), &limits.callerRequests)
            case "callerWrites": Self.put(node.integer(0...1_000_000), &limits.callerWrites)
            case "callerBytes": Self.put(node.integer(0...(1 << 40)), &limits.callerBytes)
            case "callerQueries": Self.put(node.integer(0...100_000), &limits.callerQueries)
            case "patchSteps": Self.put(node.integer(1...100_000), &limits.patchSteps)
            case "bodyBytes": Self.put(node.integer(bytes), &http.bodyBytesMax)
            case "headerBytes": Self.put(node.integer(4096...(1 << 20)), &http.headerBytesMax)
            case "headerFields": Self.put(node.integer(10...10_000), &http.headerFieldsMax)
            case "connections": Self.put(node.integer(1...1_000_000), &http.connectionsMax)
            case "handshakeTime": Self.put(node.seconds(), &http.handshakeTimeMax)
            case "headerTime": Self.put(node.seconds(), &http.headerTimeMax)
            case "requestTime": Self.put(node.seconds(), &http.requestTimeMax)
            case "idleTime": Self.put(node.seconds(), &http.idleTimeMax)
            case "handlerTime": Self.put(node.seconds(), &http.handlerTimeMax)
            case "answerTime": Self.put(node.seconds(), &http.answerTimeMax)
            case "bodiesBytes":
                Self.put(node.integer(1024...(1 << 40)), &http.bodiesBytesMax)
            case "answersBytes":
                Self.put(node.integer(1024...(1 << 40)), &http.answersBytesMax)
            case "listeners": Self.put(node.integer(0...1_000_000), &http.listenersMax)
            case "eventsHeartbeat": Self.put(node.seconds(), &http.eventsHeartbeat)
            case "answerRate": Self.put(node.integer(0...(1 << 30)), &http.answerRateMin)
            case "drainNotice": Self.put(node.seconds(mayBeZero: true), &http.drainNoticeTime)
            case "lingerTime": Self.put(node.seconds(), &http.lingerTimeMax)
            case "lingerBytes": Self.put(node.integer(bytes), &http.lingerBytesMax)
            default: Self.put(node.seconds(), &http.drainTimeMax)
            }
        }
    }

    static func put<Limit>(_ value: Limit?, _ limit: inout Limit) {
        if let value { limit = value }
    }

    private mutating func readLog(_ node: ConfigurationNode) {
        for (name, node) in node.object(allowed: ["level", "format", "requests", "slow"]) {
            switch name {
            case "level": Self.put(node.choice(Log.Level.self), &log.level)
            case "format": Self.put(node.choice(Log.Format.self), &log.format)
            case "slow": Self.put(node.seconds(), &log.slow)
            default: Self.put(node.choice(Log.Level.self), &log.requests)
            }
        }
    }
}

// RecentDevices: devices for the dashboard.
//
// The list is in memory and bounded. It is a hint for an operator; the server decides nothing by it.

import Synchronization
import TidelineCore

/// The devices that sent an `X-ZUMO-INSTALLATION-ID`, with the times of their syncs.
package final class RecentDevices: Sendable {
    struct Device: Sendable {
        var id: String
        /// The client library, as the device reports it.
        var client = ""
        /// The `sub` of the device's last token.
        var user = ""
        var firstSeen: Int64
        var lastSeen: Int64
        var lastPush: Int64?
        /// When the server began to answer the last list of each table; later changes may be missing from it.
        var pulls: [String: Int64] = [:]
    }

    /// The header field with the installation id of a device.
    static let field = "X-ZUMO-INSTALLATION-ID"

    /// Whether the id is valid and short enough to be stored.
    static func isUsable(_ id: String) -> Bool {
        (1...idBytesMax).contains(id.utf8.count)
            && id.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }

    /// The maximum number of bytes of the strings that a caller can choose.
    private static let idBytesMax = 80
    private static let clientBytesMax = 120
    private static let userBytesMax = 256
    private static let tablesMax = 64

    private let countMax: Int
    private let devices = Mutex<[String: Device]>([:])

    package init(countMax: Int = 1000) {
        self.countMax = countMax
    }

    /// Records an answered request.
    func saw(_ request: ServerRequest, _ route: Route, status: Int, user: String?, at now: Int64) {
        guard countMax > 0, let id = request.headers[Self.field], Self.isUsable(id)
        else { return }
        devices.withLock { devices in
            if devices[id] == nil, devices.count >= countMax { Self.forgetOldest(&devices) }
            var device = devices[id] ?? Device(id: id, firstSeen: now, lastSeen: now)
            device.lastSeen = now
            if let user { device.user = UTF8Text.prefix(user, bytesMax: Self.userBytesMax) }
            let client = request.headers["X-ZUMO-VERSION"] ?? request.headers["User-Agent"]
            if let client {
                device.client = UTF8Text.prefix(client, bytesMax: Self.clientBytesMax)
            }
            device.take(request.method, route, isDone: status < 400, now, Self.tablesMax)
            devices[id] = device
        }
    }

    /// Removes a tenth of the devices, those that were seen least recently, so that this is rarely needed.
    private static func forgetOldest(_ devices: inout [String: Device]) {
        let oldest = devices.values.sorted { $0.lastSeen < $1.lastSeen }
        for device in oldest.prefix(max(1, devices.count / 10)) { devices[device.id] = nil }
    }

    /// The devices, beginning with the one that was seen last.
    var all: [Device] {
        devices.withLock { Array($0.values) }.sorted { $0.lastSeen > $1.lastSeen }
    }
}

extension RecentDevices.Device {
    fileprivate mutating func take(
        _ method: String,
        _ route: Route,
        isDone: Bool,
        _ now: Int64,
        _ tablesMax: Int
    ) {
        guard isDone else { return }
        switch (route, method) {
        case (.table(let table), "GET"):
            let name = table.lowercased()
            if pulls[name] != nil || pulls.count < tablesMax { pulls[name] = now }
        case (.batch, _), (.table, _): lastPush = now
        case (.row, let method) where method != "GET": lastPush = now
        case (.row, _), (.health, _), (.ready, _), (.metrics, _), (.events, _), (.schema, _),
            (.endpoint, _), (.dashboard, _), (.admin, _), (.unknown, _):
            break
        }
    }

    /// Returns when the device read the oldest list whose table has changed since; nil if there is none.
    func behindSince(_ timestamp: (String) -> Int64) -> Int64? {
        pulls.filter { timestamp($0.key) > $0.value }.values.min()
    }
}

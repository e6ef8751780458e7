// SeenDevices: the devices that named themselves by X-ZUMO-INSTALLATION-ID, and when they synced.
//
// In memory and bounded; a hint for an operator, and nothing that is decided by.

import Synchronization
import TidelineCore

package final class SeenDevices: Sendable {
    struct Device: Sendable {
        var id: String
        /// The library that it says it is.
        var client = ""
        /// The `sub` of its last token.
        var user = ""
        var firstSeen: Int64
        var lastSeen: Int64
        var lastPush: Int64?
        /// By table: when its last list began that was answered.
        var pulls: [String: Int64] = [:]
    }

    /// The header field with the name of a device.
    static let field = "X-ZUMO-INSTALLATION-ID"

    /// Whether it is a name that is worth keeping.
    static func isUsable(_ id: String) -> Bool {
        (1...idBytesMax).contains(id.utf8.count)
            && id.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }

    /// The limits of the texts that a caller may make long.
    private static let idBytesMax = 80
    private static let clientBytesMax = 120
    private static let userBytesMax = 256
    private static let tablesMax = 64

    private let countMax: Int
    private let devices = Mutex<[String: Device]>([:])

    package init(countMax: Int = 1000) {
        self.countMax = countMax
    }

    /// Takes note of a request that was answered.
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

    /// Forgets a tenth of them at a time, so that it is seldom done.
    private static func forgetOldest(_ devices: inout [String: Device]) {
        let oldest = devices.values.sorted { $0.lastSeen < $1.lastSeen }
        for device in oldest.prefix(max(1, devices.count / 10)) { devices[device.id] = nil }
    }

    /// Those seen last first.
    var all: [Device] {
        devices.withLock { Array($0.values) }.sorted { $0.lastSeen > $1.lastSeen }
    }
}

extension SeenDevices.Device {
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
        default: break
        }
    }

    /// When the oldest of its lists was read that has changed since; nil when none has.
    func behindSince(_ stamp: (String) -> Int64) -> Int64? {
        pulls.filter { stamp($0.key) > $0.value }.values.min()
    }
}

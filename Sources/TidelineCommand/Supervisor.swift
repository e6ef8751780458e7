// Supervisor: notifies the supervisor.
//
// If NOTIFY_SOCKET is not set, nothing is sent.

import Foundation

/// The supervisor of a server, which receives notifications of its state (sd_notify(3)).
struct Supervisor: Sendable {
    private let address: String?
    /// The interval in which the supervisor expects a watchdog notification; nil if it expects none.
    let watchdog: Duration?

    init(environment: [String: String]) {
        let address = environment["NOTIFY_SOCKET"] ?? ""
        self.address = address.hasPrefix("/") || address.hasPrefix("@") ? address : nil
        // Without a process ID the variable is meant for any process that has it.
        let process = environment["WATCHDOG_PID"].flatMap { Int32($0) }
        let isAddressed = process == nil || process == getpid()
        let microseconds = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        watchdog = isAddressed && microseconds > 0 ? .microseconds(microseconds) : nil
    }

    func ready(at url: String) { notify("READY=1\nSTATUS=listening on \(url)") }

    func stopping() { notify("STOPPING=1") }

    /// Sends a watchdog notification each time `pulse` returns, until the task is cancelled.
    func keepNotifying(_ pulse: () async -> Void) async {
        guard let watchdog else { return }
        while !Task.isCancelled {
            await pulse()
            notify("WATCHDOG=1")
            try? await Task.sleep(for: watchdog / 3)
        }
    }

    /// Reports that the configuration is being reloaded; `ready` reports the end.
    func reloading() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let microseconds = Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
        notify("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    private func notify(_ state: String) {
        guard let address else { return }
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
        let socket = Foundation.socket(AF_UNIX, type, 0)
        guard socket >= 0 else { return }
        defer { close(socket) }
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        // A name that begins with '@' is an abstract socket, for which the system expects a NUL.
        var path = Array(address.utf8)
        if path.first == UInt8(ascii: "@") { path[0] = 0 }
        let fits = withUnsafeMutableBytes(of: &name.sun_path) { room in
            guard path.count < room.count else { return false }
            room.copyBytes(from: path)
            return true
        }
        guard fits else { return }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
        let bytes = Array(state.utf8)
        _ = withUnsafeBytes(of: &name) { name in
            name.withMemoryRebound(to: sockaddr.self) {
                sendto(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL), $0.baseAddress, length)
            }
        }
    }
}

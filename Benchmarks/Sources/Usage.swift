// Usage: what this process took of the machine: time, processor time and memory.

import Foundation

/// Time and processor time from its making on.
struct Usage {
    private let start = ContinuousClock.now
    private let startProcessor = Usage.processorSeconds()

    var seconds: Double { (ContinuousClock.now - start).seconds }

    /// Of all threads, in and outside the system.
    var processorSeconds: Double { Self.processorSeconds() - startProcessor }

    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// The proportional memory of this process, looked at now and then while something runs.
enum Memory {
    /// The most that was seen while `body` ran, in MB; 0 where the system does not tell.
    static func most(during body: () async throws -> Void) async throws -> Double {
        let watcher = Task.detached {
            var most = 0.0
            while !Task.isCancelled {
                most = max(most, megabytes())
                try? await Task.sleep(for: .milliseconds(25))
            }
            return max(most, megabytes())
        }
        do {
            try await body()
        } catch {
            watcher.cancel()
            throw error
        }
        watcher.cancel()
        return await watcher.value
    }

    /// What the system counts now (PSS).
    static func megabytes() -> Double {
        guard
            let text = try? String(contentsOfFile: "/proc/self/smaps_rollup", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("Pss:") }),
            let number = line.split(whereSeparator: \.isWhitespace).dropFirst().first
        else { return 0 }
        return (Double(number) ?? 0) / 1024
    }
}

// Usage: measurements of time, processor time and memory of this process.

import Foundation

/// A measurement of time and processor time since its creation.
struct Usage {
    private let start = ContinuousClock.now
    private let startProcessor = Usage.processorSeconds()

    var seconds: Double { (ContinuousClock.now - start).seconds }

    /// The processor time of all threads, in user and system mode.
    var processorSeconds: Double { Self.processorSeconds() - startProcessor }

    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// The proportional memory of this process, sampled during a measurement.
enum Memory {
    /// Returns the peak in MB while `body` ran, or 0 if the system does not report it.
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

    /// Returns the current proportional set size (PSS) in MB.
    static func megabytes() -> Double {
        guard
            let text = try? String(contentsOfFile: "/proc/self/smaps_rollup", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("Pss:") }),
            let number = line.split(whereSeparator: \.isWhitespace).dropFirst().first
        else { return 0 }
        return (Double(number) ?? 0) / 1024
    }
}

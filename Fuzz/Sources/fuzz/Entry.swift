// The two functions that libFuzzer calls. TIDELINE_FUZZ names the target.

import Foundation
import FuzzTargets

// libFuzzer has one thread, and calls the first function once, before the second.
private nonisolated(unsafe) var runner: FuzzRunner?

/// Prepares the target that the environment names.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(
    _ count: UnsafeMutablePointer<CInt>?,
    _ arguments: UnsafeMutableRawPointer?
) -> CInt {
    let name = ProcessInfo.processInfo.environment["TIDELINE_FUZZ"] ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
        let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
        fatalError("TIDELINE_FUZZ must be one of \(names).")
    }
    do { runner = try FuzzRunner(target) } catch { fatalError("\(error)") }
    return 0
}

/// Runs one input; what is not fine ends the process.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    do {
        try runner?.run(UnsafeBufferPointer(start: start, count: count))
    } catch {
        fatalError("\(error)")
    }
    return 0
}

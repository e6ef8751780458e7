// Stacks: the places in the sources that allocate most.

import CAllocations
import Foundation

struct Stacks {
    /// The number of operations that were recorded.
    let operations: Int

    /// How many places with the most allocations are printed, and how many with the most bytes.
    private static let placesMax = (count: 25, bytes: 10)
    /// The number of calls in the sources that identify a place.
    private static let callsMax = 4

    private struct Place: Hashable {
        /// The function that the first of the calls allocates with, such as `swift_allocObject`.
        var allocator: String
        var calls: [Symbols.Call]
    }

    func printLargest() throws {
        let stacks = (0..<tideline_end_recording()).compactMap { index in
            tideline_recorded_stack(index)?.pointee
        }
        let symbols = try Symbols(of: stacks.flatMap(Self.frames))
        var places: [Place: (count: Int, bytes: Int)] = [:]
        for stack in stacks {
            let place = Self.place(Self.frames(stack), symbols)
            let sum = places[place] ?? (0, 0)
            places[place] = (sum.count + 1, sum.bytes + stack.bytes)
        }
        let byCount = places.sorted { one, other in
            (one.value.count, one.value.bytes) > (other.value.count, other.value.bytes)
        }
        let byBytes = places.sorted { $0.value.bytes > $1.value.bytes }.map(\.key)
        let withMostBytes = Set(byBytes.prefix(Self.placesMax.bytes))
        let printed = byCount.enumerated().filter { index, place in
            index < Self.placesMax.count || withMostBytes.contains(place.key)
        }
        var text = "\(stacks.count) allocations of \(operations) operations; for each operation:\n"
        for (_, (place, sum)) in printed {
            let count = Cost.text(Double(sum.count) / Double(operations), digits: 2)
            let bytes = Cost.text(Double(sum.bytes) / Double(operations), digits: 0)
            text += "\n\(count) allocations, \(bytes) bytes: \(place.allocator)\n"
            for call in place.calls { text += "    \(call.function) \(call.line)\n" }
        }
        print(try Symbols.output(of: "swift-demangle --simplified", input: text))
    }

    private static func place(_ frames: [UInt], _ symbols: Symbols) -> Place {
        let calls = frames.flatMap(symbols.calls)
        let first = calls.firstIndex(where: \.isInSources) ?? calls.endIndex
        return Place(
            allocator: calls[..<first].last?.function ?? "?",
            calls: Array(calls[first...].filter(\.isInSources).prefix(callsMax))
        )
    }

    /// The addresses of the calls, from the allocating function outwards.
    private static func frames(_ stack: tideline_stack) -> [UInt] {
        withUnsafeBytes(of: stack.frames) { frames in
            frames.bindMemory(to: UInt.self).prefix(Int(stack.depth)).map { $0 &- 1 }
        }
    }
}

/// The functions and lines of addresses in this program, and the functions of those in libraries.
private struct Symbols {
    struct Call: Hashable {
        var function: String
        /// The file and the line; empty in a library.
        var line = ""
        /// Whether the file is in `Sources`; functions of Swift's libraries are inlined, too.
        var isInSources = false
    }

    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private var known: [UInt: [Call]] = [:]

    /// Returns the function at an address, after the functions that are inlined into it.
    func calls(_ address: UInt) -> [Call] { known[address] ?? [] }

    init(of addresses: [UInt]) throws {
        var own: [(address: UInt, offset: UInt)] = []
        for address in Set(addresses) {
            let symbol = tideline_symbol(address)
            guard let file = symbol.file.map({ String(cString: $0) }) else { continue }
            if file.contains(".so") {
                let function = symbol.function.map { String(cString: $0) }
                known[address] = [Call(function: function ?? file)]
            } else {
                own.append((address, symbol.offset))
            }
        }
        let input = own.map { "0x" + String($0.offset, radix: 16) }.joined(separator: "\n")
        let program = CommandLine.arguments[0]
        let output = try Self.output(of: "llvm-symbolizer --obj='\(program)'", input: input + "\n")
        for (call, text) in zip(own, output.components(separatedBy: "\n\n")) {
            known[call.address] = Self.calls(in: text)
        }
    }

    /// Reads pairs of lines: a function, and its file with line and column.
    private static func calls(in text: String) -> [Call] {
        let lines = text.split(separator: "\n")
        return stride(from: 0, to: lines.count - 1, by: 2).map { index in
            let line = lines[index + 1].split(separator: ":").dropLast().joined(separator: ":")
            let isInSources = line.hasPrefix(root.path + "/Sources/")
            return Call(
                function: String(lines[index]),
                line: isInSources ? String(line.dropFirst(root.path.count + 1)) : line,
                isInSources: isInSources
            )
        }
    }

    /// Returns what a shell command prints for its input.
    static func output(of command: String, input: String) throws -> String {
        let file = FileManager.default.temporaryDirectory
            .appending(path: "tideline-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        try input.write(to: file, atomically: true, encoding: .utf8)
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", command]
        process.standardInput = try FileHandle(forReadingFrom: file)
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw WrongResult("Cannot run '\(command)', which comes with Swift's toolchain.")
        }
        return String(decoding: output, as: UTF8.self)
    }
}

// FaultyConnection: one connection of FaultyServer. The first part of the path chooses:
//
//     /ok                            200 with 200 bytes
//     /echo                          the request's body, with its properties as header fields
//     /raw/<base64>                  these bytes as the response; /rawclose closes after them
//     /big/<count>                   so many bytes
//     /idle/<fin|rst>[/<id>]         200, then the connection is cut, and recorded under the id
//     /fault/<fault>/<fin|rst>/<once|always>/<id>
//     /last                          stops listening, then cuts

import Foundation

final class FaultyConnection {
    private struct Request {
        var method: Substring
        var path: [Substring]
        var fields: [String: String]

        var length: Int { fields["content-length"].flatMap { Int($0) } ?? 0 }
    }

    private let socket: Int32
    private let number: Int
    private let server: FaultyServer
    private var buffer: [UInt8] = []
    private var isOpen = true

    init(_ socket: Int32, _ number: Int, _ server: FaultyServer) {
        self.socket = socket
        self.number = number
        self.server = server
        var yes: Int32 = 1
        setsockopt(
            socket,
            Int32(IPPROTO_TCP),
            TCP_NODELAY,
            &yes,
            socklen_t(MemoryLayout<Int32>.size)
        )
    }

    func serve() {
        while isOpen, let request = readHead() { answer(request) }
        if isOpen { close(socket) }
    }

    private func answer(_ request: Request) {
        switch request.path.first {
        case "ok":
            _ = readBody(request.length)
            write(Self.fine)
        case "echo":
            echo(request)
        case "raw":
            _ = readBody(request.length)
            write(rawBytes(request))
        case "rawclose":
            _ = readBody(request.length)
            write(rawBytes(request))
            end("fin")
        case "big":
            let count = Int(request.path[1]) ?? 0
            write("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n")
            write([UInt8](repeating: 0x79, count: count))
        case "idle":
            _ = readBody(request.length)
            write(Self.fine)
            end(request.path[1])
            if request.path.count > 2 {
                let cut = FaultyServer.Attempt(connection: number, bodyBytes: 0, announcedBytes: 0)
                _ = server.begin(String(request.path[2]), cut)
            }
        case "last":
            _ = readBody(request.length)
            server.stopListening()
            end("fin")
        case "fault":
            fail(request)
        default:
            write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        }
    }

    private func fail(_ request: Request) {
        let id = String(request.path[4])
        let attempt = FaultyServer.Attempt(
            connection: number,
            bodyBytes: 0,
            announcedBytes: request.length
        )
        let index = server.begin(id, attempt)
        let how = request.path[2]
        let isFaulty = index == 0 || request.path[3] == "always"
        let fault = isFaulty ? Fault(rawValue: String(request.path[1])) : nil

        if fault == .afterHeaders { return end(how) }
        let wanted = fault == .withinBody ? max(1, request.length / 2) : request.length
        if fault != .early, fault != .neverReads {
            server.note(id, index, bodyBytes: readBody(wanted).count)
        }
        switch fault {
        case .withinBody, .afterBody, .afterHeaders:
            end(how)
        case .partialStatus:
            cut("HTTP/1.1 20", how)
        case .halfField:
            cut("HTTP/1.1 200 OK\r\nContent-Le", how)
        case .noEndOfHead:
            cut("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", how)
        case .halfBody:
            cut("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + Self.text(10_000), how)
        case .halfChunk:
            cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + Self.text(50), how)
        case .noLastChunk:
            cut(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n"
                    + Self.text(100) + "\r\n",
                how
            )
        case .early:
            write("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
            end(how)
        case .never, .neverReads:
            // A server that is silent for longer than any call in these tests.
            sleep(20)
        case .drips:
            write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while isOpen {
                write("z")
                usleep(20_000)
            }
        case nil:
            write(Self.fine)
        }
    }

    private func echo(_ request: Request) {
        let body = readBody(request.length)
        var head = "HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n"
        head += "X-Method: \(request.method)\r\nX-Connection: \(number)\r\n"
        head += "X-Path: /\(request.path.joined(separator: "/"))\r\n"
        for (name, value) in request.fields { head += "X-Got-\(name): \(value)\r\n" }
        write(Array((head + "\r\n").utf8) + (request.method == "HEAD" ? [] : body))
    }
}

extension FaultyConnection {
    private static let fine = Array(
        "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n\(text(200))".utf8
    )

    private static func text(_ count: Int) -> String { String(repeating: "x", count: count) }

    private func rawBytes(_ request: Request) -> [UInt8] {
        let text = request.path.dropFirst().first ?? ""
        let base64 = text.replacingOccurrences(of: "%2F", with: "/")
        return [UInt8](Data(base64Encoded: base64) ?? Data())
    }

    private func cut(_ text: String, _ how: Substring) {
        write(text)
        usleep(3_000)
        end(how)
    }

    /// Closes the connection; with "rst" the kernel sends a reset.
    private func end(_ how: Substring) {
        if how == "rst" {
            var value = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                socket,
                SOL_SOCKET,
                SO_LINGER,
                &value,
                socklen_t(MemoryLayout<linger>.size)
            )
        }
        close(socket)
        isOpen = false
    }

    private func write(_ text: String) {
        write(Array(text.utf8))
    }

    private func write(_ bytes: [UInt8]) {
        var sent = 0
        while isOpen, sent < bytes.count {
            let count = bytes.withUnsafeBytes { raw in
                send(
                    socket,
                    raw.baseAddress.map { $0 + sent },
                    raw.count - sent,
                    Int32(MSG_NOSIGNAL)
                )
            }
            guard count > 0 else {
                close(socket)
                isOpen = false
                return
            }
            sent += count
        }
    }

    private func readHead() -> Request? {
        while true {
            if let end = endOfHead() {
                let head = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeFirst(end)
                return parse(head)
            }
            if buffer.first == 0x16 {
                write("This is no TLS server.\r\n")
                return nil
            }
            guard receive() else { return nil }
        }
    }

    private func endOfHead() -> Int? {
        buffer.withUnsafeBytes { raw in
            var start = 0
            while let base = raw.baseAddress,
                let found = memchr(base + start, 0x0A, raw.count - start)
            {
                start = UnsafeRawPointer(found) - base + 1
                guard start + 1 < raw.count else { return nil }
                if raw[start] == 0x0D, raw[start + 1] == 0x0A { return start + 2 }
            }
            return nil
        }
    }

    private func parse(_ head: String) -> Request? {
        let lines = head.utf8.split(separator: 0x0A).map { String(Substring($0)) }
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return nil }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.utf8.firstIndex(of: 0x3A) else { continue }
            let value = line[line.index(after: colon)...]
            fields[line[..<colon].lowercased()] = value.trimmingCharacters(
                in: .whitespacesAndNewlines
            )
        }
        return Request(
            method: words[0],
            path: words[1].split(separator: "/"),
            fields: fields
        )
    }

    /// Reads up to `count` bytes of the body; fewer if the client disconnects.
    private func readBody(_ count: Int) -> [UInt8] {
        while buffer.count < count, receive() {}
        let taken = Array(buffer.prefix(count))
        buffer.removeFirst(taken.count)
        return taken
    }

    private func receive() -> Bool {
        let count = withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { room in
            let count = recv(socket, room.baseAddress, room.count, 0)
            if count > 0 {
                buffer.append(contentsOf: UnsafeRawBufferPointer(rebasing: room[..<count]))
            }
            return count
        }
        return count > 0
    }
}

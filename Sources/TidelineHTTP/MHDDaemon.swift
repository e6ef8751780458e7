// MHDDaemon: starts libmicrohttpd for a worker and turns its callbacks into calls of the worker.
//
// The daemon has no thread of its own (external epoll): it does something only inside `MHD_run`,
// so every callback runs on the worker's thread.

import CMicroHTTPD
import Glibc

enum MHDDaemon {
    /// Starts a daemon, which owns the listening socket from then on.
    ///
    /// The worker has to outlive the daemon.
    static func start(
        for worker: HTTPWorker,
        listening socket: Int32,
        connectionsMax: Int
    ) -> OpaquePointer? {
        let context = Unmanaged.passUnretained(worker).toOpaque()
        var options: [MHD_OptionItem] = []
        func option(_ option: MHD_OPTION, _ value: Int, _ pointer: UnsafeMutableRawPointer? = nil) {
            options.append(MHD_OptionItem(option: option, value: value, ptr_value: pointer))
        }
        let limits = worker.limits
        option(.EXTERNAL_LOGGER, unsafeBitCast(onLog, to: Int.self), context)
        option(.URI_LOG_CALLBACK, unsafeBitCast(onRequestLine, to: Int.self), context)
        option(.UNESCAPE_CALLBACK, unsafeBitCast(leaveEscaped, to: Int.self), nil)
        option(.NOTIFY_CONNECTION, unsafeBitCast(onConnection, to: Int.self), context)
        option(.NOTIFY_COMPLETED, unsafeBitCast(onCompleted, to: Int.self), context)
        option(.LISTEN_SOCKET, Int(socket))
        option(.CONNECTION_LIMIT, connectionsMax)
        option(.CONNECTION_MEMORY_LIMIT, limits.headerBytesMax)
        // Whole seconds, rounded up; it matters only for peers that do not read their answer.
        option(.CONNECTION_TIMEOUT, Int(limits.idleTimeMax.components.seconds) + 1)
        // The worker's thread blocks SIGPIPE.
        option(.SIGPIPE_HANDLED_BY_APP, 1)
        option(.END, 0)
        let flags =
            MHD_USE_EPOLL.rawValue | MHD_USE_TURBO.rawValue | MHD_ALLOW_SUSPEND_RESUME.rawValue
            | MHD_USE_ERROR_LOG.rawValue
        return options.withUnsafeMutableBufferPointer { options in
            guard let items = options.baseAddress else { return nil }
            let array: [any CVarArg] = [
                CInt(MHD_OPTION.ARRAY.rawValue), OpaquePointer(items),
                CInt(MHD_OPTION.END.rawValue),
            ]
            return withVaList(array) {
                MHD_start_daemon_va(flags, 0, nil, nil, onAccess, context, $0)
            }
        }
    }
}

/// The URI callback has no name in the library's header.
private typealias RequestLineCallback =
    @convention(c) (
        UnsafeMutableRawPointer?, UnsafePointer<CChar>?, OpaquePointer?
    ) -> UnsafeMutableRawPointer?

private typealias UnescapeCallback =
    @convention(c) (
        UnsafeMutableRawPointer?, OpaquePointer?, UnsafeMutablePointer<CChar>?
    ) -> Int

private func worker(_ context: UnsafeMutableRawPointer?) -> HTTPWorker? {
    context.map { Unmanaged<HTTPWorker>.fromOpaque($0).takeUnretainedValue() }
}

private func connection(_ context: UnsafeMutableRawPointer?) -> HTTPConnection? {
    context.map { Unmanaged<HTTPConnection>.fromOpaque($0).takeUnretainedValue() }
}

/// Connections come and go; the worker keeps the object alive in between.
private let onConnection: MHD_NotifyConnectionCallback = { context, handle, stored, event in
    guard let worker = worker(context), let handle, let stored else { return }
    if event == .CONNECTION_NOTIFY_STARTED {
        let connection = worker.connectionStarted(handle)
        stored.pointee = Unmanaged.passUnretained(connection).toOpaque()
    } else if let connection = connection(stored.pointee) {
        stored.pointee = nil
        worker.connectionEnded(connection)
    }
}

/// The one place where the target is seen as it was sent; what is returned becomes the context of
/// the request.
private let onRequestLine: RequestLineCallback = { context, target, handle in
    guard let worker = worker(context), let handle, let target else { return nil }
    let stored = tideline_mhd_context(handle)
    if let connection = connection(stored) { worker.requestLine(connection, target) }
    return stored
}

/// The target is taken as sent, so decoding it would be work for nothing.
private let leaveEscaped: UnescapeCallback = { _, _, text in
    text.map { UnsafePointer($0) }.map(length) ?? 0
}

private func length(_ text: UnsafePointer<CChar>) -> Int {
    var end = text
    while end.pointee != 0 { end += 1 }
    return end - text
}

private let onAccess: MHD_AccessHandlerCallback = {
    context,
    _,
    _,
    method,
    version,
    data,
    count,
    stored in
    guard let worker = worker(context), let connection = connection(stored?.pointee),
        let method, let version, let count
    else { return .NO }
    switch connection.phase {
    case .head:
        return worker.head(connection, method: method, version: version)
    case .body where count.pointee > 0:
        defer { count.pointee = 0 }
        return worker.body(connection, UnsafeRawBufferPointer(start: data, count: count.pointee))
    case .body:
        return worker.complete(connection)
    case .handling:
        return worker.answer(connection)
    case .idle, .answering:
        return .NO
    }
}

/// Nothing is logged, as the library has a line for every peer that leaves.
///
/// But it also says that it is about to refuse a Content-Length, or more cookies than it has
/// memory for.
private let onLog: MHD_LogCallback = { context, format, _ in
    guard let worker = worker(context), let format else { return }
    if strstr(format, "Too large value of 'Content-Length'") != nil {
        worker.libraryRefuses(HTTPProblem.contentTooLarge(bytesMax: worker.limits.bodyBytesMax))
    } else if strstr(format, "Content-Length") != nil {
        worker.libraryRefuses(HTTPProblem.badLength)
    } else if strstr(format, "Not enough memory in pool") != nil {
        worker.libraryRefuses(HTTPProblem.headTooLarge)
    }
}

private let onCompleted: MHD_RequestCompletedCallback = { context, _, stored, _ in
    guard let worker = worker(context), let connection = connection(stored?.pointee) else { return }
    worker.requestEnded(connection)
}

// CurlTransfer: receives the response to one call.

#if canImport(CCurl)
import CCurl
import TidelineCore

/// A transfer of one call on one easy handle, confined to the loop's thread.
final class CurlTransfer {
    let call: CurlCall
    /// The header lines, which libcurl reads while it sends.
    ///
    /// They are freed with the transfer, after the handle is reset.
    var headers: UnsafeMutablePointer<curl_slist>?
    /// libcurl's own message for an error.
    let errorText: UnsafeMutablePointer<CChar>

    private let bytesMax: Int
    private var head = ResponseHead()
    private var body: [UInt8] = []
    private var isTooLarge = false
    /// Whether the caller of a streamed call has received the head.
    private var isHeadDelivered = false

    init(_ call: CurlCall, bytesMax: Int) {
        self.call = call
        self.bytesMax = bytesMax
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit {
        curl_slist_free_all(headers)
        errorText.deallocate()
    }

    /// Finishes the call with the response that has been received.
    func complete(_ code: CURLcode) {
        if let sink = call.sink, isHeadDelivered {
            sink.finish(code == CURLE_OK ? nil : error(code))
            return
        }
        guard code == CURLE_OK else {
            call.finish(.failure(error(code)))
            return
        }
        guard head.isComplete, !head.isMalformed else {
            let url = call.request.url
            let error =
                head.isMalformed && head.isComplete
                ? TransportError.invalidResponse(url) : .incompleteResponse(url)
            call.finish(.failure(error))
            return
        }
        call.finish(
            .success(TransportResponse(status: head.status, headers: head.fields, body: body))
        )
    }

    private func error(_ code: CURLcode) -> TransportError {
        guard !isTooLarge else {
            return .responseTooLarge(call.request.url, limit: bytesMax)
        }
        let failure = CurlFailure(code, detail: String(cString: errorText))
        return failure.error(for: call, head: head)
    }

    private func receiveHeader(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        isTooLarge = !head.append(line)
        if head.isComplete, let length = head.contentLength, length > bytesMax,
            call.request.method != "HEAD"
        {
            isTooLarge = true
        }
        if !isTooLarge, call.sink != nil, head.isComplete { deliverHead() }
        return !isTooLarge
    }

    /// Passes the head to the caller, who then receives the body in parts.
    private func deliverHead() {
        guard !isHeadDelivered, !head.isMalformed else { return }
        isHeadDelivered = true
        call.finish(.success(TransportResponse(status: head.status, headers: head.fields)))
    }

    /// Ends the stream of a call for which no task is waiting.
    func abandon() { call.sink?.finish(CancellationError()) }

    private func receiveBody(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        if let sink = call.sink { return sink.receive(bytes) }
        if body.isEmpty { body.reserveCapacity(min(head.contentLength ?? 0, bytesMax)) }
        guard body.count + bytes.count <= bytesMax else {
            isTooLarge = true
            return false
        }
        body.append(contentsOf: bytes)
        return true
    }
}

extension CurlTransfer {
    /// libcurl calls this function on a connection just before it sends or resends the request.
    static let onStart: tideline_curl_starter = { context, _, _, _, _ in
        let isWanted = transfer(context)?.call.begin() ?? false
        return isWanted ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
    }

    static let onHeader: tideline_curl_receiver = { bytes, size, count, context in
        receive(bytes, size * count, context) { $0.receiveHeader($1) }
    }

    static let onBody: tideline_curl_receiver = { bytes, size, count, context in
        receive(bytes, size * count, context) { $0.receiveBody($1) }
    }

    /// Receives bytes; libcurl ends the transfer if the result is not the number of bytes.
    private static func receive(
        _ bytes: UnsafeMutablePointer<CChar>?,
        _ count: Int,
        _ context: UnsafeMutableRawPointer?,
        _ body: (CurlTransfer, UnsafeBufferPointer<UInt8>) -> Bool
    ) -> Int {
        guard count > 0 else { return 0 }
        guard let transfer = transfer(context) else { return 0 }
        let raw = UnsafeRawBufferPointer(start: bytes, count: count)
        return body(transfer, raw.assumingMemoryBound(to: UInt8.self)) ? count : 0
    }

    /// Returns the transfer at an address that libcurl stores; the loop keeps the transfer alive
    /// during that time.
    private static func transfer(_ context: UnsafeMutableRawPointer?) -> CurlTransfer? {
        context.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }
}
#endif

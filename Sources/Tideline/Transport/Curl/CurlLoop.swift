// CurlLoop: runs transfers with libcurl.
//
// The loop is confined to the thread that creates it: neither the loop nor its transfers are
// Sendable. Easy handles are reused, and connections belong to the multi handle. At most `callsMax`
// transfers run at a time, and all other calls wait here. libcurl therefore never queues a call,
// and its timeouts are exact.

#if canImport(CCurl)
import CCurl
import Foundation
import TidelineCore

/// A loop that runs all transfers of a transport on one thread.
final class CurlLoop {
    /// The maximum time for which the thread waits without events; libcurl wakes it earlier for its
    /// own timers.
    private static let pollMilliseconds: Int32 = 60_000

    private let multi: UnsafeMutableRawPointer
    private let inbox: CurlInbox
    private let limits: TransportLimits
    /// The path of a PEM file with additional authorities.
    private let certificateAuthorities: String?
    private var waiting: [CurlCall] = []
    private var live: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    private var idle: [UnsafeMutableRawPointer] = []

    /// Creates a loop; nil if libcurl cannot start because memory is exhausted, in which case all
    /// calls time out.
    init?(
        _ multi: CurlMulti,
        inbox: CurlInbox,
        _ limits: TransportLimits,
        _ certificateAuthorities: String?
    ) {
        guard let handle = multi.handle else { return nil }
        self.multi = handle
        self.inbox = inbox
        self.limits = limits
        self.certificateAuthorities = certificateAuthorities
        tideline_curl_keep_connections(handle, max(1, limits.callsMax))
    }

    func run() {
        blockBrokenPipeSignal()
        while let batch = inbox.take() {
            waiting += batch.submitted
            drop(batch.abandoned)
            admit()
            var running: Int32 = 0
            var code = curl_multi_perform(multi, &running)
            if collect() > 0 { continue }
            if code == CURLM_OK {
                code = curl_multi_poll(multi, nil, 0, Self.pollMilliseconds, nil)
            }
            if code != CURLM_OK { recover(from: code) }
        }
        close()
    }

    private func admit() {
        var taken = 0
        while taken < waiting.count, live.count < max(1, limits.callsMax) {
            let call = waiting[taken]
            taken += 1
            if !call.isFinished { start(call) }
        }
        waiting.removeFirst(taken)
    }

    private func start(_ call: CurlCall) {
        guard let easy = idle.popLast() ?? curl_easy_init() else {
            call.finish(.failure(CurlFailure(CURLE_OUT_OF_MEMORY).error(for: call, head: nil)))
            return
        }
        let transfer = CurlTransfer(call, bytesMax: limits.responseBytesMax)
        var code = CurlOptions.set(on: easy, for: transfer, limits, certificateAuthorities)
        if code == CURLE_OK, curl_multi_add_handle(multi, easy) != CURLM_OK {
            code = CURLE_FAILED_INIT
        }
        live[easy] = transfer
        if code != CURLE_OK { release(easy)?.complete(code) }
    }

    /// Completes every transfer that is done and returns the number of these transfers.
    private func collect() -> Int {
        var count = 0
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle
            else { continue }
            let code = tideline_curl_result(message)
            count += 1
            release(easy)?.complete(code)
        }
        return count
    }

    private func drop(_ calls: [CurlCall]) {
        for call in calls {
            guard let easy = live.first(where: { $0.value.call === call })?.key else { continue }
            release(easy)?.abandon()
        }
        if !calls.isEmpty { waiting.removeAll(where: \.isFinished) }
    }

    private func release(_ easy: UnsafeMutableRawPointer) -> CurlTransfer? {
        curl_multi_remove_handle(multi, easy)
        curl_easy_reset(easy)
        idle.append(easy)
        return live.removeValue(forKey: easy)
    }

    /// Handles an error of libcurl that ends all calls: memory is exhausted, or polling failed.
    private func recover(from code: CURLMcode) {
        for easy in Array(live.keys) { release(easy)?.complete(CURLE_FAILED_INIT) }
        usleep(10_000)
    }

    private func close() {
        for easy in Array(live.keys) { release(easy)?.complete(CURLE_ABORTED_BY_CALLBACK) }
        for easy in idle { curl_easy_cleanup(easy) }
        curl_multi_cleanup(multi)
    }

    /// Blocks SIGPIPE, because OpenSSL writes without MSG_NOSIGNAL, and writing to a closed
    /// connection would end the process.
    private func blockBrokenPipeSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
#endif

// ServerRecorder: records the requests to a simulation's server and the server's responses.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// A recorder of the states that each row had on the server, and of the effects of each request.
final class ServerRecorder: Sendable {
    private struct State {
        /// The rows on the server, by id.
        var items: [String: RecordedCall.Item] = [:]
        /// The last version of each deleted row, by id.
        var gone: [String: [UInt8]] = [:]
        /// A description of an old value that a device wrote back although the device had only read
        /// it.
        var writtenBack: String?
        /// The rows that an app uses to replace the server's whole row, by device name and id.
        var insisted: [String: [String: Decision]] = [:]
        /// Older texts that count as edits, by device name and id.
        var keptTexts: [String: [String: Set<String>]] = [:]
        /// Texts that a row had on the server, by id.
        var texts: [String: Set<String>] = [:]
        var ranks: [String: Set<Int>] = [:]
        /// The texts of each state of a row, by id; an inserted state is named after the device
        /// that inserted it.
        var stateTexts: [String: [String: Set<String>]] = [:]
        /// Rows that a DELETE removed or that were already gone.
        var deleted: Set<String> = []
        var pendingDeletes = PendingDeletes()
        /// The states that resulted from each request; a repeat that gets the replayed answer adds
        /// no state.
        var effects: [String: Set<String>] = [:]
        var requests = 0
        /// The number of groups that were applied atomically, and the first group that was not.
        var groups = 0
        var torn: String?
        /// The rows in the backup, and the number of restores.
        var backup: (items: [String: RecordedCall.Item], gone: [String: [UInt8]]) = ([:], [:])
        var restores = 0
        /// The rows that were changed after the most recent restore.
        var changedSince: Set<String> = []
        /// The ids of the rows that each device changed after the most recent restore, by device
        /// name.
        var changedBy: [String: Set<String>] = [:]
        var removals = PageRemovals()
        var unneeded = UnneededDeletes()
        /// The requests that were received, for recognizing repeats.
        var seen: Set<String> = []
        var history: UInt64 = 14_695_981_039_346_656_037
    }

    /// A row that an app uses to replace the server's row.
    private struct Decision {
        var text: String?
        var rank: Int?
    }

    /// The state of the server and the devices at the time of a restore.
    struct Restore: Sendable {
        /// The last version of each row in the backup.
        var versions: [String: [UInt8]]
        /// The rows in the backup.
        var items: [WorldItem] = []
        /// The rows that pages removed from each device; such a page may still be in flight.
        var removals: PageRemovals
    }

    let transactions = WorldTransactions()
    private let server: WorldServer
    private let state = Mutex(State())

    init(_ server: WorldServer) { self.server = server }

    /// The device that sent a request.
    struct Author: Sendable {
        /// The name: `d` followed by the index.
        var name: String
        var index: Int
        /// Whether conflicts are resolved without writing old values back.
        var yields: Bool
        /// Whether the user never replaces one of their own texts with an older one.
        var ordersOwnTexts = false
        /// The index of the device, and the index of the device whose file it started with.
        var lineage: [Int] = []

        func wrote(_ text: String) -> Bool { number(of: text) != nil }
        func wrote(_ rank: Int) -> Bool { lineage.contains(rank % WorldDevice.rankStep) }

        /// Returns the number of one of the user's texts.
        func number(of text: String) -> Int? {
            for index in lineage {
                let prefix = "d\(index)-"
                if text.hasPrefix(prefix) { return Int(text.dropFirst(prefix.count)) }
            }
            return nil
        }

        /// Returns whether two texts are from the same user and the first text is older.
        func isOlder(_ text: String, than other: String) -> Bool {
            guard ordersOwnTexts,
                text.prefix(while: { $0 != "-" }) == other.prefix(while: { $0 != "-" }),
                let first = number(of: text), let second = number(of: other)
            else { return false }
            return first < second
        }
    }

    /// The transport from one device to the server.
    struct Port: Transport {
        let recorder: ServerRecorder
        let author: Author

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            try await recorder.send(request, from: author)
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await recorder.server.transport.stream(request)
        }
    }

    private func send(
        _ request: TransportRequest,
        from author: Author
    ) async throws -> TransportResponse {
        let response = try await server.transport.send(request)
        let calls = RecordedCall.calls(request, response)
        state.withLock { state in
            state.requests += 1
            count(calls, &state)
            recordRejections(calls)
            for call in calls {
                let tookEffect = watch(call, author, &state)
                if tookEffect {
                    state.changedSince.insert(call.item?.id ?? call.itemID)
                    if let item = call.item { state.removals.accepted(item.id, from: author.name) }
                }
                if call.method == "DELETE" {
                    state.pendingDeletes.answered(
                        call.itemID,
                        status: call.status,
                        code: call.code,
                        tookEffect: tookEffect
                    )
                }
                record(call, author, &state)
            }
            if server.database != nil, request.method == "GET" {
                let (removed, present) = RecordedCall.pageIDs(response.body)
                state.removals.sent(removed: removed, present: present, to: author.name)
            }
        }
        return response
    }

    /// Counts the atomic groups of a batch, and records a group that was applied only partially.
    private func count(_ calls: [RecordedCall], _ state: inout State) {
        for (group, members) in Dictionary(grouping: calls, by: \.group) where group != nil {
            let done = members.count(where: \.isChange)
            if done == members.count { state.groups += 1 }
            if done > 0, done < members.count { state.torn = members[0].target }
        }
    }

    /// Records inserts that a server fault rejected, individually or together with their atomic
    /// group.
    private func recordRejections(_ calls: [RecordedCall]) {
        let groups = Set(calls.filter(\.isRejectedByFault).compactMap(\.group))
        for call in calls where call.method == "POST" {
            let isInGroup = call.group.map(groups.contains) ?? false
            guard call.isRejectedByFault || isInGroup, let item = call.sentItem else { continue }
            if let text = item.text { transactions.rejected(text, of: item.id) }
        }
    }

    /// Checks whether a device overwrites values of other devices with older values that it had
    /// only read.
    ///
    /// A device may replace its own values, even with values from an older copy.
    ///
    /// - Returns: Whether the call took effect, which a repeat that gets the replayed answer does
    ///   not.
    private func watch(_ call: RecordedCall, _ author: Author, _ state: inout State) -> Bool {
        guard server.isOurs, call.isChange else { return false }
        // A late repeat gets the replayed answer.
        guard call.method != "DELETE", let after = call.item else {
            let version = call.askedVersion ?? []
            let before = state.items[call.itemID]
            if let before, version.isOlder(than: before.version) { return false }
            state.items[call.itemID] = nil
            if !version.isEmpty { state.gone[call.itemID] = version }
            return before != nil
        }
        let before = state.items[after.id]
        // A replayed answer shows a state that the row has had, or still has.
        if let before, after.version.isOlder(than: before.version) { return false }
        if let before, !after.version.isEmpty, after.version == before.version { return false }
        if let gone = state.gone[after.id], !gone.isOlder(than: after.version) { return false }
        state.items[after.id] = after
        check(after, over: before, author, &state)
        return true
    }

    /// Checks the values with which a device replaced another state of a row.
    private func check(
        _ after: RecordedCall.Item,
        over before: RecordedCall.Item?,
        _ author: Author,
        _ state: inout State
    ) {
        let decision = state.insisted[author.name]?.removeValue(forKey: after.id)
        let kept = after.text.flatMap { state.keptTexts[author.name]?[after.id]?.remove($0) }
        // If a device sends or edits a row that the restored server lost, it may overwrite values
        // of other devices, but only once.
        let isFirst = state.changedBy[author.name, default: []].insert(after.id).inserted
        let maySendLost = state.restores > 0 && isFirst
        guard !maySendLost, author.yields, let before, state.writtenBack == nil else { return }
        let insistsOnText = decision.map { $0.text == after.text } ?? false
        let insistsOnRank = decision.map { $0.rank == after.rank } ?? false
        let ownsText = before.text.map(author.wrote) ?? false
        if before.text != after.text, !ownsText, !insistsOnText, kept == nil, let text = after.text
        {
            // Every edit has a new text, so a text that the row had before comes from an old
            // record.
            let wasThere = state.texts[after.id]?.contains(text) == true
            if !author.wrote(text) || wasThere {
                state.writtenBack = "\(author.name) wrote the old text \(text) of \(after.id) back"
            }
        }
        if !insistsOnText, let new = after.text, let old = before.text,
            author.isOlder(new, than: old)
        {
            state.writtenBack =
                "\(author.name) stored its older text \(new) of \(after.id) over \(old)"
        }
        // A row that is inserted in place of a deleted one has a different text and no rank.
        let mayBeNew = before.text != after.text && after.text.map(author.wrote) == true
        let ownsRank = before.rank.map(author.wrote) ?? false
        if before.rank != after.rank, !ownsRank, !insistsOnRank,
            after.rank.map(author.wrote) ?? mayBeNew == false
        {
            state.writtenBack = "\(author.name) wrote an old rank of \(after.id) back"
        }
    }

    /// Records that the device's next change to a row is the app's decision about the whole row.
    func insists(_ name: String, on row: Row) {
        var decision = Decision(text: row["text"]?.text)
        if case .integer(let rank) = row["rank"] { decision.rank = Int(rank) }
        state.withLock { $0.insisted[name, default: [:]][row.id] = decision }
    }

    /// Records that a device received a copy of another device's file, whose queue contains that
    /// app's decisions.
    func copied(from name: String, to other: String) {
        state.withLock { state in
            state.insisted[other] = state.insisted[name]
            state.keptTexts[other] = state.keptTexts[name]
        }
    }

    /// Records that an older text counts as an edit of a device's user; returns whether this is
    /// new.
    func keeps(_ text: String, of id: String, by name: String) -> Bool {
        state.withLock { $0.keptTexts[name, default: [:]][id, default: []].insert(text).inserted }
    }

    /// Records that a device did not keep an older text.
    func drops(_ text: String, of id: String, by name: String) {
        state.withLock { _ = $0.keptTexts[name]?[id]?.remove(text) }
    }

    /// Returns whether a state of a row had a different text on the server; nil stands for the
    /// state that a device inserted.
    func hadOtherText(than text: String, _ id: String, in rowState: String?, _ name: String) -> Bool
    {
        state.withLock { $0.stateTexts[id]?[rowState ?? name]?.contains { $0 != text } ?? false }
    }

    private func record(_ call: RecordedCall, _ author: Author, _ state: inout State) {
        let key =
            "\(call.method) \(call.target) \(call.ifMatch ?? "") \(String(decoding: call.body, as: UTF8.self))"
        Self.mix(&state.history, key)
        Self.mix(&state.history, "\(call.status)")
        if call.method == "DELETE", call.isChange || [404, 410].contains(call.status) {
            state.deleted.insert(call.itemID)
        }
        let isRepeat = !state.seen.insert("\(author.name) \(key)").inserted
        guard call.isChange else { return }
        let id = call.item?.id ?? call.itemID
        // A rejected insert that the network delivers twice may take effect after the delete.
        if !isRepeat { state.unneeded.changed(id, by: author.name) }
        // The original servers do not recognize repeats. There, only a precondition keeps a repeat
        // from taking effect again, and an insert that arrives after a delete has no precondition.
        if server.isOurs || call.ifMatch != nil {
            // A restored database may lack the effect of the first request.
            state.effects["\(key) \(state.restores)", default: []].insert(call.tag ?? "")
        }
        if let item = call.item, let text = item.text {
            state.texts[item.id, default: []].insert(text)
            let isInsert = call.method == "POST" || call.method == "PUT"
            for name in item.states + (isInsert ? [author.name] : []) {
                state.stateTexts[item.id, default: [:]][name, default: []].insert(text)
            }
            if server.isOurs { transactions.shown(text, of: item.id, request: state.requests) }
            if let rank = item.rank { state.ranks[item.id, default: []].insert(rank) }
        }
    }

    private static func mix(_ hash: inout UInt64, _ text: String) {
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211 }
    }

    /// Records that the database was backed up.
    func noteBackup() { state.withLock { $0.backup = ($0.items, $0.gone) } }

    /// Records that the database was restored from the backup.
    ///
    /// - Returns: The state at the time of the restore, without the rows in the backup.
    func noteRestore() -> Restore {
        state.withLock { state in
            (state.items, state.gone) = state.backup
            state.restores += 1
            (state.changedSince, state.changedBy) = ([], [:])
            state.unneeded.restored(to: Set(state.items.keys))
            let versions = state.gone.merging(state.items.mapValues(\.version)) { gone, there in
                there.isOlder(than: gone) ? gone : there
            }
            defer { state.removals = PageRemovals() }
            return Restore(versions: versions, removals: state.removals)
        }
    }

    /// Records that a device's app deletes a row.
    func deletes(_ id: String, by name: String) {
        state.withLock { state in
            let isThere =
                state.restores == 0 || state.items[id] != nil || state.changedSince.contains(id)
            state.unneeded.deletes(id, by: name, isThere: isThere)
            if state.items[id] != nil { state.pendingDeletes.deletes(id, by: name) }
        }
    }

    /// Returns whether a delete must reach the server.
    func needsDelete(_ id: String, by name: String) -> Bool {
        state.withLock { !$0.unneeded.contains(id, by: name) }
    }

    /// The rows that were changed after the database was restored.
    var changedSinceRestore: Set<String> { state.withLock { $0.changedSince } }

    /// Returns whether a row ever had this text on the server.
    func had(_ text: String, _ id: String) -> Bool {
        state.withLock { $0.texts[id]?.contains(text) == true }
    }

    /// Returns whether a row ever had this rank on the server.
    func had(_ rank: Int, _ id: String) -> Bool {
        state.withLock { $0.ranks[id]?.contains(rank) == true }
    }

    /// Returns whether a device's last delete of a row reached the server, or found the row already
    /// gone there.
    ///
    /// With an original server, returns whether any delete of the row has ever succeeded.
    func wasDeleted(_ id: String, by name: String) -> Bool {
        state.withLock { state in
            server.isOurs
                ? !state.pendingDeletes.contains(id, by: name)
                : state.deleted.contains(id)
        }
    }

    /// A request that took effect more than once; nil if there is none.
    var doubled: String? {
        state.withLock { state in
            state.effects.filter { $0.value.count > 1 }.keys.sorted().first
        }
    }

    /// A description of a write that restored an old value that the device had only read; nil if
    /// there is none.
    var writtenBack: String? { state.withLock { $0.writtenBack } }

    /// A group that the server applied only partially; nil if there is none.
    var torn: String? { state.withLock { $0.torn } }

    var report: (requests: Int, groups: Int, history: UInt64) {
        state.withLock { ($0.requests, $0.groups, $0.history) }
    }
}

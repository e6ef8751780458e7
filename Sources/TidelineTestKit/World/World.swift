// World: a simulation of several devices and one server in simulated time. The network loses,
// duplicates, and delays requests, and apps are killed. At the end, the faults stop, all devices
// sync, and the guarantees of docs/architecture.md are checked, except for guarantee 10, which has
// separate simulations. Guarantee 11 is that two runs of a seed produce the same report.

import Foundation
import Tideline
import TidelineCore
package import TidelineServerCore

/// A simulation of a server and its devices, drawn from a seed.
///
/// ```swift
/// let report = try World(WorldPlan(seed: 7)).run()
/// ```
public struct World: Sendable {
    /// Creates the store for the server's tables, given the server's clock.
    package typealias Store =
        @Sendable (_ now: @escaping @Sendable () -> Int64) throws -> any TableStore

    let plan: WorldPlan
    private let store: Store?

    static let endpoint = URL(string: "http://localhost") ?? URL(filePath: "/")

    /// Creates the simulation for a plan.
    public init(_ plan: WorldPlan) {
        self.plan = plan
        store = nil
    }

    /// Creates the simulation for a plan with Tideline's server, whose tables are in the given
    /// store.
    package init(_ plan: WorldPlan, store: @escaping Store) {
        var plan = plan
        plan.server = .tideline
        plan.restores = false
        self.plan = plan
        self.store = store
    }

    /// Runs the simulation on the calling thread.
    ///
    /// - Throws: ``WorldViolation`` with the seed if a guarantee is broken.
    public func run() throws -> WorldReport {
        try run(recordsStory: false)
    }

    /// Runs the simulation; if `recordsStory` is true, a violation contains the events of the run.
    func run(recordsStory: Bool) throws -> WorldReport {
        let time = VirtualTime()
        let story = recordsStory ? WorldStory(time) : nil
        let (plan, store) = (plan, store)
        do {
            let report = try time.run { try await World.play(plan, time, story, store) }
            if let report { return report }
            throw WorldViolation(
                seed: plan.seed,
                guarantee: "liveness",
                detail: "all tasks wait forever"
            )
        } catch var violation as WorldViolation {
            violation.plan = plan
            violation.story = story?.lines ?? []
            throw violation
        }
    }

    private static func play(
        _ plan: WorldPlan,
        _ time: VirtualTime,
        _ story: WorldStory?,
        _ store: Store?
    ) async throws -> WorldReport {
        let ids = (0..<plan.rows).map { "row-\($0)" }
        let server = try await WorldServer(
            plan.server,
            time,
            store,
            isRestorable: plan.restores
        )
        let recorder = ServerRecorder(server)
        var devices: [WorldDevice] = []
        var networks: [LossyNetwork] = []
        for index in 0..<plan.devices {
            let seed = plan.seed &* 31 &+ UInt64(index) &+ 1
            let name = "d\(index)"
            // A copied queue contains requests that the first device made according to its policy.
            let lineage = plan.sharesCopy && index == plan.devices - 1 ? [0, index] : [index]
            let author = ServerRecorder.Author(
                name: name,
                index: index,
                yields: lineage.allSatisfy { plan.policies[$0].yields },
                ordersOwnTexts: plan.copies == nil,
                lineage: lineage
            )
            let port = ServerRecorder.Port(recorder: recorder, author: author)
            let network = LossyNetwork(port, time: time, seed: seed, faults: plan.faults)
            networks.append(network)
            devices.append(
                WorldDevice(
                    name: name,
                    policy: plan.policies[index],
                    pullsPart: plan.pullsPart(ofDevice: index),
                    syncsItself: plan.syncsItself[index],
                    disk: try WorldDisk(plan.disks[index]),
                    copies: plan.copies,
                    nests: plan.nests,
                    transacts: plan.transacts,
                    rejections: plan.rejections,
                    lostRows: plan.lostRows.indices.contains(index) ? plan.lostRows[index] : .ask,
                    signIn: plan.expires ? WorldSignIn(time, seed: seed) : nil,
                    // This transport is used even without a story, so that tasks run in the same
                    // order in both cases.
                    network: StoryTransport(inner: network, device: name, story: story),
                    recorder: recorder,
                    environment: environment(time, seed),
                    time: time,
                    seed: seed,
                    story: story
                )
            )
        }
        for device in devices where !plan.startsLater(device.name) { try await device.start() }
        if plan.poisons { server.faults.poison(ids[0]) }
        let deploy = time.start { try await badDeploy(server.faults, plan, time) }
        let outages = devices.map { device in
            time.start {
                try await lock(device, plan, time)
                try await failTokens(device, plan, time)
            }
        }
        let restoring = time.start { [devices] in
            try await restore(server, recorder, devices, plan, time, story)
        }
        try await work(devices, ids, plan, time)
        try await deploy.value
        try await restoring.value
        for task in outages { try await task.value }
        // A connection that breaks on large bodies keeps this limit.
        var faults = NetworkFaults()
        faults.bytesMax = plan.faults.bytesMax
        for network in networks { network.set(faults) }
        story?.add("the simulation", "has no faults from here on")
        // Late duplicates that are still in flight arrive before the guarantees are checked.
        try await time.sleep(.seconds(60))
        let checker = InvariantChecker(
            plan: plan,
            devices: devices,
            recorder: recorder,
            server: server,
            time: time
        )
        try await checker.checkPoisoned()
        try await checker.syncAll()
        let report = try await checker.checkGuarantees()
        for device in devices { try await device.stop() }
        return report
    }

    private static func environment(_ time: VirtualTime, _ seed: UInt64) -> SyncEnvironment {
        let numbers = SeededNumbers(seed: seed)
        return SyncEnvironment(
            now: { time.date },
            makeID: { numbers.id() },
            fraction: { numbers.fraction() },
            sleep: { try await time.sleep($0) }
        )
    }

    /// Simulates a faulty deployment that rejects every write for some time.
    private static func badDeploy(
        _ faults: ServerFaults,
        _ plan: WorldPlan,
        _ time: VirtualTime
    ) async throws {
        guard plan.rejects else { return }
        var generator = SeededGenerator(seed: plan.seed ^ 0x6465_706C)
        let rejections: [ServerFaults.Rejection] = [.missingTable, .missingRight, .failure]
        try await time.sleep(.seconds(Int.random(in: 1...20, using: &generator)))
        faults.reject(rejections.randomElement(using: &generator))
        try await time.sleep(.seconds(Int.random(in: 2...40, using: &generator)))
        faults.reject(nil)
    }

    /// Backs up the server's database, and restores it later.
    private static func restore(
        _ server: WorldServer,
        _ recorder: ServerRecorder,
        _ devices: [WorldDevice],
        _ plan: WorldPlan,
        _ time: VirtualTime,
        _ story: WorldStory?
    ) async throws {
        guard let database = server.database else { return }
        var generator = SeededGenerator(seed: plan.seed ^ 0x7265_7374)
        try await time.sleep(.seconds(Int.random(in: 1...20, using: &generator)))
        try database.backUp()
        recorder.noteBackup()
        story?.add("the server", "is backed up")
        try await time.sleep(.seconds(Int.random(in: 2...30, using: &generator)))
        try await database.restore()
        var restore = recorder.noteRestore()
        if plan.faults.late > 0 || plan.faults.double > 0 { recorder.transactions.serverRestored() }
        story?.add("the server", "is restored")
        let client = SyncClient(endpoint: World.endpoint, transport: server.transport)
        restore.items = try await client.table(WorldItem.self).read()
        for device in devices { try await device.noteRestore(restore) }
    }

    /// Locks the phone from time to time.
    private static func lock(
        _ device: WorldDevice,
        _ plan: WorldPlan,
        _ time: VirtualTime
    ) async throws {
        guard plan.locks else { return }
        for _ in 0..<plan.steps / 4 {
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...12_000, using: &$0) })
            )
            device.setLocked(true)
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...9000, using: &$0) })
            )
            device.setLocked(false)
        }
    }

    /// Makes the token server unreachable from time to time.
    private static func failTokens(
        _ device: WorldDevice,
        _ plan: WorldPlan,
        _ time: VirtualTime
    ) async throws {
        guard let signIn = device.signIn else { return }
        for _ in 0..<plan.steps / 4 {
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...15_000, using: &$0) })
            )
            signIn.setFailing(true)
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...15_000, using: &$0) })
            )
            signIn.setFailing(false)
        }
    }

    /// Waits until the first device is killed, and then starts the last device with a copy of the
    /// first one's file.
    ///
    /// If the first device is never killed, the last device starts with its own file.
    private static func startFromCopy(
        _ device: WorldDevice,
        of first: WorldDevice,
        _ time: VirtualTime
    ) async throws {
        for _ in 0..<2000 where !first.wasCopied { try await time.sleep(.milliseconds(100)) }
        try await device.start()
    }

    /// Lets users edit while their devices sync; from time to time, kills and restarts an app.
    private static func work(
        _ devices: [WorldDevice],
        _ ids: [String],
        _ plan: WorldPlan,
        _ time: VirtualTime
    ) async throws {
        var tasks: [Task<Void, any Error>] = []
        for device in devices {
            tasks.append(
                time.start {
                    while !device.isStarted { try await time.sleep(.milliseconds(100)) }
                    for _ in 0..<plan.steps {
                        try await time.sleep(
                            .milliseconds(device.draw { Int.random(in: 1...3000, using: &$0) })
                        )
                        try await device.edit(ids)
                    }
                }
            )
            tasks.append(
                time.start {
                    if plan.startsLater(device.name) {
                        try await startFromCopy(device, of: devices[0], time)
                    }
                    let heir =
                        device.name == "d0" && plan.startsLater(devices.last?.name ?? "")
                        ? devices.last : nil
                    device.syncsItself
                        ? try await watchLoop(device, heir, plan, time)
                        : try await syncLoop(device, heir, plan, time)
                }
            )
        }
        for task in tasks { try await task.value }
    }

    private static func syncLoop(
        _ device: WorldDevice,
        _ heir: WorldDevice?,
        _ plan: WorldPlan,
        _ time: VirtualTime
    ) async throws {
        for step in 0..<plan.steps / 2 {
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...5000, using: &$0) })
            )
            let sync = time.start { try await device.sync() }
            let isKilled = device.draw { $0.chance(15) }
            guard isKilled || heir != nil && step == plan.steps / 4 else {
                try await sync.value
                continue
            }
            // The app is killed during the sync, so its client is lost, but its disk remains.
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...4000, using: &$0) })
            )
            try await device.kill()
            sync.cancel()
            _ = try? await sync.value
            try await restart(device, heir, plan)
        }
    }

    /// Runs a device with automatic sync: its user resolves rejected operations, and its app is
    /// killed from time to time.
    private static func watchLoop(
        _ device: WorldDevice,
        _ heir: WorldDevice?,
        _ plan: WorldPlan,
        _ time: VirtualTime
    ) async throws {
        for step in 0..<plan.steps / 2 {
            try await time.sleep(
                .milliseconds(device.draw { Int.random(in: 1...5000, using: &$0) })
            )
            let dice = device.draw { Int.random(in: 0..<100, using: &$0) }
            if dice < 15 || heir != nil && step == plan.steps / 4 {
                try await restart(device, heir, plan)
            } else if dice < 45 {
                try await device.resolveErrors()
            }
        }
    }

    /// Kills an app, restarts it, and checks that its rows agree with its queue (guarantee 8).
    private static func restart(
        _ device: WorldDevice,
        _ heir: WorldDevice?,
        _ plan: WorldPlan
    ) async throws {
        try await device.kill()
        if let heir, !device.wasCopied { try device.copyFile(to: heir) }
        if plan.putsBack { try device.restoreOrBackUp() }
        try await device.start()
        let torn = try await device.tornRows()
        guard torn.isEmpty else {
            throw WorldViolation(
                seed: plan.seed,
                guarantee: "crash atomicity",
                detail: "after a kill, the queue of \(device.name) contradicts the rows \(torn)"
            )
        }
    }
}

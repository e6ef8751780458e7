// WorldPlan: draws the parameters of a simulation.

public import Tideline

/// The parameters of a simulation, drawn from its seed.
public struct WorldPlan: Sendable, Hashable {
    /// The kind of server that the devices share.
    public enum Server: String, Sendable, Hashable, CaseIterable {
        /// Tideline's server.
        case tideline
        /// An imitation of the original Node server.
        case node
        /// An imitation of the original .NET server.
        case dotNet
    }

    /// The kind of storage on which a device keeps its store.
    public enum Disk: String, Sendable, Hashable, CaseIterable {
        /// Memory only, without a database.
        case memory
        /// SQLite, in memory.
        case sqlite
        /// A SQLite file; when the app is killed, the file is copied in its current state.
        case file
    }

    /// The model with which a user changes copies of rows that were read earlier.
    public enum Copies: String, Sendable, Hashable, CaseIterable {
        /// A model with `updatedAt`.
        case timed
        /// A model with `version`.
        case versioned
    }

    /// The seed from which everything is drawn.
    public var seed: UInt64
    /// The kind of the server.
    public var server = Server.tideline
    /// Whether each device uses automatic sync, with live events if the server supports them.
    public var syncsItself: [Bool]
    /// The number of devices.
    public var devices: Int
    /// The maximum number of rows that the devices share.
    public var rows: Int
    /// The number of actions per user.
    public var steps: Int
    /// The faults of the network while the users work.
    public var faults: NetworkFaults
    /// The conflict policy of each device.
    public var policies: [ConflictPolicy]
    /// Whether each device pulls only open rows and rows with a high rank, instead of all rows.
    public var pullsPart: [Bool]
    /// The disk of each device.
    public var disks: [Disk]
    /// The model with which users change copies of rows; nil if they read, change, and store a row
    /// in one step.
    public var copies: Copies?
    /// Whether users store deeply nested values.
    public var nests = false
    /// Whether users change several rows in one transaction.
    public var transacts = false

    /// Whether the server cannot process one of the rows until the final checks.
    public var poisons = false
    /// Whether a faulty deployment rejects every write for some time.
    public var rejects = false
    /// Whether devices with a file are sometimes restored to an older copy of the file, which
    /// simulates a restore of the phone's backup.
    public var putsBack = false
    /// Whether the last device starts with a copy of the first device's file, while both devices
    /// stay in use.
    public var sharesCopy = false

    /// Whether the server is restored from an older backup while the devices work.
    public var restores = false
    /// The policy of each device's app for rows that a restored server lost.
    public var lostRows: [LostRowPolicy] = []
    /// Whether the stores are unavailable from time to time, which simulates a locked phone.
    public var locks = false
    /// Whether requests have tokens, which expire and sometimes cannot be renewed.
    public var expires = false

    /// Creates a random plan from a seed.
    public init(seed: UInt64) {
        var generator = SeededGenerator(seed: seed ^ 0x7469_6465_6C69_6E65)
        self.seed = seed
        devices = Int.random(in: 2...4, using: &generator)
        rows = Int.random(in: 2...6, using: &generator)
        steps = Int.random(in: 8...24, using: &generator)
        faults = .bad
        if generator.chance(10) { faults = NetworkFaults() }
        let all: [ConflictPolicy] = [.fail, .serverWins, .clientWins]
        policies = (0..<devices).map { _ in all[Int.random(in: 0..<3, using: &generator)] }
        pullsPart = (0..<devices).map { _ in generator.chance(50) }
        // Drawn from a separate generator, so that seeds with Tideline's server and manual sync
        // keep their meaning.
        var kinds = SeededGenerator(seed: seed ^ 0x6B69_6E64)
        if kinds.chance(20) { server = kinds.chance(50) ? .node : .dotNet }
        let someSyncThemselves = kinds.chance(25)
        syncsItself = (0..<devices).map { _ in someSyncThemselves && kinds.chance(60) }
        disks = (0..<devices).map { (seed &+ UInt64($0)) % 2 == 0 ? .memory : .sqlite }
        drawMore()
        var joins = SeededGenerator(seed: seed ^ 0x6A6F_696E)
        for device in policies.indices where joins.chance(25) {
            policies[device] = joins.chance(50) ? .merge : .joining
        }
        drawRealFaults()
        drawOutages()
    }

    /// Returns whether a device starts later, with a copy of another device's file.
    package func startsLater(_ name: String) -> Bool {
        sharesCopy && devices > 1 && name == "d\(devices - 1)" && disks.first == .file
            && disks.last == .file
    }

    /// Returns whether a device pulls only some of the rows.
    ///
    /// A device that starts with a copied file runs the same app as the first device. Otherwise, a
    /// query that the app no longer pulls would keep its rows until the query is purged.
    package func pullsPart(ofDevice index: Int) -> Bool {
        pullsPart[startsLater("d\(index)") ? 0 : index]
    }

    /// The statuses with which the server rejects operations in this simulation.
    var rejections: Set<Int> {
        var result: Set<Int> = [404, 409, 410, 412, 424]
        if poisons || rejects { result.insert(500) }
        if rejects { result.insert(403) }
        // The server rejects documents that are nested more than 63 levels deep.
        if nests { result.insert(400) }
        return result
    }

    /// Draws faults that users of similar systems have reported: gateways, deployments, backups.
    private mutating func drawRealFaults() {
        var kinds = SeededGenerator(seed: seed ^ 0x7265_616C)
        if faults.cut > 0, kinds.chance(50) { faults.page = 6 }
        faults.allowsEmptySuccess = server == .tideline
        if server == .tideline, kinds.chance(20) { poisons = true }
        if server == .tideline, kinds.chance(15) { rejects = true }
        if kinds.chance(25) {
            putsBack = true
            for device in disks.indices where kinds.chance(60) { disks[device] = .file }
        }
        if kinds.chance(15), copies == nil {
            sharesCopy = true
            disks[0] = .file
            disks[disks.count - 1] = .file
        }
    }

    /// Draws faults of whole machines: a restored server, a locked phone.
    private mutating func drawOutages() {
        var kinds = SeededGenerator(seed: seed ^ 0x6F75_7461)
        if server == .tideline, kinds.chance(15) { restores = true }
        lostRows = (0..<devices).map { _ in
            LostRowPolicy.allCases.randomElement(using: &kinds) ?? .ask
        }
        if kinds.chance(15) { locks = true }
        if server == .tideline, kinds.chance(15) { expires = true }
        if kinds.chance(10) { faults.dropsPrefer = true }
    }

    /// Draws the options that were added later; most simulations use few of them.
    private mutating func drawMore() {
        var kinds = SeededGenerator(seed: seed ^ 0x6D6F_7265)
        for device in disks.indices where kinds.chance(20) { disks[device] = .file }
        if kinds.chance(40) { copies = Copies.allCases.randomElement(using: &kinds) }
        if server == .tideline, kinds.chance(10) { nests = true }
        if kinds.chance(15) { faults.bytesMax = Int.random(in: 1500...4000, using: &kinds) }
        var groups = SeededGenerator(seed: seed ^ 0x6772_6F75)
        // An edit of a copy may write an old text back, and a group cannot be split for a
        // connection that breaks on large bodies.
        transacts = groups.chance(40) && copies == nil && faults.bytesMax == nil && rows > 1
        guard faults.cut > 0, kinds.chance(30) else { return }
        faults.refuseOne = 4
        faults.emptyOne = 4
        faults.otherEpoch = 4
    }
}

extension ConflictPolicy {
    /// A conflict handler that gives the same results as ``merge``.
    static let joining = ConflictPolicy.custom { $0.merged().map(Resolution.write) ?? .fail }

    /// Whether conflicts are resolved without writing old values back.
    var yields: Bool { [.serverWins, .merge, .joining].contains(self) }
}

/// A violation of a guarantee in a simulation.
public struct WorldViolation: Error, Sendable, CustomStringConvertible {
    /// The seed that reproduces the violation.
    public var seed: UInt64
    /// The guarantee's name.
    public var guarantee: String
    /// A description of the failure.
    public var detail: String
    /// The plan of the simulation.
    public var plan: WorldPlan?
    /// The events before the violation, one line each, if they were recorded.
    public var story: [String] = []
    /// The test suite of the simulation.
    var suite = "SimulationTests"

    init(seed: UInt64, guarantee: String, detail: String) {
        self.seed = seed
        self.guarantee = guarantee
        self.detail = detail
    }

    /// The violation, and everything that is needed to reproduce it.
    public var description: String {
        var text =
            "seed \(seed) breaks '\(guarantee)': \(detail). "
            + "Run it alone: TIDELINE_SEED=\(seed) swift test --filter \(suite)"
        guard !story.isEmpty else { return text }
        if let plan {
            text += "\nThe smallest simulation that breaks a guarantee: \(plan.devices) devices, "
            text += "\(plan.rows) rows, \(plan.steps) steps, server \(plan.server), "
            text +=
                "sync automatically \(plan.syncsItself), disks \(plan.disks.map(\.rawValue)), "
            text += "copies \(plan.copies?.rawValue ?? "none"), nests \(plan.nests), "
            text +=
                "transacts \(plan.transacts), poisons \(plan.poisons), rejects \(plan.rejects), "
            text += "puts back \(plan.putsBack), shares a copy \(plan.sharesCopy), "
            text +=
                "restores \(plan.restores), lost rows \(plan.lostRows), locks \(plan.locks), expires \(plan.expires), "
            text += "policies \(plan.policies.map(\.kind)), pulls a part \(plan.pullsPart), "
            text += "\(plan.faults)"
        }
        return text + "\n  " + story.joined(separator: "\n  ")
    }
}

/// The result of a simulation, with which two runs of a seed can be compared.
public struct WorldReport: Sendable, Hashable {
    /// The number of requests that reached the server.
    public var requests = 0
    /// The number of operations that the users queued.
    public var edits = 0
    /// The number of atomic groups that the server applied.
    public var groups = 0
    /// A digest of all requests and responses, in order.
    public var history: UInt64 = 0
}

// WorldShrinking: finds a smaller simulation that still fails.

import Tideline

extension World {
    /// The maximum number of smaller simulations to try.
    private static let shrinkRunsMax = 400

    /// Runs the simulation; if a guarantee is violated, shrinks the simulation and records the
    /// events of the smallest one.
    ///
    /// - Throws: The ``WorldViolation`` of the smallest simulation that violates a guarantee.
    public func runShrinking() throws -> WorldReport {
        do {
            return try run()
        } catch let first as WorldViolation {
            var last = first
            let (smallest, _) = Self.shrunk(plan) { smaller in
                do {
                    _ = try World(smaller).run()
                    return false
                } catch let violation as WorldViolation {
                    last = violation
                    return true
                } catch {
                    return false
                }
            }
            _ = try World(smallest).run(recordsStory: true)
            last.guarantee = "determinism"
            last.detail += ", but a second run of the same simulation did not break it"
            throw last
        }
    }

    /// Shrinks a plan step by step as long as `fails` returns true.
    ///
    /// - Returns: The smallest plan, and the number of plans that were tried.
    package static func shrunk(
        _ plan: WorldPlan,
        while fails: (WorldPlan) throws -> Bool
    ) rethrows -> (WorldPlan, runs: Int) {
        var smallest = plan
        var runs = 0
        var isSmaller = true
        while isSmaller {
            isSmaller = false
            for candidate in smallest.smaller {
                guard runs < shrinkRunsMax else { return (smallest, runs) }
                runs += 1
                guard try fails(candidate) else { continue }
                smallest = candidate
                isSmaller = true
                break
            }
        }
        return (smallest, runs)
    }
}

extension WorldPlan {
    /// The plans that are one step smaller, starting with the largest step.
    var smaller: [WorldPlan] {
        var result: [WorldPlan] = []
        func add(_ change: (inout WorldPlan) -> Void) {
            var plan = self
            change(&plan)
            if plan != self { result.append(plan) }
        }
        for steps in [steps / 2, steps * 3 / 4, steps - 1] where steps > 0 {
            add { $0.steps = steps }
        }
        if devices > 1 {
            add {
                $0.devices -= 1
                $0.policies.removeLast()
                $0.pullsPart.removeLast()
                $0.syncsItself.removeLast()
                $0.disks.removeLast()
                if !$0.lostRows.isEmpty { $0.lostRows.removeLast() }
            }
        }
        if rows > 1 { add { $0.rows -= 1 } }
        add { $0.server = .tideline }
        for device in pullsPart.indices { add { $0.pullsPart[device] = false } }
        for device in syncsItself.indices { add { $0.syncsItself[device] = false } }
        for device in disks.indices { add { $0.disks[device] = .memory } }
        add { $0.copies = nil }
        add { $0.nests = false }
        add { $0.transacts = false }
        add { $0.poisons = false }
        add { $0.rejects = false }
        add { $0.putsBack = false }
        add { $0.sharesCopy = false }
        add { $0.restores = false }
        for device in lostRows.indices { add { $0.lostRows[device] = .ask } }
        add { $0.locks = false }
        add { $0.expires = false }
        add { $0.faults.page = 0 }
        add { $0.faults.dropsPrefer = false }
        add { $0.faults.bytesMax = nil }
        add { $0.faults.refuseOne = 0 }
        add { $0.faults.emptyOne = 0 }
        add { $0.faults.otherEpoch = 0 }
        add { $0.faults.late = 0 }
        add { $0.faults.double = 0 }
        add { $0.faults.busy = 0 }
        add { $0.faults.refuse = 0 }
        add { $0.faults.empty = 0 }
        add { $0.faults.cut = 0 }
        add { $0.faults.dropRequest = 0 }
        add { $0.faults.dropAnswer = 0 }
        add { $0.faults.delayMax = .zero }
        return result
    }
}

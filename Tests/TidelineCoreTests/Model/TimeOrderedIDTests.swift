// TimeOrderedIDTests: the example of RFC 9562, and the order of ids.

import Testing
import TidelineCore
import TidelineTestKit

@Suite struct TimeOrderedIDTests {
    /// RFC 9562 appendix A.6.
    @Test("A time-ordered ID matches the example of the standard")
    func isTheExampleOfTheStandard() {
        let id = TimeOrderedID.make(
            milliseconds: 0x017F_22E2_79B0,
            random: (0xCC3, 0x18C4_DC0C_0C07_398F << 2)
        )
        #expect(id == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    }

    @Test("A time-ordered ID has its version and variant with any random bits")
    func hasVersionAndVariantWhateverTheBits() {
        for bits in [0, UInt64.max, 0x5555_5555_5555_5555] {
            let id = Array(TimeOrderedID.make(milliseconds: 1, random: (bits, bits)))
            #expect(id.count == 36)
            #expect(id[14] == "7")
            #expect("89ab".contains(id[19]))
        }
    }

    @Test("Time-ordered IDs sort by time") func sortsByTime() {
        let times: [Int64] = [0, 1, 255, 256, 1_800_000_000_000, 1_800_000_000_001]
        var generator = SeededGenerator(seed: 1)
        let ids = times.map { TimeOrderedID.make(milliseconds: $0, using: &generator) }
        #expect(ids == ids.sorted())
        #expect(Set(ids).count == ids.count)
    }
}

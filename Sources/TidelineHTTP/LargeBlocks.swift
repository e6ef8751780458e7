// LargeBlocks: memory of large answers goes back to the system when they are gone.
//
// glibc's allocator takes large blocks from the system one by one, until the first of them is freed:
// from then on it takes blocks of that size from the pools of its threads. There an answer that
// waits keeps everything below it, and two hundred callers that did not read cost two and a half
// times what was counted for their answers. A fixed bound keeps large blocks out of the pools.

import CEpoll

enum LargeBlocks {
    /// Usual pages are smaller, and stay in the pools: it costs time to map a block.
    private static let bytesMin: Int32 = 1 << 20

    /// Counts for the whole process, from now on.
    static func mapEach() { tideline_map_blocks(bytesMin) }
}

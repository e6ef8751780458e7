// allocations: counts the allocations of this process, and records the stacks that they come from.

#ifndef TIDELINE_ALLOCATIONS_H
#define TIDELINE_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The number of allocations since the process started, their bytes as requested, and the number of frees.
struct tideline_allocations {
    uint64_t count;
    uint64_t bytes;
    uint64_t frees;
};

enum {
    /// The most frames of a recorded stack.
    tideline_frames_max = 48,
    /// The most stacks of a recording; later allocations are not recorded.
    tideline_stacks_max = 1 << 18,
};

/// The stack of one allocation, from the allocating function outwards.
struct tideline_stack {
    size_t bytes;
    int depth;
    void *frames[tideline_frames_max];
};

/// Returns whether allocations are counted: on Linux with glibc, without a sanitizer.
bool tideline_counts_allocations(void);

/// Returns the totals at this time.
struct tideline_allocations tideline_allocations(void);

/// Forgets the recorded stacks, and records the stack of each allocation from now on.
void tideline_begin_recording(void);

/// Stops recording and returns the number of recorded stacks.
size_t tideline_end_recording(void);

/// Returns a recorded stack; `index` is less than the number of recorded stacks.
const struct tideline_stack *tideline_recorded_stack(size_t index);

/// The file that has the code at an address, and the exported function there; null if unknown.
struct tideline_symbol {
    const char *file;
    const char *function;
    uintptr_t offset;
};

/// Returns what the dynamic linker knows of an address.
struct tideline_symbol tideline_symbol(uintptr_t address);

#endif

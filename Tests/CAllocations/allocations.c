// allocations: malloc and its relatives, defined in front of glibc's to count the calls.
//
// The definitions of an executable come before those of the libraries that it loads, so calls from
// Foundation, SQLite and the Swift runtime are counted as well. glibc exports its own functions under the
// names below. A sanitizer has its own malloc, and is left alone.

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "allocations.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIDELINE_SANITIZED
#endif
#endif

#if defined(__linux__) && !defined(TIDELINE_SANITIZED)
#include <features.h>
#endif

#if defined(__GLIBC__) && !defined(TIDELINE_SANITIZED)

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static _Atomic uint64_t allocation_count;
static _Atomic uint64_t allocated_bytes;
static _Atomic uint64_t free_count;

static _Atomic bool is_recording;
static _Atomic size_t next_stack;
static struct tideline_stack stacks[tideline_stacks_max];

/// Whether this thread is taking a stack, which may allocate.
static _Thread_local bool takes_stack;

__attribute__((noinline)) static void record(size_t size) {
    if (takes_stack) return;
    takes_stack = true;
    size_t index = atomic_fetch_add_explicit(&next_stack, 1, memory_order_relaxed);
    if (index < tideline_stacks_max) {
        stacks[index].bytes = size;
        stacks[index].depth = backtrace(stacks[index].frames, tideline_frames_max);
    }
    takes_stack = false;
}

static inline void count(size_t size) {
    atomic_fetch_add_explicit(&allocation_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&allocated_bytes, size, memory_order_relaxed);
    if (atomic_load_explicit(&is_recording, memory_order_relaxed)) record(size);
}

static inline void count_free(void) {
    atomic_fetch_add_explicit(&free_count, 1, memory_order_relaxed);
}

void *malloc(size_t size) {
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count(number * size);
    return __libc_calloc(number, size);
}

/// Counts as a free and a new allocation.
void *realloc(void *memory, size_t size) {
    if (memory != NULL) count_free();
    if (memory == NULL || size > 0) count(size);
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
    count(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
    bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!is_power || alignment % sizeof(void *) != 0) return EINVAL;
    void *result = memalign(alignment, size);
    if (result == NULL) return ENOMEM;
    *memory = result;
    return 0;
}

void free(void *memory) {
    if (memory != NULL) count_free();
    __libc_free(memory);
}

bool tideline_counts_allocations(void) { return true; }

struct tideline_allocations tideline_allocations(void) {
    struct tideline_allocations totals = {
        .count = atomic_load_explicit(&allocation_count, memory_order_relaxed),
        .bytes = atomic_load_explicit(&allocated_bytes, memory_order_relaxed),
        .frees = atomic_load_explicit(&free_count, memory_order_relaxed),
    };
    return totals;
}

void tideline_begin_recording(void) {
    // The first call loads the unwinder.
    void *frame;
    backtrace(&frame, 1);
    atomic_store(&next_stack, 0);
    atomic_store(&is_recording, true);
}

size_t tideline_end_recording(void) {
    atomic_store(&is_recording, false);
    size_t count = atomic_load(&next_stack);
    return count < tideline_stacks_max ? count : tideline_stacks_max;
}

const struct tideline_stack *tideline_recorded_stack(size_t index) { return &stacks[index]; }

struct tideline_symbol tideline_symbol(uintptr_t address) {
    struct tideline_symbol symbol = {NULL, NULL, 0};
    Dl_info info;
    if (dladdr((void *)address, &info) == 0) return symbol;
    symbol.file = info.dli_fname;
    symbol.function = info.dli_sname;
    symbol.offset = address - (uintptr_t)info.dli_fbase;
    return symbol;
}

#else

bool tideline_counts_allocations(void) { return false; }

struct tideline_allocations tideline_allocations(void) {
    struct tideline_allocations none = {0, 0, 0};
    return none;
}

void tideline_begin_recording(void) {}

size_t tideline_end_recording(void) { return 0; }

const struct tideline_stack *tideline_recorded_stack(size_t index) {
    (void)index;
    return NULL;
}

struct tideline_symbol tideline_symbol(uintptr_t address) {
    (void)address;
    struct tideline_symbol symbol = {NULL, NULL, 0};
    return symbol;
}

#endif

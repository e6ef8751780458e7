// tsan-mutex: tells the thread sanitizer of the mutex of Swift's Synchronization on Linux.
//
// A mutex that is free is taken by an atomic instruction in our own code, which the sanitizer sees.
// One that is held is waited for, and given on, by the kernel: two functions of the library, which
// it does not see. `scripts/sanitize` has the linker put these two around them (--wrap).

#include <stdint.h>

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

// Of the sanitizer's runtime: what was released at an address happened before it is acquired.
void __tsan_acquire(void *address);
void __tsan_release(void *address);

SWIFT void library_lock(uint32_t thread, SELF void *mutex) __asm__("__real_" LOCK);
SWIFT void library_unlock(SELF void *mutex) __asm__("__real_" UNLOCK);
SWIFT void told_lock(uint32_t thread, SELF void *mutex) __asm__("__wrap_" LOCK);
SWIFT void told_unlock(SELF void *mutex) __asm__("__wrap_" UNLOCK);

SWIFT void told_lock(uint32_t thread, SELF void *mutex) {
    library_lock(thread, mutex);
    __tsan_acquire(mutex);
}

SWIFT void told_unlock(SELF void *mutex) {
    __tsan_release(mutex);
    library_unlock(mutex);
}

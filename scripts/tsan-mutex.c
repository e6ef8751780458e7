// tsan-mutex: reports locks of Swift's Mutex on Linux to the thread sanitizer.
//
// A free mutex is acquired by an atomic instruction in our own code, which the sanitizer sees.
// The kernel waits for a held mutex and passes it on, in two functions of the library that
// the sanitizer does not see. `scripts/sanitize` makes the linker wrap them with these two (--wrap).

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

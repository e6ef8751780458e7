// epoll, eventfd and what glibc adds to malloc for Swift, whose Glibc module leaves them out.

#ifndef TIDELINE_CEPOLL_SHIM_H
#define TIDELINE_CEPOLL_SHIM_H

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <malloc.h>
#include <linux/sockios.h>

// Macros in the header are enumerators of a type that Swift does not count with.
static const unsigned int tideline_epoll_in = EPOLLIN;
/// Wakes one of the loops that watch a descriptor, or a few, and not all.
static const unsigned int tideline_epoll_shared = EPOLLIN | EPOLLEXCLUSIVE;
static const unsigned int tideline_epoll_out = EPOLLOUT;
static const unsigned int tideline_epoll_ending = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
static const unsigned int tideline_epoll_gone = EPOLLHUP | EPOLLERR;
/// Reports each change once, not the state for as long as it lasts (edge-triggered).
static const unsigned int tideline_epoll_edge = EPOLLRDHUP | EPOLLET;

/// Watches a descriptor, or changes what it is watched for.
static inline int tideline_epoll_set(int epoll, int change, int descriptor, unsigned int events) {
    struct epoll_event event = {.events = events, .data = {.fd = descriptor}};
    return epoll_ctl(epoll, change, descriptor, &event);
}

/// How many bytes of what was sent the peer has not taken yet; 0 where that is not known.
static inline int tideline_untaken(int socket) {
    int count = 0;
    return ioctl(socket, SIOCOUTQ, &count) == 0 ? count : 0;
}

#ifdef __GLIBC__
enum {
    /// A block this large is mapped by itself; no larger number is allowed. Once one limit is set,
    /// malloc adjusts neither by itself.
    tideline_mapped_bytes = 32 << 20,
    /// What an arena may keep free at its end.
    tideline_kept_bytes = 64 << 20,
    /// The same while memory is short.
    tideline_kept_when_short_bytes = 512 << 10,
};
#endif

/// Returns the free memory of malloc to the system; does nothing if the C library has no function for it.
/// malloc_trim leaves the end of each arena but the first: only a free() cuts that, and from now on
/// it does, until `tideline_keep_memory`.
static inline void tideline_give_back_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, tideline_mapped_bytes);
    mallopt(M_TRIM_THRESHOLD, tideline_kept_when_short_bytes);
    malloc_trim(0);
#endif
}

/// Lets malloc keep what is freed, because it is used again soon.
static inline void tideline_keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, tideline_kept_bytes);
#endif
}

/// A descriptor by which other threads wake an event loop.
static inline int tideline_wake_descriptor(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

#endif

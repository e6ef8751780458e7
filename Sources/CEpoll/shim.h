// epoll, eventfd and options of malloc for Swift, whose Glibc module leaves these headers out.

#ifndef TIDELINE_CEPOLL_SHIM_H
#define TIDELINE_CEPOLL_SHIM_H

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <malloc.h>
#include <linux/sockios.h>

// Macros in the header are enumerators of a type that Swift does not count with.
static const unsigned int tideline_epoll_in = EPOLLIN;
static const unsigned int tideline_epoll_out = EPOLLOUT;
static const unsigned int tideline_epoll_ending = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
static const unsigned int tideline_epoll_gone = EPOLLHUP | EPOLLERR;
/// Tells of a change once, not of a state for as long as it lasts.
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

/// Takes blocks of so many bytes and more from the system one by one, and gives them back so; does
/// nothing where malloc has no such options.
static inline void tideline_map_blocks(int bytes) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, bytes);
    // What stays free at the end of a pool; the default is for blocks of an eighth of the size.
    mallopt(M_TRIM_THRESHOLD, 2 * bytes);
#endif
}

/// A descriptor by which other threads wake an event loop.
static inline int tideline_wake_descriptor(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

#endif

// epoll for the listening program, as Swift's Glibc module leaves it out.

#ifndef BENCH_CWATCH_SHIM_H
#define BENCH_CWATCH_SHIM_H

#include <sys/epoll.h>

/// Reports a descriptor for as long as it can be read from.
static inline int bench_watch(int epoll, int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = descriptor}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

#endif

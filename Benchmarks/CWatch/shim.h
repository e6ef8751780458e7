// epoll for the listening program, because Swift's Glibc module does not include it.

#ifndef BENCH_CWATCH_SHIM_H
#define BENCH_CWATCH_SHIM_H

#include <sys/epoll.h>

/// Reports a descriptor as long as it is readable.
static inline int bench_watch(int epoll, int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = descriptor}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

#endif

// libmicrohttpd for Swift: the library's header, and the calls that Swift cannot import because
// they are variadic or made of macros.

#ifndef TIDELINE_CMICROHTTPD_SHIM_H
#define TIDELINE_CMICROHTTPD_SHIM_H

#include <microhttpd.h>
#include <sys/eventfd.h>

/// The descriptor to wait on before the next `MHD_run`.
static inline int tideline_mhd_poll_descriptor(struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}

/// The socket of a connection.
static inline int tideline_mhd_socket(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

/// What the connection notification stored with the connection.
static inline void *tideline_mhd_context(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : 0;
}

/// The bytes of a request head as it arrived, from the method to the empty line.
static inline size_t tideline_mhd_head_size(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

/// Makes the library close a connection within a second of silence, whatever it waits for.
static inline void tideline_mhd_expire(struct MHD_Connection *connection) {
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

/// A descriptor by which other threads wake an event loop.
static inline int tideline_wake_descriptor(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

#endif

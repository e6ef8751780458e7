// zlib for Swift: deflateInit2 is a macro, which Swift cannot call.
#ifndef TIDELINE_CZLIB_SHIM_H
#define TIDELINE_CZLIB_SHIM_H

#include <zlib.h>

// Begins a gzip stream (RFC 1952): a window of 32 KiB, and 16 for the gzip frame.
static inline int tideline_gzip_begin(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
}

#endif

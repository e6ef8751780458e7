// zlib for Swift: deflateInit2 and inflateInit2 are macros, which Swift cannot call.
#ifndef TIDELINE_CZLIB_SHIM_H
#define TIDELINE_CZLIB_SHIM_H

#include <zlib.h>

// Begins a gzip stream (RFC 1952): a window of 32 KiB, and 16 for the gzip frame.
static inline int tideline_gzip_begin(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
}

// Begins to read one: whatever is no gzip is an error, and its sum and length are compared.
static inline int tideline_gunzip_begin(z_stream *stream) {
    return inflateInit2(stream, 15 + 16);
}

#endif

// PostgreSQL's client library.

#ifndef TIDELINE_CLIBPQ_SHIM_H
#define TIDELINE_CLIBPQ_SHIM_H

#include <libpq-fe.h>

// Numbers of types in PostgreSQL's catalogue, which never change (pg_type.dat).
static const Oid tideline_bytea = 17;
static const Oid tideline_int8 = 20;
static const Oid tideline_text = 25;
static const Oid tideline_float8 = 701;

// Says nothing on standard error: what a server notes may hold values.
static inline void tideline_ignore(void *context, const PGresult *result) {
    (void)context;
    (void)result;
}

static inline void tideline_silence(PGconn *connection) {
    PQsetNoticeReceiver(connection, tideline_ignore, NULL);
}

#endif

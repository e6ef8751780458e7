// SQLite itself, which the client is compared with.

#ifndef BENCH_CPLAINSQLITE_SHIM_H
#define BENCH_CPLAINSQLITE_SHIM_H

#include <sqlite3.h>

#endif

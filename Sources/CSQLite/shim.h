#include <sqlite3.h>

/* SQLITE_TRANSIENT is a cast macro, which Swift does not import. */
static inline int tl_bind_text(sqlite3_stmt *statement, int index, const char *text, int length) {
    return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}

static inline int tl_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int length) {
    return sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}

/* Keeps the log of a file when its last connection closes. SQLite before 3.18 always copies it into the file. Variadic
   functions, like the one that sets this, are not imported by Swift. */
static inline void tl_keep_log(sqlite3 *database) {
#ifdef SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE
    sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
#else
    (void)database;
#endif
}

/* Rejects quoted names that match no column, instead of reading them as texts. SQLite before 3.29 has no such setting. */
static inline void tl_refuse_quoted_texts(sqlite3 *database) {
#ifdef SQLITE_DBCONFIG_DQS_DML
    sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DML, 0, (int *)0);
    sqlite3_db_config(database, SQLITE_DBCONFIG_DQS_DDL, 0, (int *)0);
#else
    (void)database;
#endif
}

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

/* Copies the first 48 bytes of the index of the write-ahead log, which describe the last commit of any process, as
   https://www.sqlite.org/walformat.html specifies them. Returns 0 if the file has no such index, or if a commit is
   changing it. The connection must have read the file before. */
static inline int tl_read_log_header(sqlite3 *database, unsigned char *header) {
    sqlite3_file *file = 0;
    if (sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return 0;
    if (!file || !file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap) return 0;
    volatile void *index = 0;
    if (file->pMethods->xShmMap(file, 0, 32768, 0, &index) != SQLITE_OK || !index) return 0;
    const volatile unsigned char *bytes = (const volatile unsigned char *)index;
    unsigned char copy[48];
    /* A commit writes the second copy first. */
    for (int i = 0; i < 48; i++) header[i] = bytes[i];
    __sync_synchronize();
    for (int i = 0; i < 48; i++) copy[i] = bytes[48 + i];
    for (int i = 0; i < 48; i++) {
        if (header[i] != copy[i]) return 0;
    }
    /* Whether the index was initialized. */
    return header[12] == 1;
}

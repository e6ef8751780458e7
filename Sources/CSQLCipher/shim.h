// SQLCipher for Swift: SQLite with encrypted files, in place of CSQLite (trait `SQLCipher`).
//
// What SQLite has later than the one inside of it is made up for here: Debian 12 has SQLCipher 3.4.1,
// whose SQLite is 3.15.2.
#ifndef TIDELINE_CSQLCIPHER_SHIM_H
#define TIDELINE_CSQLCIPHER_SHIM_H

// The functions for keys are declared where this is defined.
#define SQLITE_HAS_CODEC 1
#if __has_include(<sqlcipher/sqlite3.h>)
#include <sqlcipher/sqlite3.h>
#else
#include <sqlite3.h>  // Homebrew's pkg-config names the folder of the header.
#endif
#include <stdlib.h>
#include <string.h>

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

// Later flags of functions that are registered: nothing in the file of a store can name them here.
#ifndef SQLITE_INNOCUOUS
#define SQLITE_INNOCUOUS 0
#endif

#if SQLITE_VERSION_NUMBER < 3020000

#define SQLITE_PREPARE_PERSISTENT 0x01

static inline int sqlite3_prepare_v3(
    sqlite3 *database, const char *sql, int length, unsigned int flags, sqlite3_stmt **statement,
    const char **tail
) {
    (void)flags;  // A hint only.
    return sqlite3_prepare_v2(database, sql, length, statement, tail);
}

// A pointer that is handed to a function is a blob that SQLite does not copy on its way: it knows
// where it is itself, which no bytes of a column do.
struct tl_pointer {
    const struct tl_pointer *self;
    const char *type;
    void *object;
    void (*destructor)(void *);
};

static inline void tl_pointer_free(void *bytes) {
    struct tl_pointer *pointer = bytes;
    if (pointer->destructor) pointer->destructor(pointer->object);
    free(pointer);
}

static inline struct tl_pointer *tl_pointer_make(
    void *object, const char *type, void (*destructor)(void *)
) {
    struct tl_pointer *pointer = malloc(sizeof *pointer);
    if (!pointer) {
        if (destructor) destructor(object);
        return NULL;
    }
    pointer->self = pointer;
    pointer->type = type;
    pointer->object = object;
    pointer->destructor = destructor;
    return pointer;
}

static inline int sqlite3_bind_pointer(
    sqlite3_stmt *statement, int index, void *object, const char *type, void (*destructor)(void *)
) {
    struct tl_pointer *pointer = tl_pointer_make(object, type, destructor);
    if (!pointer) return SQLITE_NOMEM;
    return sqlite3_bind_blob(statement, index, pointer, sizeof *pointer, tl_pointer_free);
}

static inline void sqlite3_result_pointer(
    sqlite3_context *context, void *object, const char *type, void (*destructor)(void *)
) {
    struct tl_pointer *pointer = tl_pointer_make(object, type, destructor);
    if (!pointer) return sqlite3_result_error_nomem(context);
    sqlite3_result_blob(context, pointer, sizeof *pointer, tl_pointer_free);
}

static inline void *sqlite3_value_pointer(sqlite3_value *value, const char *type) {
    if (sqlite3_value_type(value) != SQLITE_BLOB) return NULL;
    if (sqlite3_value_bytes(value) != sizeof(struct tl_pointer)) return NULL;
    const void *bytes = sqlite3_value_blob(value);
    struct tl_pointer pointer;
    memcpy(&pointer, bytes, sizeof pointer);
    return pointer.self == bytes && pointer.type == type ? pointer.object : NULL;
}

#endif

#endif

// TLS on sockets that do not wait, and what makes certificates: for Swift, which imports no macros
// and no functions that are kept as pointers.

#ifndef TIDELINE_CCRYPTO_TLS_H
#define TIDELINE_CCRYPTO_TLS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

// MARK: - Bytes of a socket

/// A socket, and how often it may be read before others have their turn.
typedef struct {
    int socket;
    int reads_left;
    /// The last read found nothing.
    int is_drained;
} tideline_tls_socket;

static inline int tideline_tls_read(BIO *bio, char *data, int count) {
    tideline_tls_socket *state = (tideline_tls_socket *)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (state->reads_left <= 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    state->reads_left -= 1;
    ssize_t got;
    do {
        got = recv(state->socket, data, (size_t)count, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        state->is_drained = 1;
        BIO_set_retry_read(bio);
    }
    return (int)got;
}

static inline int tideline_tls_write(BIO *bio, const char *data, int count) {
    ssize_t sent;
    do {
        sent = send(((tideline_tls_socket *)BIO_get_data(bio))->socket, data, (size_t)count,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
    return (int)sent;
}

static inline long tideline_tls_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static inline int tideline_tls_forget(BIO *bio) {
    if (bio == NULL) return 0;
    free(BIO_get_data(bio));
    BIO_set_data(bio, NULL);
    return 1;
}

/// How OpenSSL reads and writes a socket without waiting and without a signal; never freed.
static inline BIO_METHOD *tideline_tls_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tideline");
    if (method == NULL) return NULL;
    BIO_meth_set_read(method, tideline_tls_read);
    BIO_meth_set_write(method, tideline_tls_write);
    BIO_meth_set_ctrl(method, tideline_tls_control);
    BIO_meth_set_destroy(method, tideline_tls_forget);
    return method;
}

// MARK: - Contexts and sessions

// The only protocol that is served. One that asks for others alone is refused (RFC 7301).
static inline int tideline_tls_select(SSL *session, const unsigned char **out,
                                      unsigned char *count, const unsigned char *offered,
                                      unsigned int offered_count, void *argument) {
    static const unsigned char known[] = "\x08http/1.1";
    (void)session;
    (void)argument;
    int found = SSL_select_next_proto((unsigned char **)out, count, known, sizeof(known) - 1,
                                      offered, offered_count);
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// No user is present who could enter the passphrase of a key.
static inline int tideline_tls_no_passphrase(char *text, int count, int writes, void *argument) {
    (void)text;
    (void)count;
    (void)writes;
    (void)argument;
    return 0;
}

/// A context for a server without certificate, or NULL.
static inline SSL_CTX *tideline_tls_context(void) {
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION
                                     | SSL_OP_CIPHER_SERVER_PREFERENCE
                                     | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                                  | SSL_MODE_RELEASE_BUFFERS);
    // A read returns behind each record: those without data could hold it for ever.
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    // Of version 1.2 only what keeps what was said secret when the key is stolen later.
    SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
    // Callers come back with tickets: nothing is kept of them here.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_alpn_select_cb(context, tideline_tls_select, NULL);
    SSL_CTX_set_default_passwd_cb(context, tideline_tls_no_passphrase);
    return context;
}

/// A session on a connected socket, or NULL.
static inline SSL *tideline_tls_session(SSL_CTX *context, BIO_METHOD *method, int socket) {
    SSL *session = SSL_new(context);
    BIO *bio = BIO_new(method);
    tideline_tls_socket *state = (tideline_tls_socket *)calloc(1, sizeof(tideline_tls_socket));
    if (session == NULL || bio == NULL || state == NULL) {
        SSL_free(session);
        BIO_free(bio);
        free(state);
        return NULL;
    }
    state->socket = socket;
    BIO_set_data(bio, state);
    BIO_set_init(bio, 1);
    SSL_set_bio(session, bio, bio);
    SSL_set_accept_state(session);
    return session;
}

/// Lets the socket of a session be read so many times from now on.
static inline void tideline_tls_let_read(SSL *session, int reads) {
    tideline_tls_socket *state = (tideline_tls_socket *)BIO_get_data(SSL_get_rbio(session));
    state->reads_left = reads;
    state->is_drained = 0;
}

/// Whether a read since then found nothing.
static inline int tideline_tls_is_drained(const SSL *session) {
    return ((tideline_tls_socket *)BIO_get_data(SSL_get_rbio(session)))->is_drained;
}

/// Whether the peer began to speak HTTP without TLS.
static inline int tideline_tls_is_http(void) {
    int reason = ERR_GET_REASON(ERR_peek_error());
    return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST;
}

/// When a certificate ends, in seconds since 1970; 0 if it cannot be determined.
static inline int64_t tideline_tls_not_after(const X509 *certificate) {
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    int known = epoch != NULL
        && ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(certificate)) == 1;
    ASN1_TIME_free(epoch);
    return known ? (int64_t)days * 86400 + seconds : 0;
}

// MARK: - Files

/// What PEM is read from, a copy of the bytes; NULL without memory.
static inline BIO *tideline_pem_source(const void *bytes, size_t count) {
    BIO *source = BIO_new(BIO_s_mem());
    if (source == NULL) return NULL;
    BIO_set_mem_eof_return(source, 0);
    if (count > 0 && BIO_write(source, bytes, (int)count) != (int)count) {
        BIO_free(source);
        return NULL;
    }
    return source;
}

/// Whether the last fault is that nothing more begins.
static inline int tideline_pem_is_at_end(void) {
    return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

/// The text of what a source has collected; owned by it.
static inline long tideline_pem_text(BIO *source, char **text) {
    return BIO_get_mem_data(source, text);
}

// MARK: - Certificates

/// A new key on P-256, or NULL.
static inline EVP_PKEY *tideline_make_key(void) { return EVP_EC_gen("P-256"); }

static inline int tideline_add_extension(X509 *certificate, X509 *issuer, int kind,
                                         const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    int added = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

/// A certificate for a key: of an authority, signed by itself, where `names` is NULL; else of a
/// server with these names ("DNS:a,IP:1.2.3.4"), signed by the issuer. NULL when that fails.
static inline X509 *tideline_make_certificate(EVP_PKEY *key, const char *subject,
                                              const char *names, X509 *issuer,
                                              EVP_PKEY *issuer_key, int days) {
    X509 *certificate = X509_new();
    BIGNUM *number = BN_new();
    if (certificate == NULL || number == NULL) goto failed;
    X509 *signer = issuer == NULL ? certificate : issuer;
    X509_NAME *name = X509_get_subject_name(certificate);
    // An hour back, as clocks differ.
    if (X509_set_version(certificate, 2) != 1
        || BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1
        || BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) == NULL
        || X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) == NULL
        || X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, NULL) == NULL
        || X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)subject,
                                      -1, -1, 0) != 1
        || X509_set_pubkey(certificate, key) != 1
        || X509_set_issuer_name(certificate, X509_get_subject_name(signer)) != 1
        || !tideline_add_extension(certificate, signer, NID_subject_key_identifier, "hash"))
        goto failed;
    int done = names == NULL
        ? tideline_add_extension(certificate, signer, NID_basic_constraints,
                                 "critical,CA:TRUE,pathlen:0")
            && tideline_add_extension(certificate, signer, NID_key_usage,
                                      "critical,keyCertSign,cRLSign")
        : tideline_add_extension(certificate, signer, NID_basic_constraints, "critical,CA:FALSE")
            && tideline_add_extension(certificate, signer, NID_key_usage,
                                      "critical,digitalSignature")
            && tideline_add_extension(certificate, signer, NID_ext_key_usage, "serverAuth")
            && tideline_add_extension(certificate, signer, NID_authority_key_identifier,
                                      "keyid:always")
            && tideline_add_extension(certificate, signer, NID_subject_alt_name, names);
    if (!done || X509_sign(certificate, issuer_key, EVP_sha256()) == 0) goto failed;
    BN_free(number);
    return certificate;
failed:
    BN_free(number);
    X509_free(certificate);
    return NULL;
}

#endif

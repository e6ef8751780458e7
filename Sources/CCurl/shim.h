// libcurl, and fixed-type forms of its variadic calls, which Swift does not import.

#ifndef TIDELINE_CCURL_SHIM_H
#define TIDELINE_CCURL_SHIM_H

#include <curl/curl.h>

#if LIBCURL_VERSION_NUM < 0x075000
#error "libcurl 7.80 or newer is needed: CURLOPT_PREREQFUNCTION tells when a request is first sent"
#endif

typedef size_t (*tideline_curl_receiver)(char *bytes, size_t size, size_t count, void *context);
typedef int (*tideline_curl_starter)(void *context, char *remote_address, char *local_address,
                                     int remote_port, int local_port);

static inline CURLcode tideline_curl_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode tideline_curl_set_text(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode tideline_curl_set_headers(CURL *easy, struct curl_slist *headers) {
    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
}

static inline CURLcode tideline_curl_set_error_buffer(CURL *easy, char *buffer) {
    return curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, buffer);
}

// Only http and https; the numeric option is deprecated since 7.85.
static inline CURLcode tideline_curl_allow_only_http(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

// A call that is cancelled during a slow name lookup must not make its thread wait for the lookup.
static inline void tideline_curl_do_not_wait_for_lookups(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

// Copies the body, so that libcurl can send it again without asking.
static inline CURLcode tideline_curl_set_body(CURL *easy, const void *bytes, curl_off_t count) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, count);
    if (code == CURLE_OK) {
        code = curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, count == 0 ? "" : bytes);
    }
    return code;
}

// All three callbacks get the same context.
static inline void tideline_curl_set_callbacks(CURL *easy, tideline_curl_starter starter,
                                               tideline_curl_receiver header,
                                               tideline_curl_receiver body, void *context) {
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, starter);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, context);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
}

static inline void tideline_curl_set_body_receiver(CURL *easy, tideline_curl_receiver receiver,
                                                   void *context) {
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receiver);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
}

static inline long tideline_curl_status(CURL *easy) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// Where an answer redirects to, resolved; NULL when it does not. Owned by the handle.
static inline const char *tideline_curl_redirect(CURL *easy) {
    char *url = NULL;
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &url);
    return url;
}

static inline void tideline_curl_keep_connections(CURLM *multi, long count) {
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, count);
}

// The result of a finished transfer: a member of a union, which Swift reads less safely.
static inline CURLcode tideline_curl_result(const CURLMsg *message) {
    return message->data.result;
}

#endif

// Typed doors to libcurl's variadic functions, which Swift does not import, and to one union.
#include <curl/curl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static inline CURLcode ccurl_set_long(CURL *h, CURLoption o, long v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode ccurl_set_offset(CURL *h, CURLoption o, curl_off_t v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode ccurl_set_string(CURL *h, CURLoption o, const char *v) { return curl_easy_setopt(h, o, v); }
static inline CURLcode ccurl_set_pointer(CURL *h, CURLoption o, void *v) { return curl_easy_setopt(h, o, v); }

// libcurl keeps its own copy of the bytes.
static inline CURLcode ccurl_set_blob(CURL *h, CURLoption o, const void *bytes, size_t count) {
    struct curl_blob blob = {.data = (void *)bytes, .len = count, .flags = CURL_BLOB_COPY};
    return curl_easy_setopt(h, o, &blob);
}

static inline void ccurl_set_receivers(CURL *h, curl_write_callback header, curl_write_callback body, void *context) {
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, context);
}
static inline void ccurl_set_senders(CURL *h, curl_read_callback read, curl_seek_callback seek, void *context) {
    curl_easy_setopt(h, CURLOPT_READFUNCTION, read);
    curl_easy_setopt(h, CURLOPT_READDATA, context);
    curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, seek);
    curl_easy_setopt(h, CURLOPT_SEEKDATA, context);
}
static inline void ccurl_set_guards(CURL *h, curl_opensocket_callback open, curl_prereq_callback ready, void *context) {
    curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open);
    curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, context);
    curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, ready);
    curl_easy_setopt(h, CURLOPT_PREREQDATA, context);
}

static inline void ccurl_set_resolver_listener(CURL *h, curl_resolver_start_callback start, void *context) {
    curl_easy_setopt(h, CURLOPT_RESOLVER_START_FUNCTION, start);
    curl_easy_setopt(h, CURLOPT_RESOLVER_START_DATA, context);
}

static inline CURLcode ccurl_get_long(CURL *h, CURLINFO i, long *v) { return curl_easy_getinfo(h, i, v); }
static inline CURLcode ccurl_get_offset(CURL *h, CURLINFO i, curl_off_t *v) { return curl_easy_getinfo(h, i, v); }
static inline CURLcode ccurl_get_string(CURL *h, CURLINFO i, char **v) { return curl_easy_getinfo(h, i, v); }
static inline CURLcode ccurl_get_pointer(CURL *h, CURLINFO i, void **v) { return curl_easy_getinfo(h, i, v); }

// OpenSSL's own static names for the session of the connection that a callback is about; 0 when there is none, or
// another library made it.
static inline int ccurl_tls_names(CURL *h, const char **protocol, const char **cipher) {
    struct curl_tlssessioninfo *session = NULL;
    if (curl_easy_getinfo(h, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK || session == NULL) return 0;
    if (session->backend != CURLSSLBACKEND_OPENSSL || session->internals == NULL) return 0;
    *protocol = SSL_get_version((SSL *)session->internals);
    *cipher = SSL_get_cipher_name((SSL *)session->internals);
    return 1;
}

// Lets `listen` hear libcurl's words about a transfer while CURLOPT_VERBOSE is set.
static inline void ccurl_set_listener(CURL *h, curl_debug_callback listen, void *context) {
    curl_easy_setopt(h, CURLOPT_DEBUGFUNCTION, listen);
    curl_easy_setopt(h, CURLOPT_DEBUGDATA, context);
}

// Whether the other end has said over TLS that nothing more comes (close_notify, RFC 8446 section 6.1): 1 or 0; -1
// when the connection has no TLS, or another library's.
static inline int ccurl_has_close_notify(CURL *h) {
    struct curl_tlssessioninfo *session = NULL;
    if (curl_easy_getinfo(h, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK || session == NULL) return -1;
    if (session->backend != CURLSSLBACKEND_OPENSSL || session->internals == NULL) return -1;
    return (SSL_get_shutdown((SSL *)session->internals) & SSL_RECEIVED_SHUTDOWN) != 0;
}

// Reads what the other end had still sent over TLS before it hung up: at most `count` bytes; 0 when there is
// nothing, or several requests share the connection. Only while libcurl says that SSL_write() has failed: it
// reads no more from the connection afterwards.
static inline size_t ccurl_read_rest(CURL *h, char *bytes, size_t count) {
    struct curl_tlssessioninfo *session = NULL;
    if (curl_easy_getinfo(h, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK || session == NULL) return 0;
    if (session->backend != CURLSSLBACKEND_OPENSSL || session->internals == NULL) return 0;
    SSL *tls = (SSL *)session->internals;
    const unsigned char *protocol = NULL;
    unsigned length = 0;
    SSL_get0_alpn_selected(tls, &protocol, &length);
    if (length == 2 && protocol[0] == 'h' && protocol[1] == '2') return 0;
    size_t done = 0;
    while (done < count) {
        int read = SSL_read(tls, bytes + done, (int)(count - done));
        if (read <= 0) break;
        done += (size_t)read;
    }
    ERR_clear_error();
    return done;
}

static inline CURLMcode ccurl_multi_set_long(CURLM *m, CURLMoption o, long v) { return curl_multi_setopt(m, o, v); }
static inline void ccurl_multi_set_callbacks(CURLM *m, curl_socket_callback s, curl_multi_timer_callback t, void *context) {
    curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, s);
    curl_multi_setopt(m, CURLMOPT_SOCKETDATA, context);
    curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, t);
    curl_multi_setopt(m, CURLMOPT_TIMERDATA, context);
}
static inline CURLcode ccurl_message_result(const CURLMsg *m) { return m->data.result; }

// Macros that are not imported: casts, and a name for an enumerator.
static const long CCURL_AUTH_BASIC = (long)CURLAUTH_BASIC;
static const long CCURL_AUTH_DIGEST = (long)CURLAUTH_DIGEST;
static const long CCURL_AUTH_NTLM = (long)CURLAUTH_NTLM;
static const CURLversion CCURL_VERSION_NOW = CURLVERSION_NOW;

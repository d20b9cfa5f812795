// Typed doors to libcrypto's macros; everything else is called as it is.
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

static inline int copenssl_gcm_get_tag(EVP_CIPHER_CTX *c, int length, void *tag) {
    return EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, length, tag);
}
static inline int copenssl_gcm_set_tag(EVP_CIPHER_CTX *c, int length, void *tag) {
    return EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, length, tag);
}
static inline int copenssl_is_end_of_pem(unsigned long error) {
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

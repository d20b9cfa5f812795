// Preloaded into the service by MissingDigestTests: a libcrypto without MD5, as where it is held to FIPS.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <strings.h>

void *EVP_MD_fetch(void *context, const char *algorithm, const char *properties) {
    if (strcasecmp(algorithm, "MD5") == 0) return 0;
    void *(*fetch)(void *, const char *, const char *) = dlsym(RTLD_NEXT, "EVP_MD_fetch");
    return fetch(context, algorithm, properties);
}

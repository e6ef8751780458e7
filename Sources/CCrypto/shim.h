// OpenSSL: libcrypto, and the constants whose macros Swift does not import.

#ifndef TIDELINE_CCRYPTO_SHIM_H
#define TIDELINE_CCRYPTO_SHIM_H

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error "OpenSSL 3.0 or newer is needed: keys are made with EVP_PKEY_fromdata"
#endif

static const int tideline_pkcs1_padding = RSA_PKCS1_PADDING;
static const int tideline_pss_padding = RSA_PKCS1_PSS_PADDING;
static const int tideline_pss_salt_as_digest = RSA_PSS_SALTLEN_DIGEST;

// A public key of a kind from its parameters, or NULL.
static inline EVP_PKEY *tideline_key(const char *kind, OSSL_PARAM *parameters) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
    if (context != NULL && EVP_PKEY_fromdata_init(context) == 1) {
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters);
    }
    EVP_PKEY_CTX_free(context);
    return key;
}

// Key and value of a parameter are kept as pointers until the key is made: hence in C, where a
// string literal outlives the call.
static inline EVP_PKEY *tideline_rsa_key(const unsigned char *modulus, int modulus_count,
                                         const unsigned char *exponent, int exponent_count) {
    EVP_PKEY *key = NULL;
    OSSL_PARAM *parameters = NULL;
    BIGNUM *n = BN_bin2bn(modulus, modulus_count, NULL);
    BIGNUM *e = BN_bin2bn(exponent, exponent_count, NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (n != NULL && e != NULL && builder != NULL
        && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1
        && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1) {
        parameters = OSSL_PARAM_BLD_to_param(builder);
    }
    if (parameters != NULL) key = tideline_key("RSA", parameters);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    return key;
}

// From a point of a named curve in the uncompressed form: 0x04, x, y.
static inline EVP_PKEY *tideline_ec_key(const char *group, const unsigned char *point,
                                        size_t count) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)point, count),
        OSSL_PARAM_construct_end(),
    };
    return tideline_key("EC", parameters);
}

static inline EVP_PKEY *tideline_ed25519_key(const unsigned char *bytes, size_t count) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)bytes, count),
        OSSL_PARAM_construct_end(),
    };
    return tideline_key("ED25519", parameters);
}

// A key with the public parameters of another one.
static inline EVP_PKEY *tideline_public_copy(const EVP_PKEY *key, const char *kind) {
    EVP_PKEY *copy = NULL;
    OSSL_PARAM *parameters = NULL;
    if (EVP_PKEY_todata(key, EVP_PKEY_PUBLIC_KEY, &parameters) == 1) {
        copy = tideline_key(kind, parameters);
    }
    OSSL_PARAM_free(parameters);
    return copy;
}

#endif

#pragma once
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <openssl/pem.h>
#include <openssl/bio.h>

// Macros of OpenSSL 3 that the Swift importer cannot see, as functions of the same meaning.

static inline long bearerd_SSL_set_tlsext_host_name(SSL *ssl, const char *name) {
  return SSL_set_tlsext_host_name(ssl, name);
}
static inline long bearerd_SSL_CTX_set_min_proto_version(SSL_CTX *ctx, int version) {
  return SSL_CTX_set_min_proto_version(ctx, version);
}
static inline long bearerd_SSL_CTX_set_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_mode(ctx, mode); }
static inline long bearerd_SSL_CTX_set_session_cache_mode(SSL_CTX *ctx, long mode) {
  return SSL_CTX_set_session_cache_mode(ctx, mode);
}
static inline long bearerd_SSL_CTX_add_extra_chain_cert(SSL_CTX *ctx, X509 *certificate) {
  return SSL_CTX_add_extra_chain_cert(ctx, certificate);
}
// At exit(3) OpenSSL would free its locks under threads that still work.
static inline void bearerd_openssl_without_atexit(void) { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); }
static inline void bearerd_SSL_CTX_set_read_ahead(SSL_CTX *ctx, int on) { SSL_CTX_set_read_ahead(ctx, on); }
static inline EVP_PKEY *bearerd_EVP_EC_gen(const char *curve) { return EVP_EC_gen(curve); }
static inline EVP_PKEY *bearerd_EVP_RSA_gen(unsigned int bits) { return EVP_RSA_gen(bits); }
static inline int bearerd_SSL_in_init(const SSL *ssl) { return SSL_in_init(ssl); }
static inline long bearerd_SSL_CTX_set1_groups_list(SSL_CTX *ctx, const char *list) {
  return SSL_CTX_set1_groups_list(ctx, (char *)list);
}

#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/log.h"

namespace pacer::http {
namespace {

// The last of OpenSSL's errors, in its words.
std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "OpenSSL gives no reason";
}

// OpenSSL's words for a file that is not there are poor.
Status check_readable(const std::string& file, std::string_view what) {
  errno = 0;
  std::ifstream in(file);
  if (in && in.peek() != std::ifstream::traits_type::eof()) return Ok{};
  return error(Code::kBadFile, "cannot read the TLS {} file '{}': {}", what, file,
               errno != 0 ? std::strerror(errno) : "it is empty");
}

// A client that offers protocols without ours could only misunderstand us (RFC 7301, 3.2). Ours in
// the order in which we like them: curl --http1.0 offers nothing but the second.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned size, void*) {
  for (const std::string_view ours : {std::string_view("http/1.1"), std::string_view("http/1.0")}) {
    for (unsigned i = 0; i < size && offered[i] < size - i; i += 1u + offered[i]) {
      const std::string_view name(reinterpret_cast<const char*>(offered + i + 1), offered[i]);
      if (name != ours) continue;
      *out = offered + i + 1;
      *out_size = offered[i];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// OpenSSL would ask the terminal.
int no_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return 0;
}

void set_protocol(SSL_CTX* tls) {
  SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
  SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Quiet connections give their buffers back: most are quiet most of the time.
  SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(tls, choose_protocol, nullptr);
}

// What OpenSSL says to both files, asking nobody for a password.
struct Loaded {
  bool certificate = false;
  bool key = false;
  bool password_asked = false;
  bool differ = false;  // the key is one, but not the certificate's
  std::string why_not;
};

Loaded load(SSL_CTX* tls, const std::string& certificate_file, const std::string& key_file) {
  Loaded out;
  SSL_CTX_set_default_passwd_cb(tls, no_password);
  SSL_CTX_set_default_passwd_cb_userdata(tls, &out.password_asked);
  ERR_clear_error();
  out.certificate = SSL_CTX_use_certificate_chain_file(tls, certificate_file.c_str()) == 1;
  if (out.certificate) {
    out.key = SSL_CTX_use_PrivateKey_file(tls, key_file.c_str(), SSL_FILETYPE_PEM) == 1;
    // Taking a key checks it against the certificate too.
    const unsigned long code = ERR_peek_last_error();
    out.differ =
        ERR_GET_LIB(code) == ERR_LIB_X509 && (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
                                              ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH);
  }
  if (!out.key) out.why_not = reason();
  // Asio deletes what it finds here.
  SSL_CTX_set_default_passwd_cb_userdata(tls, nullptr);
  return out;
}

Status use_files(SSL_CTX* tls, const std::string& certificate_file, const std::string& key_file) {
  const Loaded loaded = load(tls, certificate_file, key_file);
  if (!loaded.certificate) {
    return error(Code::kBadFile, "the TLS certificate file '{}' has no usable certificate: {}",
                 certificate_file, loaded.why_not);
  }
  if (loaded.password_asked) {
    return error(Code::kBadFile, "the TLS key file '{}' is encrypted: give one without a password",
                 key_file);
  }
  if (!loaded.key && !loaded.differ) {
    return error(Code::kBadFile, "the TLS key file '{}' has no usable private key: {}", key_file,
                 loaded.why_not);
  }
  if (!loaded.key || SSL_CTX_check_private_key(tls) != 1) {
    return error(Code::kBadFile, "the TLS key in '{}' is not the one of the certificate in '{}'",
                 key_file, certificate_file);
  }
  return Ok{};
}

void warn_if_out_of_time(SSL_CTX* tls, const std::string& certificate_file) {
  const X509* certificate = SSL_CTX_get0_certificate(tls);
  if (certificate == nullptr) return;
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    log::warn("the TLS certificate in '{}' has expired: clients will refuse it", certificate_file);
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    log::warn("the TLS certificate in '{}' is not valid yet: clients will refuse it",
              certificate_file);
  }
}

}  // namespace

Result<std::shared_ptr<TlsContext>> make_tls_context(const std::string& certificate_file,
                                                     const std::string& key_file) {
  if (certificate_file.empty() || key_file.empty()) {
    return error(Code::kInvalidArgument,
                 "TLS takes a certificate file and a key file; the {} is missing",
                 certificate_file.empty() ? "certificate" : "key");
  }
  TRY(check_readable(certificate_file, "certificate"));
  TRY(check_readable(key_file, "key"));
  try {
    auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
    SSL_CTX* tls = context->native_handle();
    set_protocol(tls);
    TRY(use_files(tls, certificate_file, key_file));
    warn_if_out_of_time(tls, certificate_file);
    return context;
  } catch (const boost::system::system_error& e) {
    return error(Code::kInternal, "OpenSSL does not start: {}", e.what());
  }
}

}  // namespace pacer::http

// TLS for the tests of http/ only: a certificate made on the spot, and a client that speaks it.
#pragma once

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "http/test_client.h"

namespace pacer::http {

// A folder of its own for one test, removed afterwards.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "pacer_http_XXXXXX").string();
    path_ = mkdtemp(name.data()) != nullptr ? name : "";
    EXPECT_FALSE(path_.empty());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  std::string path_;
};

// <name>.crt and <name>.key: self-signed, for "localhost", valid from so many seconds from now on.
inline void make_certificate(const TestFolder& folder, const std::string& name, long from_s = -60,
                             long until_s = 3600) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  ASSERT_TRUE(key && certificate);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until_s);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  const auto save = [&](const std::string& suffix, auto write) {
    std::FILE* file = std::fopen(folder.file(name + suffix).c_str(), "w");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(write(file), 1);
    std::fclose(file);
  };
  save(".crt", [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  save(".key", [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

class TlsTestClient : public TestClient {
 public:
  struct Offer {
    std::string protocols = std::string("\x02h2\x08http/1.1");  // ALPN, each with its length
    int version_max = 0;                                        // 0: the newest
    bool handshake_now = true;
  };

  explicit TlsTestClient(uint16_t port) : TlsTestClient(port, Offer{}) {}
  TlsTestClient(uint16_t port, const Offer& offer, int receive_buffer = 0)
      : TestClient(port, receive_buffer), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_verify(context_, SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_security_level(context_, 0);  // or it would not even offer an old version
    SSL_CTX_set_max_proto_version(context_, offer.version_max);
    ssl_ = SSL_new(context_);
    SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(offer.protocols.data()),
                        static_cast<unsigned>(offer.protocols.size()));
    SSL_set_fd(ssl_, fd_);
    const timeval patience{static_cast<time_t>(kTestPatience.count()), 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (offer.handshake_now) handshake();
  }
  ~TlsTestClient() override {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }

  bool handshake() {
    ERR_clear_error();
    shaken_ = SSL_connect(ssl_) == 1;
    return shaken_;
  }
  bool shaken() const { return shaken_; }
  int version() const { return SSL_version(ssl_); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }

  // Ours: that we have finished sending. Theirs: seen once everything before it was read.
  void send_close_notify() { SSL_shutdown(ssl_); }
  bool got_close_notify() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }

 protected:
  ssize_t write_some(std::string_view bytes) override {
    ERR_clear_error();
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  ssize_t read_some(char* to, size_t size) override {
    ERR_clear_error();
    return SSL_read(ssl_, to, static_cast<int>(size));
  }
  bool has_pending() const override { return SSL_pending(ssl_) > 0; }

 private:
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool shaken_ = false;
};

}  // namespace pacer::http

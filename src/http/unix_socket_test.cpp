// The server on a unix socket: the file's life, and the same handlers behind it.
#include "http/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "http/test_server.h"
#include "http/test_tls.h"

namespace pacer::http {
namespace {

class UnixSocket : public testing::Test {
 protected:
  ServerOptions options() const {
    ServerOptions out = TestServer::defaults();
    out.tcp = false;
    out.unix_socket = path;
    return out;
  }
  bool exists() const {
    struct stat there {};
    return lstat(path.c_str(), &there) == 0;
  }
  // As a server that was killed leaves it.
  void leave_stale_socket() const {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(fd);
    ASSERT_TRUE(exists());
  }

  TestFolder folder;
  const std::string path = folder.file("pacer.sock");
};

TEST_F(UnixSocket, IsServedBesideTcpByTheSameHandlers) {
  ServerOptions both = options();
  both.tcp = true;
  TestServer server(both);
  TestClient local(path);
  local.request("GET", "/what");
  EXPECT_EQ(local.response().body, "GET /what|||unix");
  local.request("POST", "/echo", std::string(300'000, 'x'));
  EXPECT_EQ(local.response().body.size(), 300'000u);
  TestClient remote(server.port());
  remote.request("GET", "/what");
  EXPECT_EQ(remote.response().body, "GET /what|||127.0.0.1");
}

TEST_F(UnixSocket, AloneThereIsNoPort) {
  TestServer server(options());
  EXPECT_EQ(server.port(), 0);
  TestClient client(path);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST_F(UnixSocket, SpeaksPlainHttpWhenTcpSpeaksTls) {
  make_certificate(folder, "good");
  ServerOptions both = options();
  both.tcp = true;
  both.tls_certificate_file = folder.file("good.crt");
  both.tls_key_file = folder.file("good.key");
  TestServer server(both);
  TestClient local(path);
  local.request("GET", "/hello");
  EXPECT_EQ(local.response().body, "hello");
  TlsTestClient remote(server.port());
  remote.request("GET", "/hello");
  EXPECT_EQ(remote.response().body, "hello");
}

TEST_F(UnixSocket, StreamsAndPeersThatLeaveWorkAsOverTcp) {
  TestServer server(options());
  TestClient client(path);
  client.request("GET", "/stream");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  EXPECT_EQ(client.response_head().status, 200);
  writer->write("tick");
  EXPECT_EQ(client.chunk(), "tick");
  client.close();
  EXPECT_TRUE(eventually([&] { return server.gone == 1; }));
}

TEST_F(UnixSocket, OwnerAndGroupMayConnectAndOthersMayNot) {
  const mode_t old = umask(0);
  TestServer server(options());
  umask(old);
  struct stat there {};
  ASSERT_EQ(stat(path.c_str(), &there), 0);
  EXPECT_TRUE(S_ISSOCK(there.st_mode));
  EXPECT_EQ(there.st_mode & 0777, 0660u);
}

TEST_F(UnixSocket, IsRemovedWhenTheServerStopsAcceptingAndWhenItCannotStart) {
  {
    TestServer server(options());
    EXPECT_TRUE(exists());
    server.server->stop_accepting();
    EXPECT_TRUE(eventually([&] { return !exists(); }));
  }
  ServerOptions wrong = options();
  wrong.tcp = true;
  wrong.host = "300.1.1.1";
  EXPECT_FALSE(Server::start(wrong, Router{}));
  EXPECT_FALSE(exists());
}

TEST_F(UnixSocket, AStaleFileIsReplaced) {
  leave_stale_socket();
  TestServer server(options());
  TestClient client(path);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST_F(UnixSocket, ALiveOneIsRefusedAndStaysAlive) {
  TestServer first(options());
  const auto second = Server::start(options(), Router{});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another server answers"), std::string::npos)
      << second.error().message;
  EXPECT_NE(second.error().message.find(path), std::string::npos);
  TestClient client(path);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST_F(UnixSocket, AnotherKindOfFileIsRefusedAndKept) {
  folder.write("pacer.sock", "precious");
  const auto started = Server::start(options(), Router{});
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("another kind of file"), std::string::npos);
  EXPECT_TRUE(exists());
  // A link is not followed: what it points at is not ours to judge.
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder.file("elsewhere"), path);
  EXPECT_FALSE(Server::start(options(), Router{}));
  EXPECT_TRUE(exists());
}

TEST_F(UnixSocket, ASuccessorsSocketIsNotRemoved) {
  auto first = std::make_unique<TestServer>(options());
  std::filesystem::remove(path);  // as an admin does who starts the next one
  TestServer second(options());
  first.reset();
  EXPECT_TRUE(exists());
  TestClient client(path);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST_F(UnixSocket, PathsThatCannotBeAreOneSentence) {
  for (const std::string& wrong : {std::string(108, 'x'), folder.file("no/such/folder")}) {
    ServerOptions odd = options();
    odd.unix_socket = wrong;
    const auto started = Server::start(odd, Router{});
    ASSERT_FALSE(started) << wrong;
    EXPECT_NE(started.error().message.find(wrong), std::string::npos) << started.error().message;
  }
  ServerOptions nothing = options();
  nothing.unix_socket = "";
  const auto started = Server::start(nothing, Router{});
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("nothing to listen on"), std::string::npos);
}

// How many answers fill the socket is the kernel's affair: one of these numbers leaves no room for
// the 100, and its client takes nothing any more.
TEST_F(UnixSocket, AHundredThatIsNeverTakenDoesNotHoldItsConnection) {
  ServerOptions brief = options();
  brief.body_timeout = brief.write_timeout = brief.idle_timeout = std::chrono::milliseconds(100);
  TestServer server(brief);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t answers = 200; answers < 360; ++answers) {
    std::string requests;
    for (size_t i = 0; i < answers; ++i) requests += "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n";
    requests +=
        "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    clients.push_back(std::make_unique<TestClient>(path));
    clients.back()->send(requests);
  }
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }))
      << server.server->connection_count();
}

}  // namespace
}  // namespace pacer::http

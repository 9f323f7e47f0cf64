// Requests from bytes: cut anywhere, and refused where two readers might disagree.
#include <gtest/gtest.h>

#include "server/http_parser.h"

namespace fathom::server {
namespace {

HttpLimits limits() {
  HttpLimits limits;
  limits.header_bytes = 2048;
  limits.target_bytes = 256;
  limits.headers = 10;
  limits.body_bytes = 1000;
  return limits;
}

// Feeds pieces of `step` bytes; the status of the refusal, 0 where it is done, -1 where it waits.
int feed(const std::string& text, size_t step, HttpRequest* request = nullptr,
         size_t* used = nullptr) {
  const HttpLimits given = limits();
  HttpParser parser(given);
  std::string pending;
  size_t taken = 0;
  try {
    for (size_t at = 0; at < text.size() && !parser.done(); at += step) {
      pending += text.substr(at, step);
      size_t bytes = 0;
      do {
        bytes = parser.feed(pending);
        pending.erase(0, bytes);
        taken += bytes;
      } while (bytes > 0 && !pending.empty() && !parser.done());
    }
  } catch (const HttpError& error) {
    return error.status();
  }
  if (!parser.done()) return -1;
  if (request != nullptr) *request = parser.request();
  if (used != nullptr) *used = taken;
  return 0;
}

// The same however it is cut.
int feed_all_ways(const std::string& text) {
  const int whole = feed(text, text.size());
  for (const size_t step : {1u, 2u, 3u, 7u}) EXPECT_EQ(feed(text, step), whole) << text;
  return whole;
}

TEST(HttpParser, TakesARequestWithABody) {
  const std::string text =
      "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nX-One:  two \r\nContent-Length: "
      "5\r\n\r\n"
      "helloGET /";
  for (const size_t step : {1u, 2u, 5u, 13u, 1000u}) {
    HttpRequest request;
    size_t used = 0;
    ASSERT_EQ(feed(text, step, &request, &used), 0);
    EXPECT_EQ(used, text.size() - 5);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/chat/completions");
    EXPECT_EQ(request.query, "x=1");
    EXPECT_EQ(request.body, "hello");
    ASSERT_NE(request.header("x-one"), nullptr);
    EXPECT_EQ(*request.header("x-one"), "two");
    EXPECT_TRUE(request.keep_alive);
  }
}

TEST(HttpParser, JoinsChunks) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n6;note=1\r\n world\r\n0\r\nTrailer: x\r\n\r\nrest";
  for (const size_t step : {1u, 2u, 5u, 13u, 1000u}) {
    HttpRequest request;
    size_t used = 0;
    ASSERT_EQ(feed(text, step, &request, &used), 0) << step;
    EXPECT_EQ(request.body, "hello world");
    EXPECT_EQ(used, text.size() - 4);
    // What comes after the body is no header of the request.
    EXPECT_EQ(request.header("trailer"), nullptr);
  }
}

TEST(HttpParser, KnowsHowConnectionsAreKept) {
  const auto keeps = [](const std::string& text) {
    HttpRequest request;
    EXPECT_EQ(feed(text, text.size(), &request), 0);
    return request.keep_alive;
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(HttpParser, TakesTheAbsoluteFormAndAnEmptyLineBefore) {
  const std::string text = "\r\nGET http://host:1/a?b HTTP/1.1\r\nHost: host:1\r\n\r\n";
  for (const size_t step : {1u, 2u, 3u, 1000u}) {
    HttpRequest request;
    size_t used = 0;
    ASSERT_EQ(feed(text + "GET", step, &request, &used), 0) << step;
    EXPECT_EQ(used, text.size());
    EXPECT_EQ(request.path, "/a");
    EXPECT_EQ(request.query, "b");
  }
  EXPECT_EQ(feed_all_ways("\r\n\r\n"), -1);  // one line, not two
  EXPECT_EQ(feed_all_ways("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}

TEST(HttpParser, RefusesWhatTwoReadersMightUnderstandInTwoWays) {
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  for (const char* lines : {
           "Content-Length: 5\r\nContent-Length: 5\r\n",
           "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5, 5\r\n",
           "Content-Length: +5\r\n",
           "Content-Length: -1\r\n",
           "Content-Length: 0x5\r\n",
           "Content-Length: 99999999999999999999\r\n",
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Content-Length : 5\r\n",
           "Content-Length\t: 5\r\n",
           " Content-Length: 5\r\n",
           "X: a\r\n Content-Length: 5\r\n",
           "X: a\r\n\tb\r\n",
           "X: a\nContent-Length: 5\r\n",
           "X: a\rContent-Length: 5\r\n",
           "Host: b\r\n",
           "no colon\r\n",
           ": nothing\r\n",
       }) {
    EXPECT_EQ(feed_all_ways(post + lines + "\r\nhello"), 400) << lines;
  }
  EXPECT_EQ(feed_all_ways(post + std::string("X: a\0b\r\n\r\n", 10)), 400);
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, identity",
                             "\x0b"
                             "chunked",
                             "xchunked"}) {
    EXPECT_EQ(feed_all_ways(post + "Transfer-Encoding: " + coding + "\r\n\r\n"), 501) << coding;
  }
  EXPECT_EQ(feed_all_ways("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(HttpParser, RefusesBrokenFirstLines) {
  const std::string host = "\r\nHost: a\r\n\r\n";
  EXPECT_EQ(feed_all_ways("GET / HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(feed_all_ways("GET /" + host), 400);
  EXPECT_EQ(feed_all_ways("GET  / HTTP/1.1" + host), 400);
  EXPECT_EQ(feed_all_ways("GET /a b HTTP/1.1" + host), 400);
  EXPECT_EQ(feed_all_ways("GET / HTTP/1.2" + host), 505);
  EXPECT_EQ(feed_all_ways("GET / HTTP/2.0" + host), 505);
  EXPECT_EQ(feed_all_ways("GET / http/1.1" + host), 400);
  EXPECT_EQ(feed_all_ways("GET a HTTP/1.1" + host), 400);
  EXPECT_EQ(feed_all_ways(" GET / HTTP/1.1" + host), 400);
  EXPECT_EQ(feed_all_ways("G(T / HTTP/1.1" + host), 400);
  EXPECT_EQ(feed_all_ways("\x16\x03\x01\x02\r\n\r\n"), 400);  // TLS
  EXPECT_EQ(feed_all_ways("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

TEST(HttpParser, HoldsItsLimits) {
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(feed_all_ways(get + "X: " + std::string(3000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(feed_all_ways(get + "X: " + std::string(3000, 'x')), 431);  // without an end
  std::string many = get;
  for (int i = 0; i < 20; ++i) many += "X: y\r\n";
  EXPECT_EQ(feed_all_ways(many + "\r\n"), 431);
  EXPECT_EQ(feed_all_ways("GET /" + std::string(300, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(feed_all_ways(post + "Content-Length: 1001\r\n\r\n"), 413);
  EXPECT_EQ(feed_all_ways(post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                          std::string(1001, 'x') + "\r\n0\r\n\r\n"),
            413);
  EXPECT_EQ(feed_all_ways(post + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(9000, 'x')),
            400);
  // What is no chunk yet waits.
  EXPECT_EQ(feed_all_ways(post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\x03"), -1);
  for (const char* chunks :
       {"g\r\n", "-5\r\nhello\r\n", "5hello\r\n", "5\r\nhelloXX0\r\n\r\n", "fffffffffffffffff\r\nx",
        "5 \r\nhello\r\n", "\r\n", "5\nhello\r\n", "5\r\nhello\n", "0\r\n\x03\r\n",
        "0\r\n a: b\r\n", "0\r\na: b\rc\r\n", "+5\r\nhello\r\n", "0x5\r\nhello\r\n"}) {
    EXPECT_GE(feed_all_ways(post + "Transfer-Encoding: chunked\r\n\r\n" + chunks), 400) << chunks;
  }
}

}  // namespace
}  // namespace fathom::server

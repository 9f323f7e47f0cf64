#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message of the Error that `work` throws, which must be of `kind`.
template <typename Work>
std::string message_of(ErrorKind kind, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(File, ReadsAtOffsets) {
  const TemporaryFolder folder;
  put(folder / "a", "0123456789");
  const File file(folder / "a");
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(file.path(), folder / "a");
  std::string got(4, ' ');
  file.read_at(3, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, "3456");
  file.read_at(10, {});  // nothing is left to read, and nothing is asked for
}

TEST(File, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder / "nowhere.safetensors";
  const std::string message = message_of(ErrorKind::io, [&] { File{path}; });
  EXPECT_HAS(message, path);
  EXPECT_HAS(message, "No such file");
}

TEST(File, AFolderIsNoFile) {
  const TemporaryFolder folder;
  const std::string message = message_of(ErrorKind::io, [&] { File{folder.path()}; });
  EXPECT_HAS(message, folder.path());
  EXPECT_HAS(message, "folder");
}

TEST(File, APipeIsRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "model.safetensors").c_str(), 0600), 0);
  const std::string message =
      message_of(ErrorKind::io, [&] { File{folder / "model.safetensors"}; });
  EXPECT_HAS(message, "model.safetensors");
  EXPECT_HAS(message, "pipe");
  EXPECT_HAS(message_of(ErrorKind::io, [] { File{"/dev/null"}; }), "device");
}

TEST(File, ADanglingLinkIsNamed) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("../blobs/gone", folder / "model.safetensors");
  EXPECT_HAS(message_of(ErrorKind::io, [&] { File{folder / "model.safetensors"}; }),
             "model.safetensors");
}

TEST(File, ReadingPastTheEndNamesTheOffset) {
  const TemporaryFolder folder;
  put(folder / "short", "0123456789");
  const File file(folder / "short");
  std::vector<std::byte> into(8);
  const std::string message = message_of(ErrorKind::io, [&] { file.read_at(6, into); });
  EXPECT_HAS(message, folder / "short");
  EXPECT_HAS(message, "offset 10");
  EXPECT_HAS(message, "4 bytes");
  EXPECT_HAS(message_of(ErrorKind::io, [&] { file.read_at(1000, into); }), "offset 1000");
}

TEST(File, AFileCutWhileOpenIsAnError) {
  const TemporaryFolder folder;
  put(folder / "cut", std::string(1 << 16, 'x'));
  const File file(folder / "cut");
  std::filesystem::resize_file(folder / "cut", 100);
  std::vector<std::byte> into(1 << 16);
  EXPECT_HAS(message_of(ErrorKind::io, [&] { file.read_at(0, into); }), "offset 100");
}

TEST(File, AVanishedFileIsStillReadable) {
  const TemporaryFolder folder;
  put(folder / "a", "still here");
  const File file(folder / "a");
  std::filesystem::remove(folder / "a");
  std::string got(10, ' ');
  file.read_at(0, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, "still here");
}

TEST(File, MovesLeaveOneOwner) {
  const TemporaryFolder folder;
  put(folder / "a", "aaaa");
  put(folder / "b", "bbbb");
  File a(folder / "a");
  File b(folder / "b");
  File c(std::move(a));
  b = std::move(c);
  std::string got(4, ' ');
  b.read_at(0, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, "aaaa");
  EXPECT_EQ(b.path(), folder / "a");
}

TEST(FileThreads, ManyReadersAtOnce) {
  const TemporaryFolder folder;
  std::string text(1 << 16, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 251);
  put(folder / "a", text);
  const File file(folder / "a");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> readers;
  for (size_t r = 0; r < wrong.size(); ++r) {
    readers.emplace_back([&, r] {
      std::string got(777, ' ');
      for (size_t i = 0; i < 200; ++i) {
        const size_t offset = (i * 7919 + r * 104729) % (text.size() - got.size());
        file.read_at(offset, std::as_writable_bytes(std::span(got)));
        if (got != text.substr(offset, got.size())) ++wrong[r];
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(ReadStream, ReadsWhatHasNoSizeBeforehand) {
  const TemporaryFolder folder;
  put(folder / "a", "a file");
  EXPECT_EQ(read_stream(folder / "a"), "a file");
  EXPECT_EQ(read_stream("/dev/null"), "");
  EXPECT_FALSE(read_stream("/proc/self/status").empty());
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::string text(200'000, 'x');  // more than a pipe holds
  std::thread writer([&] { put(folder / "pipe", text); });
  EXPECT_EQ(read_stream(folder / "pipe"), text);
  writer.join();
}

TEST(ReadStream, NamesWhatCannotBeRead) {
  const TemporaryFolder folder;
  put(folder / "long", "0123456789");
  EXPECT_HAS(message_of(ErrorKind::input, [&] { read_stream(folder / "long", 9); }), "long");
  EXPECT_HAS(message_of(ErrorKind::io, [&] { read_stream(folder / "gone"); }), "gone");
  EXPECT_HAS(message_of(ErrorKind::io, [&] { read_stream(folder.path()); }), "folder");
}

TEST(OutputFile, WritesThroughWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = get(folder / "pipe"); });
  {
    OutputFile out(folder / "pipe");
    out.write("through");
    out.commit();
  }
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(OutputFile, KeepsALinkAndReplacesTheFileBehindIt) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "far");
  put(folder / "far/target", "before");
  std::filesystem::create_symlink("far/target", folder / "link");
  OutputFile out(folder / "link");
  out.write("after");
  out.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(get(folder / "far/target"), "after");
}

TEST(ReadText, ReturnsTheWholeFile) {
  const TemporaryFolder folder;
  const std::string text("zero \0 and a line\r\n", 19);
  put(folder / "a", text);
  put(folder / "empty", "");
  EXPECT_EQ(read_text(folder / "a"), text);
  EXPECT_EQ(read_text(folder / "empty"), "");
}

TEST(ReadText, MoreThanTheLimitIsRefused) {
  const TemporaryFolder folder;
  put(folder / "a", std::string(100, 'x'));
  EXPECT_EQ(read_text(folder / "a", 100).size(), 100u);
  const std::string message = message_of(ErrorKind::input, [&] { read_text(folder / "a", 99); });
  EXPECT_HAS(message, folder / "a");
  EXPECT_HAS(message, "99");
}

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  OutputFile file(folder / "out");
  file.write("first, ");
  file.write("second");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  file.commit();
  EXPECT_EQ(get(folder / "out"), "first, second");
  EXPECT_EQ(folder.count(), 1);
}

TEST(OutputFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "out");
    file.write("never seen");
  }
  EXPECT_EQ(folder.count(), 0);
}

TEST(OutputFile, KeepsTheOldContentUntilCommitted) {
  const TemporaryFolder folder;
  put(folder / "out", "old");
  {
    OutputFile file(folder / "out");
    file.write("abandoned");
  }
  EXPECT_EQ(get(folder / "out"), "old");
  OutputFile file(folder / "out");
  file.write("new");
  EXPECT_EQ(get(folder / "out"), "old");
  file.commit();
  EXPECT_EQ(get(folder / "out"), "new");
  EXPECT_EQ(folder.count(), 1);
}

TEST(OutputFile, TwoWritersOfOneNameDoNotMix) {
  const TemporaryFolder folder;
  OutputFile a(folder / "out");
  OutputFile b(folder / "out");
  a.write("aaaa");
  b.write("bb");
  b.commit();
  a.commit();
  EXPECT_EQ(get(folder / "out"), "aaaa");
  EXPECT_EQ(folder.count(), 1);
}

TEST(OutputFile, AMissingFolderIsNamed) {
  const TemporaryFolder folder;
  EXPECT_HAS(message_of(ErrorKind::io, [&] { OutputFile{folder / "no/out"}; }), folder / "no/out");
}

TEST(OutputFile, AFolderInTheWayIsAnErrorAndNothingIsLeft) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "out");
  EXPECT_HAS(message_of(ErrorKind::io,
                        [&] {
                          OutputFile file(folder / "out");
                          file.write("text");
                          file.commit();
                        }),
             folder / "out");
  EXPECT_EQ(folder.count(), 1);
}

// A device that is full refuses a write half way; a limit on the size of files does the same.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(OutputFile, AWriteThatFailsHalfWayNamesTheFileAndLeavesNothing) {
  const TemporaryFolder folder;
  put(folder / "out", "old");
  std::string message;
  {
    const SmallFiles limit(1000);
    message = message_of(ErrorKind::io, [&] {
      OutputFile file(folder / "out");
      file.write(std::string(600, 'x'));
      file.write(std::string(600, 'x'));
      file.commit();
    });
  }
  EXPECT_HAS(message, folder / "out");
  EXPECT_EQ(get(folder / "out"), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(OutputFile, SkipsAsHoles) {
  const TemporaryFolder folder;
  constexpr uint64_t kHole = uint64_t{1} << 30;
  {
    OutputFile file(folder / "out");
    file.write("begin");
    file.skip(kHole);
    file.skip(0);
    file.write("middle");
    file.skip(3);
    if (file.disk_bytes() > kHole / 2) GTEST_SKIP() << "this file system keeps no holes";
    file.commit();
  }
  const File file(folder / "out");
  ASSERT_EQ(file.size(), 5 + kHole + 6 + 3);
  std::string got(10, 'x');
  file.read_at(0, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, std::string("begin") + std::string(5, '\0'));
  file.read_at(kHole + 4, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, std::string("\0middle\0\0\0", 10));
}

TEST(OutputFile, AHoleThatIsTooLargeNamesTheFileAndLeavesNothing) {
  const TemporaryFolder folder;
  std::string message;
  {
    const SmallFiles limit(1000);
    message = message_of(ErrorKind::io, [&] {
      OutputFile file(folder / "out");
      file.write("begin");
      file.skip(1000);
      file.commit();
    });
  }
  EXPECT_HAS(message, folder / "out");
  EXPECT_HAS(message, "1005 bytes");
  EXPECT_EQ(folder.count(), 0);
}

TEST(File, AnUnreadableFileIsNamed) {
  const TemporaryFolder folder;
  put(folder / "secret", "x");
  chmod((folder / "secret").c_str(), 0);
  const bool root = geteuid() == 0;  // root may read everything, so be someone else meanwhile
  ASSERT_EQ(root ? seteuid(65534) : 0, 0);
  const std::string message = message_of(ErrorKind::io, [&] { File{folder / "secret"}; });
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  EXPECT_HAS(message, folder / "secret");
  EXPECT_HAS(message, "Permission denied");
}

}  // namespace
}  // namespace fathom

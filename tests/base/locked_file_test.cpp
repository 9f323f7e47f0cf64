#include "base/locked_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

void write(LockedFile& file, uint64_t offset, const std::string& text) {
  file.write_at(offset, std::as_bytes(std::span(text)));
}

std::string message_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    return error.what();
  }
  return "no error";
}

TEST(LockedFile, IsWrittenInPlace) {
  const TemporaryFolder folder;
  LockedFile file(folder / "f");
  EXPECT_EQ(file.size(), 0u);
  write(file, 0, "hello");
  write(file, 3, "p me");
  file.sync();
  file.drop_cached(0, 7);
  EXPECT_EQ(read_text(folder / "f"), "help me");
  file.truncate(4);
  EXPECT_EQ(file.size(), 4u);
  std::string text(4, ' ');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "help");
  const std::string past =
      message_of([&] { file.read_at(2, std::as_writable_bytes(std::span(text))); });
  EXPECT_NE(past.find(folder / "f"), std::string::npos) << past;
  EXPECT_NE(past.find("offset 4"), std::string::npos) << past;
}

TEST(LockedFile, ASecondOneIsRefusedByName) {
  const TemporaryFolder folder;
  {
    LockedFile file(folder / "f");
    const std::string refused = message_of([&] { LockedFile second(folder / "f"); });
    EXPECT_NE(refused.find(folder / "f"), std::string::npos) << refused;
    EXPECT_NE(refused.find("another program is using it"), std::string::npos) << refused;
  }
  LockedFile again(folder / "f");
}

TEST(LockedFile, AReplacementAppearsWholeAndStaysLocked) {
  const TemporaryFolder folder;
  LockedFile file(folder / "f");
  write(file, 0, "old");
  file.begin_replacement();
  EXPECT_EQ(file.size(), 0u);
  write(file, 0, "newer");
  EXPECT_EQ(read_text(folder / "f"), "old");
  file.commit_replacement();
  EXPECT_EQ(read_text(folder / "f"), "newer");
  EXPECT_EQ(folder.count(), 1);
  EXPECT_NE(message_of([&] { LockedFile second(folder / "f"); }), "no error");
  write(file, 5, "!");
  EXPECT_EQ(read_text(folder / "f"), "newer!");
}

TEST(LockedFile, ADiscardedReplacementLeavesTheOldContents) {
  const TemporaryFolder folder;
  {
    LockedFile file(folder / "f");
    write(file, 0, "old");
    file.begin_replacement();
    write(file, 0, "newer");
    file.discard_replacement();
    EXPECT_EQ(file.size(), 3u);
    file.begin_replacement();
    write(file, 0, "again");
  }
  EXPECT_EQ(read_text(folder / "f"), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(LockedFile, FoldersAndMissingFoldersAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(message_of([&] { LockedFile f(folder.path()); }).find(folder.path()),
            std::string::npos);
  EXPECT_NE(message_of([&] { LockedFile f(folder / "no/f"); }).find(folder / "no/f"),
            std::string::npos);
  EXPECT_NE(message_of([] { LockedFile f("/dev/null"); }).find("regular"), std::string::npos);
}

}  // namespace
}  // namespace fathom

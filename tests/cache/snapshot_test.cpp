#include "cache/snapshot.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

constexpr int64_t kLayers = 2;

SnapshotTag tag_of(KvFormat format = KvFormat::int8, int64_t layers = kLayers) {
  return {"0123456789abcdef0123456789abcdef", {layers, {format, 3, 2}}, kLayers, 1000};
}

// The byte of a row depends on everything that its contents may depend on.
std::byte value_of(int64_t layer, int64_t position, int32_t id, size_t i) {
  return static_cast<std::byte>(layer * 101 + position * 7 + id * 13 + static_cast<int64_t>(i));
}

// A pool and a sequence whose rows are made from ids, as a model would make them.
class Subject {
 public:
  explicit Subject(const SnapshotTag& tag = tag_of()) : pool_(tag.layout, 1000), sequence_(pool_) {}

  KvPagePool& pool() { return pool_; }
  void set(const std::vector<int32_t>& ids) {
    const size_t most = std::min(ids.size(), ids_.size());
    const auto same =
        std::mismatch(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(most), ids_.begin())
            .first -
        ids.begin();
    sequence_.truncate(same);
    ids_ = ids;
    const auto count = static_cast<int64_t>(ids.size()) - same;
    sequence_.prepare(count);
    for (int64_t p = same; p < same + count; ++p) {
      for (int64_t layer = 0; layer < sequence_.layout().layers; ++layer) {
        std::byte* row = sequence_.row(layer, p);
        for (size_t i = 0; i < static_cast<size_t>(sequence_.layout().row.bytes()); ++i) {
          row[i] = value_of(layer, p, ids[static_cast<size_t>(p)], i);
        }
      }
    }
    sequence_.commit(count);
  }
  // Rows of all ids but the last one, as after a sampled token.
  SnapshotContents contents(const std::string& note, int64_t mtp_length = 0) const {
    return {&sequence_, static_cast<int64_t>(ids_.size()) - 1, ids_, mtp_length, note};
  }
  KvSequence& sequence() { return sequence_; }
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  KvPagePool pool_;
  KvSequence sequence_;
  std::vector<int32_t> ids_;
};

std::vector<int32_t> counted(int32_t count, int32_t salt = 0) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(i * 3 + salt);
  return ids;
}

testing::AssertionResult holds(const LoadedSnapshot& loaded, const std::vector<int32_t>& ids,
                               const std::string& note, int64_t layers = kLayers) {
  if (loaded.ids != ids) return testing::AssertionFailure() << loaded.ids.size() << " ids";
  if (loaded.note != note) return testing::AssertionFailure() << "note '" << loaded.note << "'";
  if (loaded.sequence.length() != static_cast<int64_t>(ids.size()) - 1) {
    return testing::AssertionFailure() << loaded.sequence.length() << " rows";
  }
  for (int64_t p = 0; p < loaded.sequence.length(); ++p) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::byte* row = loaded.sequence.row(layer, p);
      for (size_t i = 0; i < static_cast<size_t>(loaded.sequence.layout().row.bytes()); ++i) {
        if (row[i] != value_of(layer, p, ids[static_cast<size_t>(p)], i)) {
          return testing::AssertionFailure() << "row " << p << " of layer " << layer;
        }
      }
    }
  }
  return testing::AssertionSuccess();
}

std::string refusal(const std::string& path, const SnapshotTag& tag = tag_of()) {
  KvPagePool pool(tag.layout, 1000);
  try {
    load_snapshot(path, tag, pool);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input) << error.what();
    EXPECT_NE(std::string(error.what()).find(path + ": offset "), std::string::npos)
        << error.what();
    return error.what();
  }
  return "no error";
}

// Written in place: some file systems flush a file to the disk when it was emptied first.
void put(const std::string& path, const std::string& bytes) {
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
  std::filesystem::resize_file(path, bytes.size());
}

// A file with three saves, the states behind them, and where each ends.
struct Stored {
  std::string bytes;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::string> notes;
  std::vector<uint64_t> ends;
};

Stored three_saves(const std::string& path) {
  Stored stored;
  SnapshotFile file(path, tag_of());
  Subject subject;
  EXPECT_FALSE(file.load(subject.pool()));
  const std::vector<std::vector<int32_t>> states = {counted(5), counted(68), counted(70)};
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string note = "note " + std::to_string(i);
    subject.set(states[i]);
    EXPECT_GT(file.save(subject.contents(note)), 0u);
    stored.ids.push_back(states[i]);
    stored.notes.push_back(note);
    stored.ends.push_back(file.bytes());
  }
  stored.bytes = read_text(path);
  EXPECT_EQ(stored.bytes.size(), stored.ends.back());
  return stored;
}

class SnapshotFormats : public testing::TestWithParam<KvFormat> {};

TEST_P(SnapshotFormats, ComeBackAsTheyWere) {
  const TemporaryFolder folder;
  const SnapshotTag tag = tag_of(GetParam());
  Subject subject(tag);
  std::vector<uint64_t> written;
  {
    SnapshotFile file(folder / "s", tag);
    EXPECT_FALSE(file.load(subject.pool()));
    for (const int32_t length : {1, 2, 63, 64, 65, 66, 200, 201}) {
      subject.set(counted(length));
      written.push_back(file.save(subject.contents("at " + std::to_string(length))));
      Subject other(tag);
      const auto loaded = load_snapshot(folder / "s", tag, other.pool());
      ASSERT_TRUE(loaded.has_value());
      EXPECT_TRUE(holds(*loaded, subject.ids(), "at " + std::to_string(length)));
      EXPECT_EQ(loaded->dropped_bytes, 0u);
    }
  }
  EXPECT_LT(written.back(), 512u) << "one row more is one row to write";
  Subject other(tag);
  SnapshotFile file(folder / "s", tag);
  const auto loaded = file.load(other.pool());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(holds(*loaded, subject.ids(), "at 201"));
  EXPECT_EQ(file.save(subject.contents("at 201")), 0u) << "nothing is new";
  EXPECT_EQ(folder.count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Snapshot, SnapshotFormats,
                         testing::Values(KvFormat::f32, KvFormat::bf16, KvFormat::int8));

TEST(Snapshot, AnOtherBranchReplacesTheRowsOfTheOldOne) {
  const TemporaryFolder folder;
  Subject subject;
  {
    SnapshotFile file(folder / "s", tag_of());
    file.load(subject.pool());
    subject.set(counted(100));
    file.save(subject.contents("long"));
    std::vector<int32_t> other = counted(40);
    for (int32_t i = 0; i < 30; ++i) other.push_back(500 + i);
    subject.set(other);
    const uint64_t written = file.save(subject.contents("branch"));
    EXPECT_LT(written, 1500u) << "40 rows are kept";
    subject.set(counted(10));
    file.save(subject.contents("short"));
  }
  SnapshotFile file(folder / "s", tag_of());
  const auto loaded = file.load(subject.pool());
  EXPECT_TRUE(holds(*loaded, counted(10), "short"));
  subject.set(counted(12));
  file.save(subject.contents("on"));
  EXPECT_TRUE(holds(*load_snapshot(folder / "s", tag_of(), subject.pool()), counted(12), "on"));
}

TEST(Snapshot, AFileOfOldContentsIsWrittenAnew) {
  const TemporaryFolder folder;
  Subject subject;
  SnapshotFile file(folder / "s", tag_of());
  file.load(subject.pool());
  uint64_t most = 0;
  bool shrank = false;
  for (int32_t i = 0; i < 60; ++i) {
    subject.set(counted(20, i));
    const std::string note(100'000, static_cast<char>('a' + i % 26));
    const uint64_t before = file.bytes();
    file.save(subject.contents(note));
    shrank = shrank || file.bytes() < before;
    most = std::max(most, file.bytes());
    Subject other;
    ASSERT_TRUE(holds(*load_snapshot(folder / "s", tag_of(), other.pool()), counted(20, i), note));
  }
  EXPECT_TRUE(shrank);
  EXPECT_LT(most, 1'500'000u);
  EXPECT_EQ(folder.count(), 1);
}

TEST(Snapshot, AnyFlippedBitIsRefused) {
  const TemporaryFolder folder;
  const Stored stored = three_saves(folder / "s");
  Subject subject;
  for (size_t at = 0; at < stored.bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      if (at > 700 && (at + static_cast<size_t>(bit)) % 8 != 0)
        continue;  // each byte at least once
      std::string damaged = stored.bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      put(folder / "s", damaged);
      EXPECT_NE(refusal(folder / "s"), "no error") << "byte " << at << ", bit " << bit;
    }
  }
}

TEST(Snapshot, ACutFileHoldsTheLastCompleteSave) {
  const TemporaryFolder folder;
  const Stored stored = three_saves(folder / "s");
  for (size_t length = 0; length <= stored.bytes.size(); ++length) {
    put(folder / "s", stored.bytes.substr(0, length));
    size_t complete = 0;
    while (complete < 3 && stored.ends[complete] <= length) ++complete;
    if (complete == 0 && length > 0) {
      EXPECT_NE(refusal(folder / "s"), "no error") << length;
      continue;
    }
    Subject subject;
    SnapshotFile file(folder / "s", tag_of());
    const auto loaded = file.load(subject.pool());
    ASSERT_EQ(loaded.has_value(), complete > 0) << length;
    if (complete == 0) continue;
    ASSERT_TRUE(holds(*loaded, stored.ids[complete - 1], stored.notes[complete - 1])) << length;
    EXPECT_EQ(loaded->dropped_bytes, length - stored.ends[complete - 1]);
    if (length % 61 != 0) continue;
    // And it goes on from there.
    subject.set(counted(71));
    file.save(subject.contents("on"));
    ASSERT_TRUE(holds(*load_snapshot(folder / "s", tag_of(), subject.pool()), counted(71), "on"))
        << length;
  }
}

TEST(Snapshot, AnEndOfZerosWasInterruptedAndAHoleInTheMiddleIsDamage) {
  const TemporaryFolder folder;
  const Stored stored = three_saves(folder / "s");
  for (uint64_t from = stored.ends[1]; from < stored.ends[2]; from += 64) {
    // The file's length was on the device, some of its contents were not.
    std::string zeroed = stored.bytes;
    std::fill(zeroed.begin() + static_cast<std::ptrdiff_t>(from), zeroed.end(), '\0');
    put(folder / "s", zeroed);
    if ((from - stored.ends[1]) % 128 == 64 && from - stored.ends[1] < 128) {
      EXPECT_NE(refusal(folder / "s"), "no error") << "half a header is none";
      continue;
    }
    Subject subject;
    const auto loaded = load_snapshot(folder / "s", tag_of(), subject.pool());
    ASSERT_TRUE(loaded.has_value());
    EXPECT_TRUE(holds(*loaded, stored.ids[1], stored.notes[1])) << from;
  }
  for (uint64_t from = 0; from < stored.ends[1]; from += 64) {
    std::string zeroed = stored.bytes;
    std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(from), 64, '\0');
    if (zeroed == stored.bytes) continue;
    put(folder / "s", zeroed);
    EXPECT_NE(refusal(folder / "s"), "no error") << from;
  }
}

TEST(Snapshot, SavesOfAnotherFileDoNotFit) {
  const TemporaryFolder folder;
  const Stored stored = three_saves(folder / "s");
  // The third save in the place of the second one, and twice.
  const auto part = [&stored](int i) {
    return stored.bytes.substr(
        stored.ends[static_cast<size_t>(i - 1)],
        stored.ends[static_cast<size_t>(i)] - stored.ends[static_cast<size_t>(i - 1)]);
  };
  const std::string first = stored.bytes.substr(0, stored.ends[0]);
  put(folder / "s", first + part(2));
  EXPECT_NE(refusal(folder / "s").find("belongs elsewhere"), std::string::npos);
  put(folder / "s", stored.bytes + part(2));
  EXPECT_NE(refusal(folder / "s").find("belongs elsewhere"), std::string::npos);
}

TEST(Snapshot, WhatIsForeignIsRefusedWithItsReason) {
  const TemporaryFolder folder;
  const Stored stored = three_saves(folder / "s");
  SnapshotTag tag = tag_of();
  tag.identity[3] = 'x';
  EXPECT_NE(refusal(folder / "s", tag).find("another model"), std::string::npos);
  EXPECT_NE(refusal(folder / "s", tag_of(KvFormat::bf16)).find("is int8, here it is bf16"),
            std::string::npos);
  tag = tag_of();
  tag.layout.row.latent = 4;
  EXPECT_NE(refusal(folder / "s", tag).find("2 layers of 3 + 2"), std::string::npos);
  tag = tag_of();
  tag.layout.layers = tag.main_layers = 3;
  EXPECT_NE(refusal(folder / "s", tag), "no error");
  tag = tag_of();
  tag.most_rows = 50;
  EXPECT_NE(refusal(folder / "s", tag).find("room for 50"), std::string::npos);
  std::string other = stored.bytes;
  other[8] = 2;
  put(folder / "s", other);
  EXPECT_NE(refusal(folder / "s").find("version 2"), std::string::npos);
  put(folder / "s", "some text that somebody wrote " + std::string(1000, '.'));
  EXPECT_NE(refusal(folder / "s").find("no snapshot"), std::string::npos);

  // A file that was refused is left as it is.
  SnapshotFile file(folder / "s", tag_of());
  Subject subject;
  EXPECT_THROW(file.load(subject.pool()), Error);
  EXPECT_EQ(read_text(folder / "s").substr(0, 9), "some text");
}

TEST(Snapshot, IsOneProgramsAlone) {
  const TemporaryFolder folder;
  SnapshotFile file(folder / "s", tag_of());
  try {
    SnapshotFile second(folder / "s", tag_of());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(folder / "s"), std::string::npos);
  }
}

// Bytes that files may have, for the time of a test.
class FileLimit {
 public:
  explicit FileLimit(uint64_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(Snapshot, AFullDiskLeavesTheLastState) {
  const TemporaryFolder folder;
  Subject subject;
  SnapshotFile file(folder / "s", tag_of());
  file.load(subject.pool());
  subject.set(counted(30));
  file.save(subject.contents("kept"));
  subject.set(counted(130));
  const uint64_t before = file.bytes();
  // Wherever the disk is full: in the header, the rows, the note or the commit.
  uint64_t room = 0;
  bool saved = false;
  for (; !saved; room += 40) {
    try {
      const FileLimit limit(before + room);
      file.save(subject.contents("more"));
      saved = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_NE(std::string(error.what()).find(folder / "s"), std::string::npos) << error.what();
      Subject other;
      const auto loaded = load_snapshot(folder / "s", tag_of(), other.pool());
      ASSERT_TRUE(holds(*loaded, counted(30), "kept")) << room;
      EXPECT_EQ(loaded->dropped_bytes, 0u);
    }
  }
  EXPECT_GT(room, 1000u);
  EXPECT_TRUE(holds(*load_snapshot(folder / "s", tag_of(), subject.pool()), counted(130), "more"));
}

TEST(Snapshot, AFullDiskWhileAllIsWrittenAnewLeavesTheOldFile) {
  const TemporaryFolder folder;
  Subject subject;
  {
    SnapshotFile file(folder / "s", tag_of());
    file.load(subject.pool());
    subject.set(counted(30));
    file.save(subject.contents("old"));
  }
  SnapshotFile file(folder / "s", tag_of());
  file.start_anew();
  subject.set(counted(90, 1));
  for (const uint64_t room : {10u, 300u, 900u}) {
    const FileLimit limit(room);
    EXPECT_THROW(file.save(subject.contents("new")), Error);
    EXPECT_TRUE(holds(*load_snapshot(folder / "s", tag_of(), subject.pool()), counted(30), "old"));
    EXPECT_EQ(folder.count(), 1);
  }
  file.save(subject.contents("new"));
  EXPECT_TRUE(holds(*load_snapshot(folder / "s", tag_of(), subject.pool()), counted(90, 1), "new"));
}

TEST(Snapshot, RowsOfTheMtpLayerAreSavedOnceTheyAreFilled) {
  const TemporaryFolder folder;
  const SnapshotTag tag = tag_of(KvFormat::int8, kLayers + 1);
  Subject subject(tag);
  SnapshotFile file(folder / "s", tag);
  file.load(subject.pool());
  subject.set(counted(80));
  // Row 70 of the MTP layer (of 79 rows) is not filled yet.
  subject.sequence().row(kLayers, 70)[0] = std::byte{99};
  file.save(subject.contents("", 70));
  subject.set(counted(81));
  subject.sequence().row(kLayers, 70)[0] = value_of(kLayers, 70, counted(81)[70], 0);
  file.save(subject.contents("", 79));
  const auto loaded = load_snapshot(folder / "s", tag, subject.pool());
  EXPECT_EQ(loaded->mtp_length, 79);
  EXPECT_TRUE(holds(*loaded, counted(81), "", kLayers + 1));
}

TEST(Snapshot, ServesARunWithoutTheMtpLayerAndBack) {
  const TemporaryFolder folder;
  const SnapshotTag with = tag_of(KvFormat::int8, kLayers + 1), without = tag_of();
  Subject subject(with);
  {
    SnapshotFile file(folder / "s", with);
    file.load(subject.pool());
    subject.set(counted(80));
    file.save(subject.contents("with", 70));
  }
  Subject other(without);
  {
    SnapshotFile file(folder / "s", without);
    const auto loaded = file.load(other.pool());
    EXPECT_TRUE(holds(*loaded, counted(80), "with"));
    EXPECT_EQ(loaded->mtp_length, 0);
    other.set(counted(85));
    file.save(other.contents("without"));
    other.set(counted(86));
    file.save(other.contents("without"));
  }
  const auto loaded = load_snapshot(folder / "s", with, subject.pool());
  EXPECT_TRUE(holds(*loaded, counted(86), "without"));
  EXPECT_EQ(loaded->mtp_length, 0) << "nothing is known of that layer";
}

}  // namespace
}  // namespace fathom

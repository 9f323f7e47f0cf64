// Contents against hashes from the hub's client and from lists.
#include <set>

#include "checkpoint/hashes.h"
#include "tests/checkpoint/verify_fixture.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// SHA-256 and git blob SHA-1 of "hello\n", as sha256sum and git hash-object say.
constexpr const char* kHelloSha256 =
    "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
constexpr const char* kHelloGit = "ce013625030ba8dba906f756967f9e9ca394464a";

TEST(VerifyHash, KnownContent) {
  const TemporaryFolder folder;
  write_file(folder / "f", "hello\n");
  uint64_t done = 0;
  const auto advance = [&done](uint64_t bytes) { done += bytes; };
  EXPECT_EQ(hash_file(File(folder / "f"), HashKind::sha256, advance), kHelloSha256);
  EXPECT_EQ(hash_file(File(folder / "f"), HashKind::git_blob_sha1, advance), kHelloGit);
  EXPECT_EQ(done, 12u);
  EXPECT_EQ(parse_content_hash(std::string("W/\"") + kHelloGit + "\"")->kind,
            HashKind::git_blob_sha1);
  EXPECT_FALSE(parse_content_hash("abc"));
  EXPECT_FALSE(parse_content_hash(std::string(64, 'g')));
}

// What a download by the hub's client looks like.
class VerifyDownload : public Verify {
 protected:
  void SetUp() override {
    Verify::SetUp();
    for (const int number : {1, 2, 3}) {
      write_metadata(shard(number), hash(shard(number), HashKind::sha256));
    }
    write_metadata("config.json", hash("config.json", HashKind::git_blob_sha1));
  }
  std::string hash(const std::string& name, HashKind kind) const {
    return hash_file(File(path(name)), kind, [](uint64_t) {});
  }
  void write_metadata(const std::string& name, const std::string& etag) const {
    fs::create_directories(path(".cache/huggingface/download"));
    write_file(path(".cache/huggingface/download/" + name + ".metadata"),
               "0123456789\n" + etag + "\n1737000000.5\n");
  }
  // The same size, another byte in the middle of a tensor.
  void flip(const std::string& name) const {
    const TensorInfo tensor = place(name);
    std::string byte(1, '\0');
    File(path(file_of(tensor))).read_at(tensor.offset, std::as_writable_bytes(std::span(byte)));
    byte[0] = static_cast<char>(byte[0] ^ 1);
    overwrite(file_of(tensor), tensor.offset, byte);
  }
  std::set<std::string> listing() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(model())) names.insert(entry.path());
    return names;
  }
};

TEST_F(VerifyDownload, ContentAgainstTheClientsEtags) {
  const std::set<std::string> before = listing();
  const VerifyReport good = verify_hashed();
  EXPECT_TRUE(good.good());
  EXPECT_EQ(counted(good, VerifyCheck::hashes).checked, 4u);
  EXPECT_EQ(listing(), before);

  flip(expert_);
  const std::string file = file_of(place(expert_));
  const VerifyReport report = verify_hashed();
  const Finding finding = only(report);
  EXPECT_EQ(finding.check, VerifyCheck::hashes);
  EXPECT_EQ(finding.file, file);
  expect_contains(finding.problem, {"SHA-256", hash(file, HashKind::sha256), ".metadata"});
  EXPECT_EQ(report.to_download(), std::vector<std::string>{file});
}

TEST_F(VerifyDownload, ASmallFileByItsBlobHash) {
  write_metadata("config.json", std::string(40, '1'));
  expect_contains(only(verify_hashed()).problem, {"git blob SHA-1"});
}

TEST_F(VerifyDownload, AListOfSums) {
  std::string list = "# made by sha256sum\n";
  for (const int number : {1, 2, 3}) {
    list += hash(shard(number), HashKind::sha256) + (number == 2 ? " *./" : "  ") + shard(number) +
            "\n";
  }
  write_file(folder_ / "sums", list);
  EXPECT_TRUE(verify_hashed(folder_ / "sums").good());
  write_file(folder_ / "sums", list + kHelloSha256 + "  absent.safetensors\n");
  EXPECT_EQ(only(verify_hashed(folder_ / "sums")).file, "absent.safetensors");
  write_file(folder_ / "sums", list + kHelloSha256 + "  ../given.json\n");
  expect_contains(error_of([&] { verify_hashed(folder_ / "sums"); }), {"sums:5", "../given.json"});
  write_file(folder_ / "sums", "hello\n");
  expect_contains(error_of([&] { verify_hashed(folder_ / "sums"); }), {"sums:1"});
}

TEST_F(VerifyDownload, WithoutAnyHashItIsAnError) {
  fs::remove_all(path(".cache"));
  expect_contains(error_of([&] { verify_hashed(); }), {"--sums"});
}

TEST_F(VerifyDownload, InTheHubsCacheTheBlobsNamesAreTheHashes) {
  const std::string repository = folder_ / "models--a--b";
  const std::string snapshot = repository + "/snapshots/abc";
  fs::create_directories(snapshot);
  fs::create_directories(repository + "/blobs");
  fs::create_directories(repository + "/refs");
  write_file(repository + "/refs/main", "abc");
  for (const std::string& name :
       {shard(1), shard(2), shard(3), std::string(kIndexName), std::string("config.json")}) {
    const std::string blob =
        hash(name, name.ends_with(".json") ? HashKind::git_blob_sha1 : HashKind::sha256);
    fs::copy_file(path(name), repository + "/blobs/" + blob);
    fs::create_symlink("../../blobs/" + blob, snapshot + "/" + name);
  }
  VerifyOptions o;
  o.folder = repository;
  o.hashes = true;
  const VerifyReport report = verify_checkpoint(o);
  EXPECT_TRUE(report.good());
  EXPECT_EQ(counted(report, VerifyCheck::hashes).checked, 5u);
}

TEST_F(VerifyDownload, ResumesWhereItStopped) {
  const std::string record = folder_ / "record";
  const VerifyReport first = verify_hashed("", record);
  EXPECT_EQ(first.hashes_resumed, 0u);
  EXPECT_GT(first.bytes_hashed, 0u);
  const VerifyReport second = verify_hashed("", record);
  EXPECT_TRUE(second.good());
  EXPECT_EQ(second.hashes_resumed, 4u);
  EXPECT_EQ(second.bytes_hashed, 0u);

  // Killed in the middle of a line: the lines before it count.
  std::string text = read_text(record);
  write_file(record, text.substr(0, text.size() - 9));
  const VerifyReport third = verify_hashed("", record);
  EXPECT_EQ(third.hashes_resumed, 3u);
  EXPECT_TRUE(third.good());

  // What changed since is hashed anew.
  flip(expert_);
  const std::string file = file_of(place(expert_));
  fs::last_write_time(path(file), fs::last_write_time(path(file)) + std::chrono::seconds(2));
  const VerifyReport fourth = verify_hashed("", record);
  EXPECT_EQ(fourth.hashes_resumed, 3u);
  EXPECT_EQ(only(fourth).file, file);
  // The wrong hash is remembered as what it is, and is as wrong the next time.
  const VerifyReport fifth = verify_hashed("", record);
  EXPECT_EQ(fifth.hashes_resumed, 4u);
  EXPECT_EQ(only(fifth).file, file);
}

TEST_F(VerifyDownload, ACancelledOneGoesOnFromItsRecord) {
  CancelToken cancel;
  cancel.cancel();
  VerifyOptions o;
  o.folder = model();
  o.hashes = true;
  o.resume_file = folder_ / "record";
  o.cancel = &cancel;
  error_of([&] { verify_checkpoint(o); }, ErrorKind::cancelled);
  EXPECT_TRUE(verify_hashed("", folder_ / "record").good());
}

TEST_F(VerifyDownload, TheRecordIsNeverWrittenIntoTheFolderNorOverOtherFiles) {
  const std::set<std::string> before = listing();
  fs::create_symlink(path("record"), folder_ / "link");
  fs::create_directory_symlink(model(), folder_ / "door");
  for (const std::string& inside :
       {path("record"), std::string(folder_ / "link"), std::string(folder_ / "door/record")}) {
    error_of([&] { verify_hashed("", inside); }, ErrorKind::usage);
  }
  EXPECT_EQ(listing(), before);
  expect_contains(error_of([&] { verify_hashed("", folder_ / "given.json"); }),
                  {"given.json", "name another file"});
  write_file(folder_ / "notes", "dear diary\n");
  error_of([&] { verify_hashed("", folder_ / "notes"); });
  EXPECT_EQ(read_text(folder_ / "notes"), "dear diary\n");
}

}  // namespace
}  // namespace fathom

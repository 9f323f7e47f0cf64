// The QHexRT contract: the host looks up embeddings, makes the rotary tables and the mask, keeps
// keys and values; the graphs take one position (decode, in one piece or in shards that run in a
// chain) or many (prefill), and the head gives logits. Everything between them is float16.
//
//   decode:  x [1,hidden], cos, sin [1,head_dim] (each half the same), cmask [max_ctx] of 0 and
//            -inf, past_k_i, past_v_i [max_ctx,kv_dim]  ->  y [1,hidden], new_k_i, new_v_i
//   prefill: the same with P rows and cmask [P,P], without a past
//   lmhead:  one tensor in, one out
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/file.h"
#include "graph/graph_decoder.h"
#include "graph/qhexrt/manifest.h"

namespace fathom {

// The manifest that `choice` names, else that of the folder.
QhexrtManifest read_qhexrt_manifest(const std::string& folder, const GraphChoice& choice);
// The folder of the manifest's files.
std::string artifacts_of(const QhexrtManifest& manifest, const GraphChoice& choice);
// Error(input) where the embedding's size is not vocab x hidden float16.
File open_qhexrt_embedding(const QhexrtManifest& manifest, const std::string& root);

class QhexrtModel : public GraphDecoder {
 public:
  QhexrtModel(QhexrtManifest manifest, const GraphChoice& choice);
  ~QhexrtModel() override;

  const GraphModelShape& shape() const override { return shape_; }
  void feed(std::span<const int32_t> ids, int64_t first, Span2d<float> hidden,
            const CancelToken* cancel) override;
  void head(Span2d<const float> hidden, Span2d<float> logits) override;
  std::vector<GraphRunner*> graphs() override;
  GraphSessions& sessions() override { return *sessions_; }

  const QhexrtManifest& manifest() const { return manifest_; }

 private:
  struct Layers {  // of one decode shard
    int64_t first = 0;
    std::vector<std::string> suffixes;  // of past_k_..., in order of layers
  };
  using Halves = Array<uint16_t>;

  void check_files();
  uint64_t bytes_of_files() const;
  std::string path_of(const std::string& file) const;
  std::string work_folder();
  std::unique_ptr<GraphRunner> open(const std::string& role, const QhexrtContext& context,
                                    const std::vector<TensorSpec>& inputs,
                                    const std::vector<TensorSpec>& outputs);
  void open_decode();
  void open_prefill();
  void open_head();
  // Which layers a graph has by its names; Error(input) naming what the contract does not know.
  Layers layers_of(const GraphRunner& runner, int64_t first, bool has_past) const;
  std::vector<TensorSpec> decoder_inputs(int64_t rows, int64_t first, int64_t layers) const;
  std::vector<TensorSpec> decoder_outputs(int64_t rows, int64_t first, int64_t layers) const;

  void look_up(int32_t id, uint16_t* row) const;
  void rotary_row(int64_t position, uint16_t* cosines, uint16_t* sines) const;
  void decode_one(int32_t id, int64_t position, float* hidden);
  int64_t prefill(std::span<const int32_t> ids, Span2d<float> hidden);
  uint16_t* key_row(int64_t layer, int64_t position) const;
  uint16_t* value_row(int64_t layer, int64_t position) const;

  QhexrtManifest manifest_;
  std::string root_;
  GraphChoice choice_;
  std::string temporary_;  // a folder of ours, removed at the end
  std::unique_ptr<GraphSessions> sessions_;
  GraphModelShape shape_;
  File embed_;
  std::vector<double> frequencies_;

  std::vector<std::unique_ptr<GraphRunner>> decode_;
  std::vector<Layers> decode_layers_;
  std::unique_ptr<GraphRunner> prefill_;
  Layers prefill_layers_;
  int64_t prefill_rows_ = 0;
  std::unique_ptr<GraphRunner> head_;
  TensorSpec head_input_;
  TensorSpec head_output_;

  Halves keys_;  // [layers, max_ctx, kv_dim]
  Halves values_;
  Halves x_[2];  // [hidden] on its way through the shards
  Halves cos_;   // [head_dim]
  Halves sin_;
  Halves cmask_;   // [max_ctx]
  Halves new_kv_;  // [2, layers, kv_dim] of the current position
};

}  // namespace fathom

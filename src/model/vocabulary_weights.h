// The two large tables of every model: the embedding and the head, which may be one tensor.
#pragma once

#include <string>

#include "experts/weight_loader.h"
#include "kernels/weight_view.h"
#include "model/embedding.h"

namespace fathom {

// Made int8_row while loading, or as stored. A tied head is one tensor with the embedding: both or
// none. An embedding in 8 bits is never on disk.
struct VocabularyChoice {
  bool int8_head = false;
  bool int8_embedding = false;
  bool embedding_on_disk = false;  // no effect where the head is tied to it
};

WeightView load_head(WeightLoader& loader, const std::string& name, const VocabularyChoice& choice);
Embedding load_embedding(WeightLoader& loader, const Checkpoint& checkpoint,
                         const std::string& name, const VocabularyChoice& choice);

struct VocabularyWeights {
  Embedding embed_tokens;  // [vocab, hidden]
  WeightView lm_head;      // [vocab, hidden]
};
// The model's own ones, by their released names; where `tied`, the head is the embedding.
VocabularyWeights load_vocabulary(WeightLoader& loader, const Checkpoint& checkpoint, bool tied,
                                  const VocabularyChoice& choice);

}  // namespace fathom
